"""Row models: the columns of the contract, and everything that derives from them."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from benchkit import units
from benchkit.models.metrics import FAILURES, LATENCIES, METRICS, P99, PERCENTILES, metric_named
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


def test_types_follow_from_the_annotations() -> None:
    types = {
        "trials": {"block": "int64", "rps": "double", "tool": "string", "latency_corrected": "bool"},
        "verdicts": {"metrics": "list<item: string>"},
    }
    for table, columns in types.items():
        assert {name: str(arrow_schema(table).field(name).type) for name in columns} == columns
    assert arrow_schema("trials").field("started_at").type == pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize("row", [TRIAL, VERDICT])
def test_a_row_is_read_as_it_was_written(row: Row) -> None:
    assert rows_from_arrow(type(row), arrow_table(row.TABLE, [row, row])) == [row, row]


def test_metrics_are_the_described_numbers_of_a_trial() -> None:
    assert METRICS["rps"].title == "RPS"
    assert METRICS[P99].title == "p99 latency"
    assert METRICS[P99].format is units.seconds
    assert {name for name, metric in METRICS.items() if metric.better == "higher"} == {
        "rps",
        "rate_achieved",
        "capacity_rps",
        "handshakes_per_s",
        "overload_goodput_rps",
        "requests",
        "bytes_per_s",
    }
    assert {"errors_connect", "errors_read", "errors_write", "errors_timeout", "non_2xx"} == FAILURES
    assert ("latency_mean_s", *PERCENTILES, "latency_max_s") == LATENCIES
    assert metric_named("mine").better is None
