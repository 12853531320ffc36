"""Recording of runs for the notebooks: small histograms with the same requests in the same order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from benchkit.store.parquet_files import arrow_schema
from tests.qualify.notebooks.record_store import STEP, coarsened


def test_histograms_become_small_and_keep_their_requests() -> None:
    low_s = np.arange(1, 20_001) / 1e6
    rows = pa.table(
        {
            "trial_id": ["t"] * len(low_s),
            "series": ["raw"] * len(low_s),
            "low_s": low_s,
            "high_s": low_s,
            "count": [2] * len(low_s),
        },
        schema=arrow_schema("latency"),
    )
    coarse = coarsened(pa.concat_tables([rows, rows.set_column(0, rows.schema.field(0), pa.array(["u"] * len(low_s)))]))
    assert coarse.schema == rows.schema
    table = coarse.to_pandas()
    assert len(table) < 2 * 600
    assert table.groupby("trial_id")["count"].sum().to_dict() == {"t": 40_000, "u": 40_000}
    one = table[table["trial_id"] == "t"]
    assert (one["low_s"].to_numpy()[1:] > one["high_s"].to_numpy()[:-1]).all()
    assert (one["high_s"] / one["low_s"]).max() < STEP
    exact, joined = (
        pd.Series(np.repeat(histogram["high_s"], histogram["count"])).quantile([0.5, 0.99])
        for histogram in (rows.to_pandas(), one)
    )
    assert (joined / exact).between(1, STEP).all()
