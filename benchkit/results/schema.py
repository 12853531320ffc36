"""The columns of the tables, the same in every run; what differs between runs is rows.

The partition keys `scenario` and `run_id` stand in the path only.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from benchkit.models.run import SCHEMA_VERSION

if TYPE_CHECKING:
    import pandas as pd

VERSION_KEY = b"benchkit.schema_version"

_TEXT, _COUNT, _REAL, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")

TABLES: Mapping[str, Mapping[str, pa.DataType]] = {
    "trials": {
        "cell_id": _TEXT,
        "trial_id": _TEXT,
        "block": _COUNT,
        "position": _COUNT,
        "kind": _TEXT,
        "started_at": _TIME,
        "duration_s": _REAL,
        "tool": _TEXT,
        "connections": _COUNT,
        "rate_requested": _REAL,
        "requests": _COUNT,
        "rps": _REAL,
        "bytes_total": _REAL,
        "bytes_per_s": _REAL,
        "latency_mean_s": _REAL,
        "latency_p50_s": _REAL,
        "latency_p90_s": _REAL,
        "latency_p99_s": _REAL,
        "latency_p999_s": _REAL,
        "latency_p9999_s": _REAL,
        "latency_max_s": _REAL,
        "latency_covers": _TEXT,
        "latency_corrected": _FLAG,
        "latency_resolution_s": _REAL,
        "errors_connect": _COUNT,
        "errors_read": _COUNT,
        "errors_write": _COUNT,
        "errors_timeout": _COUNT,
        "non_2xx": _COUNT,
        "server_cpu_s_per_request": _REAL,
        "probe_status": _COUNT,
        "probe_header_bytes": _COUNT,
        "probe_body_bytes": _COUNT,
        "probe_body_sha256": _TEXT,
        "rate_first_over_last": _REAL,
        "server_loop_s": _REAL,
        "verdict": _TEXT,
        "overhead_s": _REAL,
    },
    "verdicts": {
        "trial_id": _TEXT,
        "check": _TEXT,
        "severity": _TEXT,
        "metrics": pa.list_(_TEXT),
        "seen": _TEXT,
        "threshold": _TEXT,
        "text": _TEXT,
        "scope": _TEXT,
    },
    "unchecked": {"trial_id": _TEXT, "check": _TEXT, "why": _TEXT, "scope": _TEXT},
    "telemetry": {
        "trial_id": _TEXT,
        "host": _TEXT,
        "role": _TEXT,
        "service": _TEXT,
        "instance": _TEXT,
        "t_s": _REAL,
        "metric": _TEXT,
        "unit": _TEXT,
        "value": _REAL,
    },
    "profile": {
        "trial_id": _TEXT,
        "host": _TEXT,
        "service": _TEXT,
        "function": _TEXT,
        "flat_s": _REAL,
        "cum_s": _REAL,
        "flat_share": _REAL,
        "cum_share": _REAL,
    },
    "profile_share": {"trial_id": _TEXT, "service": _TEXT, "category": _TEXT, "share": _REAL},
    "latency": {"trial_id": _TEXT, "series": _TEXT, "low_s": _REAL, "high_s": _REAL, "count": _COUNT},
    "notes": {"trial_id": _TEXT, "code": _TEXT, "message": _TEXT},
    "factors": {"cell_id": _TEXT, "factor": _TEXT, "level": _TEXT, "level_num": _REAL},
    "hosts": {"host": _TEXT, "role": _TEXT, "at": _TEXT, "fact": _TEXT, "value": _TEXT},
}


@cache
def arrow_schema(table: str) -> pa.Schema:
    """The Arrow schema of a table, with the schema version in its metadata."""
    return pa.schema(list(TABLES[table].items()), metadata={VERSION_KEY: str(SCHEMA_VERSION)})


def empty_frame(table: str) -> pd.DataFrame:
    """The table without rows, its columns typed as those of a stored one."""
    frame: pd.DataFrame = arrow_schema(table).empty_table().to_pandas()
    return frame
