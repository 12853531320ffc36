"""The blocks of the sections of a report."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from benchkit import units
from benchkit.comparison.claims import published_figures
from benchkit.judge.check import ALL
from benchkit.models.run import CellRecord
from benchkit.report.page import page
from benchkit.report.sections.comparisons import CLAIMS, RATIOS
from benchkit.report.sections.results import RESULTS
from benchkit.report.sections.services import SERVICES
from benchkit.report.sections.trials import TRIALS
from benchkit.report.sections.validity import NOT_JUDGED, NOTES, UNKNOWN, VALIDITY, noise_notes
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Entry, number
from benchkit.store.journal import BlockInterrupted, JournalEvent, read_progress
from benchkit.store.profile_tables import NO_PROFILE
from benchkit.units import ABSENT
from tests.support.report.reading import blocks, cells, records, sentences, tables
from tests.support.report.variants import ids, judged, sliced, trial, with_profiles

MakeRun = Callable[..., StoredRun]
STACKS = {"stack": ["go", "nginx", "node"]}


def with_control(run: StoredRun) -> StoredRun:
    """Return the run with its first cell under a second name, a little faster in one block."""
    first = run.manifest.cells[0]
    control = CellRecord(cell_id=f"{first.cell_id}~control", levels=first.levels)
    repeated = run.trials[run.trials["cell_id"] == first.cell_id].assign(
        cell_id=control.cell_id,
        kind="control",
        trial_id=lambda frame: frame["trial_id"] + "-control",
        rps=lambda frame: frame["rps"] * (1 + 0.01 * (frame["block"] == 1)),
    )
    manifest = run.manifest.model_copy(update={"cells": (*run.manifest.cells, control)})
    return replace(run, manifest=manifest, trials=pd.concat([run.trials, repeated], ignore_index=True))


@pytest.mark.parametrize("is_sliced", [True, False])
def test_results_name_the_design(run: StoredRun, *, is_sliced: bool) -> None:
    design = sentences(RESULTS, sliced(run) if is_sliced else run)[0]
    assert design.startswith("2 cells (stack: go, nginx-go) in 5 ")
    assert ("in 5 sliced blocks" in design) == is_sliced
    assert ("in 8 slices in turn with the other cells" in design) == is_sliced


def test_a_cell_whose_trials_are_all_invalid_is_shown_and_not_ranked(run: StoredRun) -> None:
    everything = [(trial, "link-saturated", "invalid", ("rps",)) for trial in ids(run, "stack=nginx-go")]
    row = records(tables(RESULTS, judged(run, *everything))["cells"])[1]
    assert row["RPS"] == "39,639, not usable"
    assert row["Notes"] == "all trials excluded from comparisons (invalid: link-saturated)"
    assert row["Ratio"] == ABSENT


def test_a_run_without_verdicts_and_comparisons_has_no_validity(make_run: MakeRun) -> None:
    assert blocks(VALIDITY, make_run({"stack": ["go"]})) == []


def test_comparisons_without_verdicts_have_a_note(run: StoredRun) -> None:
    shown = sentences(VALIDITY, run)
    assert shown[0] == NOT_JUDGED
    assert UNKNOWN in shown
    assert tables(VALIDITY, run) == {}


def test_findings_are_shown_by_cell_and_by_reason(run: StoredRun) -> None:
    assert sentences(VALIDITY, judged(run))[0] == "10 of 10 trials are valid."
    go = ids(run, "stack=go")
    doubted = judged(
        run,
        (go[0], "link-saturated", "invalid", ("rps", "latency_p99_s")),
        (go[1], "link-saturated", "invalid", ("rps",)),
        (go[1], "shared-cpus", "suspect", ("rps",)),
        (go[2], "shared-cpus", "suspect", ("rps",)),
        unchecked={"cold": "the server tells no count"},
    )
    assert sentences(VALIDITY, doubted)[0] == "7 of 10 trials are valid, 1 suspect, 2 invalid."
    found = tables(VALIDITY, doubted)
    text = "So much <b>{}</b>. It means. Do this."
    assert cells(found["reasons"]) == [
        ["invalid", "link-saturated", "go", "2", "1, 2", text.format("link-saturated"), "RPS, p99 latency"],
        ["suspect", "shared-cpus", "go", "2", "2, 3", text.format("shared-cpus"), "RPS"],
    ]
    assert cells(found["unchecked"]) == [["cold", "1 of 10", "the server tells no count"]]
    assert "So much &lt;b&gt;link-saturated" in page(doubted)


def test_the_ratio_of_a_control_is_reported_as_noise(make_run: MakeRun) -> None:
    notes = noise_notes(with_control(make_run(STACKS, blocks=8)))
    assert notes[0].startswith("RPS of go relative to itself: 1.001, interval 0.99")
    assert UNKNOWN not in notes
    few = noise_notes(with_control(make_run(STACKS, blocks=2)))
    assert few[0].startswith("RPS of go relative to itself is not known: ")


def test_every_ratio_has_its_interval_difference_and_notes(make_run: MakeRun) -> None:
    run = make_run(STACKS, blocks=8)
    node = ids(run, "stack=node")[0]
    run = judged(run, (node, "generator-saturated", "invalid", ("rps",)))
    assert list(tables(RATIOS, run)) == ["ratios-rps"]
    shown = records(tables(RATIOS, run)["ratios-rps"])
    (found,) = [comparison for comparison in run.comparisons if comparison.metrics == ("rps",)]
    assert [(row["Cell"], row["Relative to"], row["Blocks"]) for row in shown] == [
        ("nginx", "go", "8"),
        ("node", "go", "7"),
    ]
    for row, ratio in zip(shown, found.ratios, strict=True):
        wanted = [f"{value:.3f}" for value in (ratio.ratio, ratio.low, ratio.high)]
        assert [row["Ratio"], row["Interval from"], row["Interval to"]] == wanted
        assert row["Difference"].startswith("lower (worse)")
    assert shown[1]["Notes"]
    assert any("1 trial excluded: invalid: generator-saturated" in text for text in sentences(RATIOS, run))


def test_equal_builds_and_unwatched_servers_are_marked(make_run: MakeRun) -> None:
    run = make_run(STACKS, blocks=8)
    go, nginx, node = run.manifest.cells
    marked = (
        go,
        nginx.model_copy(update={"same_as": go.cell_id}),
        node.model_copy(update={"external": {"app": "http://192.0.2.1"}}),
    )
    run = replace(run, manifest=run.manifest.model_copy(update={"cells": marked}))
    notes = " ".join(sentences(RATIOS, run))
    assert "A/A: both cells have the same server" in notes
    assert "unwatched: " in notes
    assert [row["Cell"] for row in records(tables(RATIOS, run)["ratios-rps"])] == ["nginx", "node (unwatched)"]


CLAIM_LIST = [
    {
        "text": "nginx costs\na half",
        "ratio": {"of": {"stack": "nginx"}, "to": {"stack": "go"}},
        "about": 0.5,
        "within": 0.3,
        "published": 0.48,
    },
    {"text": "Node is no slower", "ratio": {"of": {"stack": "node"}, "to": {"stack": "go"}}, "at_least": 1},
    {"text": "zig", "ratio": {"of": {"stack": "zig"}, "to": {"stack": "go"}}, "at_least": 1, "published": 2},
]


def test_claims_have_published_and_measured_ratios(make_run: MakeRun) -> None:
    run = make_run(STACKS, blocks=8, scenario={"claims": CLAIM_LIST})
    assert sentences(CLAIMS, run)[0] == "Of 3 claims: 1 holds, 1 refuted, 1 not testable here."
    held, refuted, elsewhere = records(tables(CLAIMS, run)["claims"])
    assert (held["Claim"], held["Published"], held["Result"]) == ("nginx costs a half", "0.48", "holds")
    assert held["Expected"] == "about 0.5 (within 30%)"
    assert held["Measured"].startswith("0.5")
    assert (refuted["Result"], refuted["Published"]) == ("refuted", ABSENT)
    assert (elsewhere["Result"], elsewhere["Measured"]) == ("not testable here", ABSENT)


def test_published_figures_are_compared_with_medians_of_included_trials(make_run: MakeRun) -> None:
    entries: list[dict[str, object]] = [
        {"cell": {"stack": "go"}, "figures": {"rps": 128403}},
        {"cell": {"stack": "nginx-go"}, "figures": {"rps": 74443}, "note": "on 8 <threads>"},
        {"cell": {"stack": "fcgi"}, "figures": {"rps": 24027}},
    ]
    run = make_run(unsupported={"stack=nginx-go": "nginx is too old"}, scenario={"published": entries})
    go = ids(run, "stack=go")
    doubted = judged(run, (go[0], "link-saturated", "invalid", ("rps",)), (go[1], "unstable", "suspect", ("rps",)))
    rps, nginx, fcgi = published_figures(doubted.data, ())
    assert (rps.cell, rps.published, rps.only_invalid) == ("stack=go", 128403, False)
    assert rps.measured == run.trials_of("stack=go")["rps"].iloc[1:].median()
    assert (nginx.measured, nginx.note) == (None, "on 8 <threads>; nginx is too old")
    assert (fcgi.cell, fcgi.note) == ("stack=fcgi", "no such cell in this run")
    everything = judged(run, *((each, "cold", "invalid", ("rps",)) for each in go))
    assert next(published_figures(everything.data, ())).only_invalid


def test_published_shares_are_compared_with_those_of_profiles(make_run: MakeRun) -> None:
    entries = [{"cell": {"server": "nethttp", "connections": 4000}, "shares": {"mcall": 0.401}, "note": "for 8000"}]
    run = make_run(
        {"server": ["nethttp", "gnet"], "connections": [200, 4000]}, blocks=3, scenario={"published": entries}
    )
    assert next(published_figures(run.data, ())).note == "for 8000; it was not profiled"
    profiled = with_profiles(run)
    (row,) = published_figures(profiled.data, profiled.service_profiles)
    assert (row.figure, row.published, row.note) == ("mcall", 0.401, "for 8000")
    assert row.measured == pytest.approx(0.4)


def test_failures_are_listed_by_cell_and_block(make_run: MakeRun) -> None:
    run = make_run()
    first, second = (cell.cell_id for cell in run.manifest.cells)
    events: list[JournalEvent] = [
        trial("started", "a1", 1, first),
        trial("ended", "a1", 1, first),
        trial("started", "b1", 1, second),
        trial("failed", "b1", 1, second, why="crash"),
        trial("started", "a4", 4, first),
        trial("failed", "a4", 4, first, why="lost", will_retry=True),
        trial("ended", "a4", 4, first),
        trial("skipped", "b4", 4, second, why="gone"),
        BlockInterrupted(block=1, round=2, trials=("a1",)),
    ]
    found = cells(tables(NOTES, replace(run, progress=read_progress(events)))["failures"])
    assert [row[:3] for row in found] == [
        ["go", "1", "interrupted"],
        ["go", "4", "retried"],
        ["nginx-go", "1", "failed"],
        ["nginx-go", "4", "skipped"],
    ]
    assert [row[3] for row in found[1:]] == ["lost", "crash", "gone"]


def test_notes_of_tools_are_listed_once_with_the_number_of_trials(run: StoredRun) -> None:
    trials = run.trials["trial_id"].tolist()
    rows = [
        {"trial_id": i, "code": "timeouts", "message": f"{n} answers came late"} for n, i in enumerate(trials[:3], 1)
    ]
    rows.append({"trial_id": trials[0], "code": "wrk-corrected", "message": "<b>added</b>"})
    noted = replace(run, notes=pd.DataFrame(rows))
    assert cells(tables(NOTES, noted)["notes"]) == [
        ["wrk", "3 of 10", "timeouts", "1 answers came late (the first of 3 such)"],
        ["wrk", "1 of 10", "wrk-corrected", "<b>added</b>"],
    ]
    assert "&lt;b&gt;added" in page(noted)


def test_every_trial_has_its_verdict_with_the_checks(run: StoredRun) -> None:
    go = ids(run, "stack=go")
    doubted = judged(run, (go[0], "errors", "suspect", ("rps",)), (go[0], "cold", "invalid", ("rps",)))
    assert {row["Verdict"] for row in records(tables(TRIALS, doubted)["trials"])} == {"invalid (errors, cold)", "valid"}


def test_columns_are_shown_where_any_trial_has_a_value(make_run: MakeRun) -> None:
    def columns(run: StoredRun) -> dict[str, set[str]]:
        rows = records(tables(TRIALS, run)["trials"])
        return {title: {row[title] for row in rows} for title in rows[0]}

    run = make_run({"protocol": ["http1", "h2"]}, blocks=2)
    optional = {"Protocol", "TLS", "Cipher", "Resumed", "Server memory", "Context switches per request"}
    assert not optional & columns(replace(run, trials=run.trials.assign(protocol="http1"))).keys()
    encrypted = run.trials["factor_protocol"] == "h2"
    values = {"tls_version": "1.3", "cipher": "AES", "resumed_share": 0.25, "server_cpu_s_per_handshake": 4e-4}
    trials = run.trials.assign(
        protocol=run.trials["factor_protocol"],
        server_memory_bytes=3 * 2.0**20,
        server_switches_per_request=1.25,
        **{name: pd.Series(value, run.trials.index).where(encrypted) for name, value in values.items()},
    )
    shown = columns(replace(run, trials=trials))
    assert shown["Protocol"] == {"http1", "h2"}
    assert (shown["TLS"], shown["Server memory"]) == ({"1.3", ABSENT}, {"3.00 MiB"})
    assert shown["Server CPU per handshake"] == {"400 µs", ABSENT}
    assert shown["Context switches per request"] == {"1.25"}


def test_the_section_of_services_has_shares_and_costs(make_run: MakeRun) -> None:
    run = with_profiles(make_run({"server": ["nethttp", "gnet"], "connections": [200, 4000]}, blocks=3))
    row = records(tables(SERVICES, run)["profiles"])[0]
    assert row["Cell"] == "nethttp, connections 200"
    assert (row["Profiles"], row["Waiting"], row["Samples"]) == ("2", "20.0 %", "4")
    assert row["95 % interval"] == "3.1 % to 66.3 %"
    assert row["mcall"] == "20.0 %"
    cost = "RPS of profiled trials relative to their partners: 0.900 (95% interval 0.900 to 0.900, over 8 pairs)."
    assert cost in sentences(SERVICES, run)
    everything = judged(run, *((str(each), "noisy-host", "invalid", ALL) for each in run.trials["trial_id"]))
    row = records(tables(SERVICES, everything)["profiles"])[0]
    assert row["Waiting"] == "20.0 %, invalid"


def test_failed_profiles_are_noted_with_the_services_only(run: StoredRun) -> None:
    message = "front on sut: there is no <perf>"
    notes = pd.DataFrame([{"trial_id": run.trials["trial_id"].iloc[0], "code": NO_PROFILE, "message": message}])
    blind = replace(run, notes=notes)
    assert sentences(SERVICES, blind) == [message]
    assert blocks(NOTES, blind) == []


@pytest.mark.parametrize(
    ("value", "exact"),
    [(12.0, None), (285080.0, None), (231.92, "231.92"), (72645.34123456789, "72645.34"), (0.4, "0.4")],
)
def test_a_rounded_number_has_its_exact_value(value: float, exact: str | None) -> None:
    assert number(value, units.count).exact == exact


def test_an_absent_number_has_no_value() -> None:
    assert number(math.nan, units.count) == Entry(units.ABSENT, None, "number")
