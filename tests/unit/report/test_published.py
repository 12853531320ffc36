"""Published figures beside measured ones, on runs with known results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from benchkit.report.page import page
from benchkit.report.sections.results import build_published
from benchkit.report.sections.section import ReportInput
from benchkit.report.stored_run import StoredRun
from benchkit.store.parquet_files import empty_frame
from benchkit.units import ABSENT
from tests.qualify.report.test_profiles import with_profiles

MakeRun = Callable[..., StoredRun]

ENTRIES: list[dict[str, Any]] = [
    {"cell": {"stack": "go"}, "figures": {"rps": 128403, "latency_mean_s": 0.039}},
    {"cell": {"stack": "nginx-go"}, "figures": {"rps": 74443, "errors_timeout": 0}, "note": "on 8 <threads>"},
    {"cell": {"stack": "fcgi"}, "figures": {"rps": 24027}},
]


def rows_of(run: StoredRun) -> list[tuple[str, ...]]:
    shown = build_published(ReportInput(run, ()))
    assert shown is not None
    return [tuple(entry.text for entry in row) for row in shown.table.rows]


def judged(run: StoredRun, doubts: Mapping[str, tuple[str, str, list[str]]]) -> StoredRun:
    """Return the run with a reason against each of these trials: severity, check, metrics. All others are valid."""
    rows = [
        {"trial_id": trial_id, "check": check, "severity": severity, "metrics": metrics}
        for trial_id, (severity, check, metrics) in doubts.items()
    ]
    tables = {"verdicts": pd.concat([empty_frame("verdicts"), pd.DataFrame(rows)])} if rows else {}
    verdicts = [doubts[trial_id][0] if trial_id in doubts else "valid" for trial_id in run.trials["trial_id"]]
    trials = run.trials.assign(verdict=pd.Series(verdicts, index=run.trials.index, dtype=object))
    return replace(run, trials=trials, table=lambda name: tables.get(name, empty_frame(name)))


def test_published_figures_are_compared_with_medians_of_included_trials(make_run: MakeRun) -> None:
    run = make_run(blocks=5, scenario={"published": ENTRIES})
    ids = run.trials_of("stack=go")["trial_id"].tolist()
    fastest = run.trials_of("stack=go").set_index("trial_id")["rps"].nlargest(2).index.tolist()
    slow = next(trial_id for trial_id in ids if trial_id not in fastest)
    run = judged(
        run,
        {
            fastest[0]: ("invalid", "link-saturated", ["rps"]),
            fastest[1]: ("invalid", "link-saturated", ["rps"]),
            slow: ("suspect", "unstable", ["rps"]),
        },
    )
    rates = run.trials_of("stack=go").set_index("trial_id")["rps"].drop(fastest)
    rps, latency, *_ = rows_of(run)
    assert rps == (
        "go", "RPS", "128,403", f"{rates.median():,.0f}", "2 valid, 1 suspect, 2 invalid (link-saturated, unstable)", ABSENT,
    )  # fmt: skip
    assert (latency[1:3], latency[4]) == (("mean latency", "39.0 ms"), "5 valid")


def test_a_figure_without_valid_trials_is_marked_invalid(make_run: MakeRun) -> None:
    run = make_run(blocks=3, scenario={"published": ENTRIES})
    reasons = dict.fromkeys(run.trials_of("stack=go")["trial_id"], ("invalid", "generator-saturated", ["rps"]))
    rps, *_ = rows_of(judged(run, reasons))
    assert rps[3].endswith(", invalid")
    assert rps[4] == "3 invalid (generator-saturated)"


def test_trials_without_verdict_are_not_called_valid(make_run: MakeRun) -> None:
    (rps, *_) = rows_of(make_run(blocks=2, scenario={"published": ENTRIES}))
    assert rps[4] == "2 not judged"


def test_missing_cells_have_a_reason(make_run: MakeRun) -> None:
    run = make_run(
        {"stack": ["go", "nginx-go", "nginx-http"]},
        blocks=2,
        unsupported={"stack=nginx-go": "nginx is too old"},
        scenario={"published": ENTRIES},
    )
    *_, rate, timeouts, other = rows_of(run)
    assert rate[3:] == (ABSENT, ABSENT, "on 8 <threads>; nginx is too old")
    assert timeouts[1:4] == ("timeouts", "0", ABSENT)
    assert other == ("fcgi", "RPS", "24,027", ABSENT, ABSENT, "no such cell in this run")
    html = page((run, ()))
    assert "Published and measured figures" in html
    assert "on 8 &lt;threads&gt;" in html


def test_a_published_figure_of_several_cells_is_compared_with_each(make_run: MakeRun) -> None:
    entries = [{"cell": {"stack": "go"}, "figures": {"rps": 40000}}]
    run = make_run({"stack": ["go", "nginx-go"], "connections": [128, 8000]}, scenario={"published": entries})
    assert [row[0] for row in rows_of(run)] == ["go, connections 128", "go, connections 8000"]


def test_published_shares_are_compared_with_those_of_profiles(make_run: MakeRun) -> None:
    entries = [
        {"cell": {"server": "nethttp", "connections": 4000}, "shares": {"mcall": 0.401}, "note": "for 8000"},
        {"cell": {"server": "nethttp", "connections": 16000}, "shares": {"mcall": 0.557}},
    ]
    factors = {"server": ["nethttp", "gnet"], "connections": [200, 4000]}
    run = make_run(factors, blocks=3, scenario={"published": entries})
    assert [row[3:] for row in rows_of(run)] == [
        (ABSENT, ABSENT, "for 8000; it was not profiled"),
        (ABSENT, ABSENT, "no such cell in this run"),
    ]
    run = with_profiles(run)
    (mine,) = (each for each in run.service_profiles if each.cell_id == "server=nethttp,connections=4000")
    here, elsewhere = rows_of(run)
    assert here == (
        "nethttp, connections 4000", "mcall, cumulative share of the CPU", "40.1 %",
        f"{mine.cumulative['mcall'] * 100:.1f} %", "2 profiles", "for 8000",
    )  # fmt: skip
    assert elsewhere[3] == ABSENT


def test_a_run_without_published_figures_has_no_section(run: StoredRun) -> None:
    assert build_published(ReportInput(run, ())) is None
