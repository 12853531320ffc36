"""Row models: the columns of the contract, and everything that derives from them."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest

from benchkit.models.metrics import P99
from benchkit.models.rows import (
    TABLES,
    Row,
    TrialRow,
    VerdictRow,
    column_names,
    columns_of,
)
from benchkit.store.parquet_files import arrow_schema, arrow_table, rows_from_arrow

CONTRACT = {
    "trials": """cell_id trial_id block position kind started_at duration_s tool connections rate_requested
        rate_achieved send_lag_p99_s requests rps
        bytes_total bytes_per_s latency_mean_s latency_p50_s latency_p90_s latency_p99_s latency_p999_s latency_p9999_s
        latency_max_s latency_covers latency_corrected errors_connect errors_read errors_write errors_timeout non_2xx
        server_cpu_s_per_request verdict overhead_s""",
    "factors": "cell_id factor level level_num",
    "verdicts": "trial_id check severity metrics seen threshold text",
    "latency": "trial_id series low_s high_s count",
    "telemetry": "trial_id host role service instance t_s metric unit value",
    "profile": "trial_id host service function flat_s cum_s flat_share cum_share",
    "profile_share": "trial_id service category share",
    "series": "trial_id t_s rps in_flight errors latency_p50_s latency_p99_s",
    "hosts": "host role at fact value",
}
"""Columns that notebooks and scripts of users rely on."""

TRIAL = TrialRow(
    cell_id="stack=go",
    trial_id="r1.b001.p001",
    block=1,
    position=1,
    kind="measure",
    started_at=datetime(2026, 3, 1, tzinfo=UTC),
    requests=7,
    latency_p50_s=0.25,
    latency_corrected=False,
)
VERDICT = VerdictRow(
    trial_id="r1.b001.p001",
    check="errors",
    severity="invalid",
    metrics=("rps", P99),
    seen="1",
    threshold="0",
    text="One.",
    scope="trial",
)


@pytest.mark.parametrize("table", CONTRACT)
def test_tables_have_the_columns_of_the_contract(table: str) -> None:
    assert set(CONTRACT[table].split()) <= set(arrow_schema(table).names)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_described_and_stored_in_the_order_of_its_model(table: str) -> None:
    names = [field.name for field in fields(TABLES[table])]  # type: ignore[arg-type] # every row is a dataclass
    assert arrow_schema(table).names == list(column_names(table)) == names
    assert not {"scenario", "run_id"} & set(names), "the partition keys stand only in the path"
    assert all(column.description for column in columns_of(table))


@pytest.mark.parametrize("row", [TRIAL, VERDICT])
def test_a_row_is_read_as_it_was_written(row: Row) -> None:
    assert rows_from_arrow(type(row), arrow_table(row.TABLE, [row, row])) == [row, row]
