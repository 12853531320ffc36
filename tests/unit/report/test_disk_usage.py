from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from benchkit.report.page import page
from benchkit.report.sections.section import ReportInput
from benchkit.report.sections.services import build_disk_usage
from benchkit.report.stored_run import StoredRun
from benchkit.store.parquet_files import empty_frame
from tests.unit.report.test_verdicts import ids

MakeRun = Callable[..., StoredRun]
MIB = 1 << 20


def test_folders_of_services_have_a_table(make_run: MakeRun) -> None:
    run = make_run(blocks=2)
    rows = [
        {
            "trial_id": trial,
            "host": "sut",
            "service": "<proxy>",
            "instance": "cache",
            "metric": metric,
            "t_s": 2.0,
            "value": value,
        }
        for trial, size in zip(ids(run, "stack=nginx-go"), (2.0 * MIB, 4.0 * MIB), strict=True)
        for metric, value in (("folder_bytes", size), ("cpu_s_total", 1.0))
    ]
    telemetry = pd.DataFrame(rows)
    run = replace(run, table=lambda name: telemetry if name == "telemetry" else empty_frame(name))
    content = build_disk_usage(ReportInput(run, ()))
    assert content is not None
    shown = [[entry.text for entry in row] for row in content.table.rows]
    assert shown == [["nginx-go", "<proxy>", "sut", "cache", "3.00 MiB", "4.00 MiB", "2"]]
    assert "&lt;proxy&gt;" in page((run, ()))


def test_a_run_without_service_folders_has_no_section(run: StoredRun) -> None:
    assert build_disk_usage(ReportInput(run, ())) is None
