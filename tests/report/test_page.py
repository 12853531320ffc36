from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import unquote

import pandas as pd
import pytest
from ruamel.yaml import YAML

from benchkit import units
from benchkit.models.run import HostRecord
from benchkit.report.page import page
from benchkit.report.report_files import drawings_of
from benchkit.report.stored_run import StoredRun
from tests.report.conftest import watched

pytestmark = pytest.mark.long

MakeRun = Callable[..., StoredRun]
HOSTILE = "<script>alert(1)</script>\"'&\N{RIGHT-TO-LEFT OVERRIDE}"
VOID = {"meta", "link", "br", "input"}


@dataclass
class Node:
    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    def all(self, tag: str, **wanted: str) -> list[Node]:
        return [node for node in self.nodes() if node.tag == tag and wanted.items() <= node.attributes.items()]

    def nodes(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.nodes()

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Tree(HTMLParser):
    """The elements of a page; every element must be closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = Node("", {})
        self.open = [self.root]
        self.feed(text)
        self.close()
        assert self.open == [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.imply(tag)
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def imply(self, tag: str) -> None:
        """Close what HTML closes by itself before this tag: cells before a cell, rows before a row or a body's end."""
        ends = {"td": {"td", "th"}, "th": {"td", "th"}, "tr": {"td", "th", "tr"}, "tbody": {"td", "th", "tr"}}
        while self.open[-1].tag in ends.get(tag, set()):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag == "tbody":
            self.imply(tag)
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def report(run: StoredRun, *, figures: bool = False) -> Node:
    """The page; without figures it takes milliseconds."""
    drawings = drawings_of(run) if figures else []
    return Tree(page((run, drawings))).root


def table(root: Node, name: str) -> list[dict[str, str]]:
    (found,) = root.all("table", id=f"table-{name}")
    titles = [head.text for head in found.all("th", scope="col")]
    rows = [
        [place.text for place in row.children if isinstance(place, Node)] for row in found.all("tbody")[0].all("tr")
    ]
    return [dict(zip(titles, row, strict=True)) for row in rows]


def section(root: Node, name: str) -> Node:
    (found,) = root.all("section", id=name)
    return found


@pytest.fixture(scope="module")
def whole(run: StoredRun) -> Node:
    return report(run, figures=True)


def test_sections_come_in_the_order_of_reading(make_run: MakeRun) -> None:
    run = make_run(unsupported={"stack=nginx-go": "no nginx"}, notices=("fs.* is not isolated",))
    root = report(run, figures=True)
    order = ["results", "figures", "trials", "unsupported", "hosts", "notices", "reproduce"]
    assert [node.attributes["id"] for node in root.all("section")] == order
    assert [link.attributes["href"] for link in root.all("nav")[0].all("a")] == [f"#{name}" for name in order]


def test_what_came_out_leads_and_what_it_is_worth_follows(make_run: MakeRun) -> None:
    claim = {"text": "x", "ratio": {"of": {"stack": "nginx-go"}, "to": {"stack": "go"}}, "at_least": 1}
    root = report(make_run(blocks=3, scenario={"claims": [claim]}), figures=True)
    order = [node.attributes["id"] for node in root.all("section")]
    assert order == ["results", "claims", "ratios", "verdicts", "figures", "trials", "hosts", "reproduce"]


def test_what_has_nothing_to_say_does_not_appear(whole: Node) -> None:
    assert [node.attributes["id"] for node in whole.all("section")] == [
        "results",
        "ratios",
        "verdicts",
        "figures",
        "trials",
        "hosts",
        "reproduce",
    ]


def test_title_and_question_lead(whole: Node, run: StoredRun) -> None:
    assert [node.text for node in whole.all("h1")] == [run.manifest.scenario["title"]]
    assert run.manifest.scenario["question"] in whole.all("header")[0].text
    assert whole.all("title")[0].text.startswith(run.manifest.scenario["title"])


def test_a_scenario_without_title_and_question_goes_by_its_name(make_run: MakeRun) -> None:
    root = report(make_run(scenario={"title": None, "question": None}))
    assert [node.text for node in root.all("h1")] == ["synthetic"]


def test_headings_step_down_one_at_a_time(whole: Node) -> None:
    levels = [int(node.tag[1]) for node in whole.nodes() if re.fullmatch("h[1-6]", node.tag)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_ids_are_unique_and_links_lead_somewhere(whole: Node) -> None:
    ids = [node.attributes["id"] for node in whole.nodes() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    for node in whole.nodes():
        for name in ("href", "aria-labelledby"):
            target = node.attributes.get(name, "data:")
            assert target.startswith("data:") or target.removeprefix("#") in ids


def test_the_policy_lets_only_our_style_and_script_in(whole: Node) -> None:
    (policy,) = [n.attributes["content"] for n in whole.all("meta") if "http-equiv" in n.attributes]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for directive, tag in (("style-src", "style"), ("script-src", "script")):
        (node,) = whole.all(tag)
        digest = base64.b64encode(hashlib.sha256(node.text.encode()).digest()).decode()
        assert rules[directive] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"


def test_nothing_is_fetched(whole: Node) -> None:
    for node in whole.nodes():
        assert node.tag not in {"img", "iframe", "object", "embed", "form"}
        for name in ("src", "href", "action", "data", "srcset"):
            assert re.match(r"(#|data:|$)", node.attributes.get(name, ""))
        assert "style" not in node.attributes
        assert not any(name.startswith("on") for name in node.attributes)
    assert "url(" not in whole.all("style")[0].text
    assert "@import" not in whole.all("style")[0].text


def test_names_and_facts_are_text_and_never_markup(make_run: MakeRun) -> None:
    run = make_run(
        {"stack": [HOSTILE, "go"]},
        scenario={"title": HOSTILE, "question": HOSTILE, "note": HOSTILE},
        unsupported={"stack=go": HOSTILE},
        notices=(HOSTILE,),
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
    assert len(root.all("script")) == 1
    assert "alert" not in root.all("script")[0].text
    shown = HOSTILE.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "\N{REPLACEMENT CHARACTER}")
    assert root.all("h1")[0].text == shown
    assert table(root, "trials")[0]["Trial"] == shown
    assert table(root, "unsupported")[0]["Why"] == shown
    assert table(root, f"facts-{shown}") == [{"Fact": shown, "At the start": shown}]
    assert table(root, "versions") == [{"Of": shown, "Version": shown}]
    assert shown in section(root, "notices").text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in root.text


def test_every_trial_is_in_the_table(whole: Node, run: StoredRun) -> None:
    rows = table(whole, "trials")
    assert [row["Trial"] for row in rows] == list(run.trials["trial_id"])
    first = run.trials.iloc[0]
    assert rows[0] == {
        "Block": "1",
        "Position": "1",
        "Cell": "go",
        "RPS": f"{first['rps']:,.0f}",
        "Errors": "0",
        "Non-2xx": "0",
        "mean": "1.01 ms",
        "p50": units.seconds(first["latency_p50_s"]),
        "p90": "1.30 ms",
        "p99": "2.40 ms",
        "p99.9": "5.62 ms",
        "p99.99": "10.9 ms",
        "max": "16.3 ms",
        "Requests": f"{first['requests']:,}",
        "Received": "11.1 MB/s",
        "Window": "5.01 s",
        "Overhead": units.seconds(first["overhead_s"]),
        "Started (UTC, 2026-03-01)": "10:23:17",
        "Trial": "synthetic-b1-p1",
    }


def test_numbers_carry_what_they_are_exactly(whole: Node, run: StoredRun) -> None:
    (found,) = whole.all("table", id="table-trials")
    places = found.all("tbody")[0].all("tr")[0].all("td")
    rps = next(place for place in places if "," in place.text)
    assert float(rps.attributes["data-v"]) == pytest.approx(run.trials["rps"].iloc[0], rel=1e-6)
    assert "data-v" not in places[0].attributes  # block 1 is said exactly


def test_absent_is_a_dash_and_never_a_zero(run: StoredRun) -> None:
    silent = run.trials.assign(latency_p99_s=None, non_2xx=None, errors_connect=None, errors_read=None)
    silent = silent.assign(errors_write=None, errors_timeout=None, latency_p999_s=None)
    row = table(report(replace(run, trials=silent)), "trials")[0]
    assert row["p99"] == row["Errors"] == row["Non-2xx"] == "\N{EN DASH}"
    assert "p99.9" not in row  # no trial has it, and nothing would miss it


def test_the_table_tells_kinds_and_verdicts_once_there_are_any(run: StoredRun) -> None:
    judged = run.trials.assign(kind=["measure"] * 9 + ["profile"], verdict=["valid"] * 9 + [math.nan])
    last = table(report(replace(run, trials=judged)), "trials")[-1]
    assert (last["Kind"], last["Verdict"]) == ("profile", "\N{EN DASH}")


def test_closed_loop_latency_is_called_so_wherever_it_is_shown(whole: Node) -> None:
    words = "closed loop: coordinated omission hides queueing"
    (latency,) = whole.all("figure", id="figure-latency")
    (trials,) = whole.all("table", id="table-trials")
    assert words in latency.all("figcaption")[0].text
    assert words in latency.all("svg")[0].attributes["aria-label"]
    assert words in trials.all("th", scope="colgroup")[0].text
    assert words in section(whole, "trials").all("p")[0].text


def test_figures_have_a_text_and_a_way_to_their_numbers(whole: Node) -> None:
    for figure in whole.all("figure"):
        (drawing,) = figure.all("svg")
        assert drawing.attributes["role"] == "img"
        assert len(drawing.attributes["aria-label"]) > 40
        way = figure.all("figcaption")[0].all("a")[0].attributes["href"]
        assert way in {"#trials", "#ratios"}
        assert whole.all("section", id=way[1:])


def test_figures_whose_numbers_no_section_has_bring_a_table(make_run: MakeRun) -> None:
    root = report(watched(make_run({"connections": [8, 64]}, blocks=3)), figures=True)
    ways = {
        figure.attributes["id"]: [link.attributes["href"] for link in figure.all("figcaption")[0].all("a")]
        for figure in root.all("figure")
    }
    assert (ways["figure-host-activity"], ways["figure-accept-queue"]) == ([], [])
    assert ways["figure-connections"] == ["#trials"]
    shown = section(root, "figures").all("details")
    assert [found.all("table")[0].attributes["id"] for found in shown] == [
        *("table-figure-connections", "table-figure-host-activity", "table-figure-accept-queue"),
    ]


def test_tables_name_themselves_their_columns_and_their_rows(make_run: MakeRun) -> None:
    claim = {"text": "x", "ratio": {"of": {"stack": "nginx-go"}, "to": {"stack": "go"}}, "at_least": 1}
    for found in report(make_run(blocks=3, scenario={"claims": [claim]})).all("table"):
        assert found.all("caption")[0].text
        assert all(head.attributes.get("scope") in {"col", "colgroup", "row"} for head in found.all("th"))
        assert all(len(row.all("th", scope="row")) == 1 for row in found.all("tbody")[0].all("tr"))
        columns = len(found.all("th", scope="col"))
        assert all(len(row.all("td")) + 1 == columns for row in found.all("tbody")[0].all("tr"))


def test_what_scrolls_can_be_reached_by_keyboard(whole: Node) -> None:
    scrolling = [n for n in whole.nodes() if n.attributes.get("class") in {"scroll", "drawing"} or n.tag == "pre"]
    assert scrolling
    assert all(n.attributes["tabindex"] == "0" and n.attributes["aria-label"] for n in scrolling)


def test_results_say_what_was_compared_and_where_the_intervals_are(whole: Node) -> None:
    results = section(whole, "results")
    assert results.all("p")[0].text == (
        "2 cells (stack: go, nginx-go) in 5 blocks; 10 trials ended; wrk, 64 connections, measured for 5.00 s a trial."
    )
    assert [[p.text for p in result.all("p")] for result in results.all("li")] == [
        ["go", "71,856 requests/s", "median of 5 trials, 69,215 to 73,489"],
        [
            "nginx-go",
            "39,542 requests/s",
            "0.554 [0.537, 0.571] \N{MULTIPLICATION SIGN} go; median of 5 trials, 39,366 to 40,182",
        ],
    ]
    assert "Which of the differences are more than chance stands under Ratios" in results.text


def test_many_results_fold_behind_the_extremes(make_run: MakeRun) -> None:
    results = section(report(make_run({"connections": list(range(1, 15))}, blocks=1)), "results")
    (folded,) = results.all("details")
    assert len(folded.all("li")) == 14
    assert len(results.all("li")) == 14 + 2


def test_a_run_without_a_trial_says_so(run: StoredRun) -> None:
    root = report(replace(run, trials=run.trials.iloc[:0]))
    assert [node.attributes["id"] for node in root.all("section")] == ["results", "hosts", "reproduce"]
    assert section(root, "results").text.count("no trial of it ended with a rate") == 2


@pytest.mark.parametrize("status", ["running", "failed", "interrupted"])
def test_a_run_that_is_not_done_says_so_first(make_run: MakeRun, status: str) -> None:
    run = make_run()
    manifest = run.manifest.model_copy(update={"status": status, "ended_at": None})
    header = report(replace(run, manifest=manifest)).all("header")[0]
    assert f"This run is {status}." in header.text
    assert "\N{EN DASH}" in header.text  # how long it took


def test_hosts_show_facts_once_and_what_changed_when(run: StoredRun) -> None:
    rows = [
        ("sut", "sut", "start", "sysctl.net.core.somaxconn", "4096"),
        ("sut", "load", "start", "sysctl.net.core.somaxconn", "4096"),
        ("sut", "sut", "start", "memory_bytes", "8589934592"),
        ("sut", "sut", "start", "clock_offset_s", "-0.00012"),
        ("sut", "sut", "start", "glibc_s", "no number"),
        ("sut", "sut", "tuned", "sysctl.net.core.somaxconn", "65535"),
        ("sut", "sut", "tuned", "memory_bytes", "8589934592"),
        ("sut", "sut", "block 3", "governor", None),
        ("sut", "sut", "restored", "sysctl.net.core.somaxconn", "4096"),
    ]
    facts = pd.DataFrame(rows, columns=["host", "role", "at", "fact", "value"])
    root = report(replace(run, hosts=facts))
    assert table(root, "facts-sut") == [
        {
            "Fact": "sysctl.net.core.somaxconn",
            "At the start": "4096",
            "Changed": "tuned: 65535; restored: 4096",
        },
        {"Fact": "memory_bytes", "At the start": "8589934592 (8.00 GiB)", "Changed": ""},
        {"Fact": "clock_offset_s", "At the start": "-0.00012 (-120 µs)", "Changed": ""},
        {"Fact": "glibc_s", "At the start": "no number", "Changed": ""},
        {"Fact": "governor", "At the start": "\N{EN DASH}", "Changed": "block 3: \N{EN DASH}"},
    ]
    assert "No facts of this host are stored." in section(root, "hosts").text


def test_the_command_and_the_scenario_repeat_the_run(make_run: MakeRun) -> None:
    run = make_run(seed=42, scenario={"load": {"tool": "wrk", "connections": 64}, "factors": {"stack": ["go", "on"]}})
    again = section(report(run), "reproduce")
    assert again.all("code")[0].text == "benchkit run synthetic --scale lab --seed 42"
    (link,) = [node for node in again.all("a") if "download" in node.attributes]
    assert link.attributes["download"] == "synthetic-as-run.yaml"
    saved = unquote(link.attributes["href"].partition(",")[2])
    assert YAML(typ="safe").load(saved) == run.manifest.scenario
    assert saved in again.text


def test_several_runs_share_a_page_and_no_id(make_run: MakeRun) -> None:
    runs = [make_run(seed=1), make_run({"stack": ["go", "node"]}, seed=2)]
    root = Tree(page(*((run, drawings_of(run)) for run in runs))).root
    assert len(root.all("article")) == 2
    ids = [node.attributes["id"] for node in root.nodes() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    wanted = {node.attributes["href"][1:] for node in root.nodes() if node.attributes.get("href", "").startswith("#")}
    assert wanted <= set(ids)
    assert {"trials", "run2-trials", "table-trials", "run2-table-trials"} <= set(ids)
    (contents,) = root.all("nav", **{"aria-label": "Runs"})
    assert [link.attributes["href"] for link in contents.all("a")] == ["#title", "#run2-title"]
