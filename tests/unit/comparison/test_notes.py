from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from benchkit.cli.app import app
from benchkit.comparison.compare import compare
from benchkit.comparison.gate import GateLimits
from benchkit.comparison.texts import markdown
from benchkit.report.sections.comparisons import CLAIMS, RATIOS
from benchkit.report.stored_run import read_run
from benchkit.stats.samples import ExcludedTrial, describe_reasons
from benchkit.store.parquet_files import arrow_schema
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.support.comparison.fixtures import StoreRun, manifest_of, trials_of
from tests.support.report.reading import records, sentences, tables

CELLS = [{"stack": "go"}, {"stack": "nginx"}]
NOISE = np.array([0.99, 1.01, 1.0, 1.02, 0.98, 1.0, 1.01, 0.99])
CLAIM = {"text": "A half.", "ratio": {"of": {"stack": "nginx"}, "to": {"stack": "go"}}, "about": 0.5, "within": 0.1}
GATE = GateLimits(metrics={"rps": 0.6})
NOTE = "3 of 8 trials of stack=nginx are suspect (requests failed; its rate varies a lot between repetitions)"


def finding_row(
    trial_id: str, check: str, severity: str = "suspect", metrics: Sequence[str] = ("rps",)
) -> dict[str, object]:
    """Return a row of `verdicts`."""
    reported = dict.fromkeys(("seen", "threshold", "text"), "-")
    return {
        "trial_id": trial_id,
        "check": check,
        "severity": severity,
        "metrics": list(metrics),
        "scope": "run",
        **reported,
    }


SUSPECT = (
    finding_row("r1.stack=nginx.b1", "unstable"),
    finding_row("r1.stack=nginx.b2", "unstable"),
    finding_row("r1.stack=nginx.b2", "errors"),
    finding_row("r1.stack=nginx.b5", "unstable"),
    finding_row("r1.stack=go.b1", "cold", metrics=["latency_p99_s"]),
)


@pytest.fixture
def judged(tmp_path: Path, stored: StoreRun) -> Callable[..., Path]:
    """A store with runs of Go and of nginx, which is half as fast, and these findings about their trials."""

    def made(*reasons: dict[str, object], runs: Sequence[str] = ("r1",)) -> Path:
        for run_id in runs:
            rates = {"stack=go": 100 * NOISE, "stack=nginx": 50 * NOISE[::-1]}
            manifest = manifest_of(CELLS, run_id=run_id, scenario={"claims": [CLAIM]})
            stored(manifest, trials_of(rates, run_id=run_id))
            rows = [reason for reason in reasons if str(reason["trial_id"]).startswith(f"{run_id}.")]
            RunTables(Store(tmp_path), "small", run_id).replace(
                "verdicts", pa.Table.from_pylist(rows, schema=arrow_schema("verdicts"))
            )
        return tmp_path

    return made


def test_every_output_says_that_trials_are_suspect(judged: Callable[..., Path]) -> None:
    found = compare("r1", store=judged(*SUSPECT), thresholds=GATE)
    assert found.ratios[0].notes == (NOTE,)
    assert found.ratios[0].blocks == 8
    assert found.claims[0].notes == (NOTE,)
    assert found.gate is not None
    assert found.gate.verdict == "passed"
    assert found.gate.lines[0].notes == (NOTE,)
    assert found.frame()["remarks"].tolist() == [NOTE]
    rows = [line.replace("\\", "") for line in markdown(found).splitlines() if line.startswith("|")]
    assert [NOTE in row for row in rows] == [False, False, True, False, False, True]


def test_command_and_report_show_suspect_trials(judged: Callable[..., Path]) -> None:
    store = judged(*SUSPECT)
    arguments = ["compare", "r1", "--store", str(store), "--threshold", "rps=60%"]
    lines = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"}).stdout.splitlines()
    assert f"! stack=nginx relative to stack=go: {NOTE}" in lines
    assert f"  ! {NOTE}" in lines
    assert lines[-1].startswith("- passed: stack=nginx, rps: ")
    assert lines[-1].endswith(NOTE)
    document = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert document["ratios"][0]["remarks"] == [NOTE]
    assert document["claims"][0]["ratios"][0]["remarks"] == [NOTE]
    assert document["gate"]["lines"][0]["remarks"] == [NOTE]
    where = Store(store)
    run = read_run(where, where.run("r1"))
    assert records(tables(RATIOS, run)["ratios-rps"])[0]["Notes"] == "1"
    assert NOTE in sentences(RATIOS, run)
    assert NOTE in sentences(CLAIMS, run)


def test_notes_apply_to_their_metrics_and_to_used_trials(judged: Callable[..., Path]) -> None:
    store = judged(*SUSPECT, finding_row("r1.stack=nginx.b1", "stalled", "invalid"))
    (ratio,) = compare("r1", store=store).ratios
    assert ratio.blocks == 7
    assert ratio.notes == (
        "2 of 7 trials of stack=nginx are suspect (requests failed; its rate varies a lot between repetitions)",
    )
    (ratio,) = compare("r1", store=store, metrics=["requests"]).ratios
    assert ratio.notes == ()
    (ratio,) = compare("r1", store=store, exclusions=()).ratios
    assert ratio.blocks == 8
    assert ratio.notes == (
        "1 of 8 trials of stack=nginx is invalid but used on request (a host stopped for a while)",
        "2 of 8 trials of stack=nginx are suspect (requests failed; its rate varies a lot between repetitions)",
    )


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        (["invalid: cold"], "invalid: cold"),
        (["invalid: cold, errors"] * 2, "invalid: cold, errors (2 trials)"),
        (
            ["invalid: cold", "invalid: cold, errors", "the tool reports no rps"],
            "invalid: cold (2 trials), errors (1 trial); the tool reports no rps",
        ),
    ],
)
def test_every_check_is_named_once(reasons: list[str], text: str) -> None:
    excluded = [
        ExcludedTrial(trial_id=f"t{i}", cell_id="c", block=i, reason=reason) for i, reason in enumerate(reasons)
    ]
    assert describe_reasons(excluded) == text
