from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from benchkit.report.page import page
from benchkit.report.sections.section import ReportInput
from benchkit.report.sections.services import build_workers
from benchkit.report.stored_run import StoredRun
from benchkit.store.parquet_files import empty_frame
from tests.unit.comparison.test_worker_balance import watched
from tests.unit.report.test_verdicts import ids, judged

MakeRun = Callable[..., StoredRun]


def test_workers_have_a_table(make_run: MakeRun) -> None:
    run = make_run(blocks=2)
    windows = dict(zip(run.trials["trial_id"], run.trials["duration_s"], strict=True))
    rows = [
        watched(trial, {"<front>": {9: 0.0, 10: 1.0, 11: 3.0}}, windows[trial]) for trial in ids(run, "stack=nginx-go")
    ]
    telemetry = pd.concat(rows)
    run = replace(run, table=lambda name: telemetry if name == "telemetry" else empty_frame(name))
    content = build_workers(ReportInput(run, ()))
    assert content is not None
    shown = [[entry.text for entry in row] for row in content.table.rows]
    assert shown == [["nginx-go", "<front>", "sut", "2", "1.50", "1.50", "0", "2"]]
    assert "&lt;front&gt;" in page((run, ()))
    invalid = judged(run, *((trial, "errors", "invalid", ("rps",)) for trial in ids(run, "stack=nginx-go")))
    doubtful = build_workers(ReportInput(invalid, ()))
    assert doubtful is not None
    assert doubtful.table.rows[0][4].text == "1.50, invalid"


def test_a_run_without_several_workers_has_no_section(run: StoredRun) -> None:
    assert build_workers(ReportInput(run, ())) is None
