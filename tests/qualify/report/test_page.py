from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from urllib.parse import unquote

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from bs4.element import Tag
from ruamel.yaml import YAML

from benchkit import units
from benchkit.models.run import HostRecord
from benchkit.report.page import page
from benchkit.report.report_files import draw_figures
from benchkit.report.stored_run import StoredRun
from tests.support.report.reading import attributes, one, parse, table_records, texts

MakeRun = Callable[..., StoredRun]
HOSTILE = "<script>alert(1)</script>\"'&\N{RIGHT-TO-LEFT OVERRIDE}"


def report(run: StoredRun, *, figures: bool = False) -> BeautifulSoup:
    """Return the parsed page of a run; without figures it takes milliseconds."""
    return parse(page(run, draw_figures(run) if figures else []))


def section_ids(root: Tag) -> list[str]:
    """Return the ids of the sections."""
    return attributes(root, "section", "id")


@pytest.fixture(scope="module")
def whole(run: StoredRun) -> BeautifulSoup:
    return report(run, figures=True)


def test_sections_and_contents_have_the_same_order(make_run: MakeRun) -> None:
    run = make_run(unsupported={"stack=nginx-go": "no nginx"}, notes=("fs.* is not isolated",))
    root = report(run, figures=True)
    order = ["answer", "results", "figures", "trials", "notes", "reproduce"]
    assert section_ids(root) == order
    assert attributes(root, "nav a", "href") == [f"#{name}" for name in order]


def test_sections_without_content_are_omitted(whole: BeautifulSoup) -> None:
    order = ["answer", "results", "ratios", "validity", "figures", "trials", "reproduce"]
    assert section_ids(whole) == order


def test_the_answer_precedes_everything_but_title_and_question(whole: BeautifulSoup, run: StoredRun) -> None:
    answer = run.answer
    section = one(whole, "#answer")
    assert texts(section, "p.statement") == list(answer.sentences)
    assert answer.sentences[0].startswith("nginx-go handled 0.55× the requests of go (95 % CI ")
    assert one(section, "p.trust").get_text() == answer.trust_sentence
    assert attributes(section, "figure", "id") == ["figure-ratios"]
    assert attributes(one(whole, "#figures"), "#figure-ratios", "id") == []
    text = whole.get_text()
    assert text.index(answer.sentences[0]) < text.index("Scenario") < text.index("Compared cells and results")


def test_an_answer_that_is_not_decided_is_marked(make_run: MakeRun) -> None:
    section = one(report(make_run(blocks=2)), "#answer")
    assert "not decided: 2 blocks have usable trials" in one(section, "p.trust.doubt").get_text()
    assert section.select("figure") == []


def test_headings_step_down_one_at_a_time(whole: BeautifulSoup) -> None:
    levels = [int(heading.name[1]) for heading in whole.select("h1, h2, h3, h4, h5, h6")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_ids_are_unique_and_links_have_targets(whole: BeautifulSoup) -> None:
    ids = attributes(whole, "[id]", "id")
    assert len(ids) == len(set(ids))
    targets = attributes(whole, "[href]", "href") + attributes(whole, "[aria-labelledby]", "aria-labelledby")
    assert {target.removeprefix("#") for target in targets if not target.startswith("data:")} <= set(ids)


def test_the_policy_admits_only_the_page_s_own_style_and_script(whole: BeautifulSoup) -> None:
    (policy,) = attributes(whole, "meta[http-equiv]", "content")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for directive, tag in (("style-src", "style"), ("script-src", "script")):
        digest = base64.b64encode(hashlib.sha256(one(whole, tag).get_text().encode()).digest()).decode()
        assert rules[directive] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"


def test_nothing_is_fetched(whole: BeautifulSoup) -> None:
    assert whole.select("img, iframe, object, embed, form, [style]") == []
    found = [(name, str(value)) for element in whole.select("*") for name, value in element.attrs.items()]
    links = [value for name, value in found if name in {"src", "href", "xlink:href", "action", "data", "srcset"}]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert not [name for name, _ in found if name.startswith("on")]
    assert "url(" not in one(whole, "style").get_text()
    assert "@import" not in one(whole, "style").get_text()


def test_data_is_escaped(make_run: MakeRun) -> None:
    run = make_run(
        {"stack": [HOSTILE, "go"]},
        scenario={"title": HOSTILE, "question": HOSTILE, "note": HOSTILE},
        unsupported={"stack=go": HOSTILE},
        notes=(HOSTILE,),
    )
    manifest = run.manifest.model_copy(
        update={
            "versions": {HOSTILE: HOSTILE},
            "hosts": (HostRecord(name=HOSTILE, roles=(HOSTILE,), facts={}),),
        }
    )
    facts = pd.DataFrame([{"host": HOSTILE, "role": "sut", "at": "start", "fact": HOSTILE, "value": HOSTILE}])
    run = StoredRun(manifest, run.trials.assign(trial_id=HOSTILE, tool=HOSTILE), facts)
    root = report(run, figures=True)
    assert "alert" not in one(root, "script").get_text()
    shown = HOSTILE.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "\N{REPLACEMENT CHARACTER}")
    assert texts(root, "h1") == [shown]
    assert table_records(root, "trials")[0]["Trial"] == shown
    assert shown in one(root, "#results").get_text()
    assert cells_of_host_table(root) == [[shown, shown]]
    assert table_records(root, "versions") == [{"Software": shown, "Version": shown}]
    assert shown in one(root, "#notes").get_text()
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in root.get_text()


def cells_of_host_table(root: Tag) -> list[list[str]]:
    """Return the texts of the only table of a host, whose id is as hostile as its name."""
    return [texts(row, "th, td") for row in one(root, "table[id^='table-facts']").select("tbody tr")]


