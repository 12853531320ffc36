"""Verdicts in a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
from matplotlib.text import Text

from benchkit.report.figures.rates import RATES
from benchkit.report.figures.registry import FIGURES
from benchkit.report.page import page
from benchkit.report.rendering import render
from benchkit.report.sections.section import ReportInput
from benchkit.report.sections.trials import build_trials
from benchkit.report.sections.validity import NOT_JUDGED, build_verdicts
from benchkit.report.summary import describe_cell, summarise
from benchkit.store.parquet_files import arrow_schema
from tests.support.report.reading import cells, records

if TYPE_CHECKING:
    from benchkit.report.stored_run import StoredRun

MakeRun = Callable[..., "StoredRun"]
Reason = tuple[str, str, str, tuple[str, ...]]
"""Trial, check, severity, metrics."""


def judged(run: StoredRun, *reasons: Reason, unchecked: Mapping[str, str] | None = None) -> StoredRun:
    """Return the run with these reasons against its trials, and skipped checks of its first trial."""
    worst: dict[str, str] = {}
    for trial_id, _, severity, _ in reasons:
        worst[trial_id] = severity if worst.get(trial_id) != "invalid" else "invalid"
    rows = [
        {
            "trial_id": trial_id,
            "check": check,
            "severity": severity,
            "metrics": list(metrics),
            "seen": "so much",
            "threshold": "less",
            "text": f"So much <b>{check}</b>. It means. Do this.",
            "scope": "trial",
        }
        for trial_id, check, severity, metrics in reasons
    ]
    lacking = [
        {"trial_id": str(run.trials["trial_id"].iloc[0]), "check": check, "why": why, "scope": "trial"}
        for check, why in (unchecked or {}).items()
    ]
    tables = {
        "verdicts": pa.Table.from_pylist(rows, schema=arrow_schema("verdicts")).to_pandas(),
        "unchecked": pa.Table.from_pylist(lacking, schema=arrow_schema("unchecked")).to_pandas(),
    }

    def table(name: str) -> pd.DataFrame:
        frame: pd.DataFrame = tables[name] if name in tables else run.table(name)
        return frame

    verdict = [worst.get(trial_id, "valid") for trial_id in run.trials["trial_id"]]
    return replace(run, trials=run.trials.assign(verdict=verdict), table=table)


def ids(run: StoredRun, cell_id: str) -> list[str]:
    """Return the trials of a cell, by block."""
    return [str(each) for each in run.trials_of(cell_id)["trial_id"]]


def test_a_run_without_verdicts_and_comparisons_has_no_section(make_run: MakeRun) -> None:
    alone = make_run({"stack": ["go"]})
    assert build_verdicts(ReportInput(alone, ())) is None
    assert "Validity of the results" not in page((alone, ()))


def test_comparisons_without_verdicts_have_a_note(run: StoredRun) -> None:
    shown = build_verdicts(ReportInput(run, ()))
    assert shown is not None
    assert (shown.summary, shown.matrix, shown.checks) == (NOT_JUDGED, None, 0)
    assert len(shown.noise) == 3


def test_a_valid_run_has_a_summary_and_no_tables(run: StoredRun) -> None:
    shown = build_verdicts(ReportInput(judged(run), ()))
    assert shown is not None
    assert shown.summary == "10 of 10 trials are valid."
    assert (shown.matrix, shown.reasons, shown.skipped_checks) == (None, None, None)


def test_findings_are_shown_by_cell_and_block_and_by_reason(run: StoredRun) -> None:
    go = ids(run, "stack=go")
    doubted = judged(
        run,
        (go[0], "link-saturated", "invalid", ("rps", "latency_p99_s")),
        (go[1], "link-saturated", "invalid", ("rps",)),
        (go[1], "shared-cpus", "suspect", ("rps",)),
        (go[2], "shared-cpus", "suspect", ("rps",)),
        unchecked={"cold": "the server tells no count"},
    )
    shown = build_verdicts(ReportInput(doubted, ()))
    assert shown is not None
    assert shown.summary == "7 of 10 trials are valid, 1 suspect, 2 invalid."
    assert cells(shown.matrix) == [
        ["go", "invalid", "invalid", "suspect", "\N{CHECK MARK}", "\N{CHECK MARK}"],
        ["nginx-go", *["\N{CHECK MARK}"] * 5],
    ]
    assert cells(shown.reasons) == [
        [
            *("invalid", "link-saturated", "go", "2", "1, 2"),
            *("So much <b>link-saturated</b>. It means. Do this.", "RPS, p99 latency"),
        ],
        ["suspect", "shared-cpus", "go", "2", "2, 3", "So much <b>shared-cpus</b>. It means. Do this.", "RPS"],
    ]
    assert cells(shown.skipped_checks) == [["cold", "1 of 10", "the server tells no count"]]
    html = page((doubted, ()))
    assert "Validity of the results" in html
    assert "So much &lt;b&gt;link-saturated" in html


def test_excluded_trials_are_in_no_median_and_noted(run: StoredRun) -> None:
    nginx = ids(run, "stack=nginx-go")
    doubted = judged(run, (nginx[0], "errors", "invalid", ("rps",)), (nginx[1], "cold", "suspect", ("rps",)))
    summary = summarise(doubted)
    left = summary.cells[1]
    assert left.rps == tuple(run.trials_of("stack=nginx-go")["rps"].iloc[1:])
    assert "1 trial excluded (invalid: errors)" in describe_cell(left, run.labels, 5)[1]


def test_a_cell_whose_trials_are_all_invalid_is_shown_and_not_ranked(run: StoredRun) -> None:
    everything = [(trial, "link-saturated", "invalid", ("rps",)) for trial in ids(run, "stack=nginx-go")]
    summary = summarise(judged(run, *everything))
    cell = summary.cells[1]
    figure, detail = describe_cell(cell, run.labels, 5)
    assert figure != "no result"
    assert "all of them excluded from comparisons (invalid: link-saturated)" in detail
    assert cell.ratio is None
    assert not cell.is_usable


def test_excluded_trials_are_hollow_with_their_reason(run: StoredRun) -> None:
    go, nginx = ids(run, "stack=go"), ids(run, "stack=nginx-go")
    reasons = [(trial, "link-saturated", "invalid", ("rps",)) for trial in [go[0], *nginx]]
    svg = render(FIGURES["rps"], judged(run, *reasons)).svg.decode()
    assert svg.count("(invalid: link-saturated)") == 6
    doubted, plain = (
        " ".join(text.get_text() for text in RATES.draw(each).findobj(Text))
        for each in (judged(run, *reasons), judged(run))
    )
    assert "hollow: excluded" in doubted
    assert ", invalid" in doubted
    assert "hollow" not in plain
    assert "invalid" not in plain


def test_cpu_per_request_stays_valid_if_only_the_rate_is_invalid(make_run: MakeRun) -> None:
    run = make_run()
    run = replace(run, trials=run.trials.assign(server_cpu_s_per_request=1e-5))
    doubted = judged(run, *[(trial, "generator-saturated", "invalid", ("rps",)) for trial in ids(run, "stack=go")])
    assert not any(each.covers("server_cpu_s_per_request") for each in doubted.data.exclusions)
    assert sum(each.covers("rps") for each in doubted.data.exclusions) == 5


def test_every_trial_has_its_verdict_with_the_checks(run: StoredRun) -> None:
    go = ids(run, "stack=go")
    judged_run = judged(run, (go[0], "errors", "suspect", ("rps",)), (go[0], "cold", "invalid", ("rps",)))
    content = build_trials(ReportInput(judged_run, ()))
    assert content is not None
    verdicts_shown = {row["Verdict"] for row in records(content.table)}
    assert verdicts_shown == {"invalid (errors, cold)", "valid"}