def test_every_trial_is_in_the_table(whole: BeautifulSoup, run: StoredRun) -> None:
    rows = table_records(whole, "trials")
    assert [row["Trial"] for row in rows] == list(run.trials["trial_id"])
    first = run.trials.iloc[0]
    assert rows[0] == {
        "Block": "1",
        "Position": "1",
        "Cell": "go",
        "RPS": f"{first['rps']:,.0f}",
        "Errors": "0",
        "Non-2xx": "0",
        "Mean latency": "1.01 ms",
        "p50": units.seconds(first["latency_p50_s"]),
        "p90": "1.30 ms",
        "p99": "2.40 ms",
        "p99.9": "5.62 ms",
        "p99.99": "10.9 ms",
        "Longest latency": "16.3 ms",
        "Requests": f"{first['requests']:,}",
        "Received": "11.1 MB/s",
        "Window": "5.01 s",
        "Overhead": units.seconds(first["overhead_s"]),
        "Started (UTC)": "2026-03-01 10:23:17",
        "Trial": "synthetic-b1-p1",
    }


def test_closed_loop_latency_is_noted_wherever_it_is_shown(whole: BeautifulSoup) -> None:
    words = "closed loop: coordinated omission hides queueing"
    assert words in one(whole, "#figure-latency svg").get_text()
    assert words in texts(whole, "#trials p")[0]


def test_figures_have_a_description_and_a_link_to_their_data(whole: BeautifulSoup) -> None:
    for figure in whole.select("figure"):
        drawing = one(figure, "svg")
        assert drawing["role"] == "img"
        assert str(drawing["aria-label"]) in one(figure, "figcaption").get_text()
        (link,) = attributes(figure, "figcaption a", "href")
        assert link in {"#trials", "#ratios"}
        assert one(whole, f"section{link}")


def test_tables_have_captions_and_headings_of_columns_and_rows(make_run: MakeRun) -> None:
    claim = {"text": "x", "ratio": {"of": {"stack": "nginx-go"}, "to": {"stack": "go"}}, "at_least": 1}
    for table in report(make_run(blocks=3, scenario={"claims": [claim]})).select("table"):
        assert one(table, "caption").get_text()
        assert set(attributes(table, "th", "scope")) <= {"col", "row"}
        columns = len(table.select("th[scope=col]"))
        for row in table.select("tbody tr"):
            assert (len(row.select("th[scope=row]")), len(row.select("td"))) == (1, columns - 1)


def test_results_name_design_means_and_ratios(whole: BeautifulSoup) -> None:
    assert texts(whole, "#results p")[0] == (
        "2 cells (stack: go, nginx-go) in 5 blocks; 10 trials ended; wrk, 64 connections, measured for 5.00 s a trial."
    )
    assert [(row["Cell"], row["RPS"], row["Ratio"]) for row in table_records(whole, "cells")] == [
        ("go", "71,573", "\N{EN DASH}"),
        ("nginx-go", "39,639", "0.55\N{MULTIPLICATION SIGN} (95 % CI 0.54 to 0.57) of go"),
    ]


def test_a_run_without_an_ended_trial_says_so(run: StoredRun) -> None:
    root = report(replace(run, trials=run.trials.iloc[:0]))
    assert section_ids(root) == ["answer", "results", "reproduce"]
    assert one(root, "#results").get_text().count("no trial of it ended with a rate") == 2


@pytest.mark.parametrize("status", ["running", "failed", "interrupted"])
def test_an_unfinished_run_states_its_status_in_the_header(make_run: MakeRun, status: str) -> None:
    run = make_run()
    manifest = run.manifest.model_copy(update={"status": status, "ended_at": None})
    root = report(replace(run, manifest=manifest))
    assert f"This run is {status}. Partial results" in one(root, "header").get_text()
    assert "\N{EN DASH}" in one(root, "dl.facts").get_text()  # the duration is unknown


def test_hosts_have_facts_as_tuned(run: StoredRun) -> None:
    rows = [
        ("sut", "sut", "start", "sysctl.net.core.somaxconn", "4096"),
        ("sut", "load", "start", "sysctl.net.core.somaxconn", "4096"),
        ("sut", "sut", "start", "memory_bytes", "8589934592"),
        ("sut", "sut", "tuned", "sysctl.net.core.somaxconn", "65535"),
        ("sut", "sut", "tuned", "memory_bytes", "8589934592"),
        ("sut", "sut", "block 3", "governor", None),
        ("sut", "sut", "restored", "sysctl.net.core.somaxconn", "4096"),
    ]
    facts = pd.DataFrame(rows, columns=["host", "role", "at", "fact", "value"])
    root = report(replace(run, hosts=facts))
    assert table_records(root, "facts-sut") == [
        {"Fact": "sysctl.net.core.somaxconn", "Value": "65535"},
        {"Fact": "memory_bytes", "Value": "8589934592"},
    ]
    assert "No facts of this host are stored." in one(root, "#reproduce").get_text()


def test_the_command_and_the_scenario_repeat_the_run(make_run: MakeRun) -> None:
    run = make_run(seed=42, scenario={"load": {"tool": "wrk", "connections": 64}, "factors": {"stack": ["go", "on"]}})
    section = one(report(run), "#reproduce")
    assert texts(section, "code")[0] == "benchkit run synthetic --scale lab --seed 42"
    link = one(section, "a[download]")
    assert link["download"] == "synthetic-as-run.yaml"
    saved = unquote(str(link["href"]).partition(",")[2])
    assert YAML(typ="safe").load(saved) == run.manifest.scenario
    assert saved in section.get_text()
