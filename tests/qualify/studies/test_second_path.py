"""Every ratio on the pages of the studies, computed again from the Parquet tables by pandas alone.

Nothing of benchkit computes here: excluded trials are those with an invalid finding about the metric, a block counts
where both cells have a usable trial, and the interval is Student's t on the logarithms of its ratios.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

from benchkit.comparison.ratios import Ratio
from benchkit.models.profile import PROFILE_METRICS
from tests.support.studies.study import RECORDED, read_studies

STUDIES = read_studies().values()
CLAIMED = [
    pytest.param(recorded.runs[scenario].manifest.run_id, ratio, id=f"{scenario}-{place}-{i}")
    for recorded in STUDIES
    for scenario in recorded.runs
    for place, claim in enumerate(recorded.runs[scenario].claims)
    for i, ratio in enumerate(claim.ratios)
    if ratio.ratio is not None
]
IN_PROSE = [
    pytest.param(recorded.runs[figure.scenario].manifest.run_id, ratio, id=f"{recorded.name}-{name}-{i}")
    for recorded in STUDIES
    for name, figure in recorded.study.figures.items()
    for i, ratio in enumerate(recorded.figure(name).ratios)
]
RATIOS = [*CLAIMED, *IN_PROSE]
WAITING = ["scheduler", "netpoll", "epoll"]
PERCENTILES = {"latency_p50_s": 0.5, "latency_p90_s": 0.9, "latency_p99_s": 0.99}


@cache
def table(name: str, run_id: str) -> pd.DataFrame:
    """Return the rows of a table of a run, as plain pandas reads them."""
    files = sorted(Path(RECORDED).glob(f"tables/{name}/*/run_id={run_id}/*.parquet"))
    return pd.concat([pd.read_parquet(file) for file in files]) if files else pd.DataFrame()


def invalid(run_id: str, metric: str) -> set[str]:
    """Return the trials with an invalid finding about a metric."""
    found = table("verdicts", run_id)
    rows = found[found["severity"] == "invalid"]
    return {str(trial) for trial, metrics in zip(rows["trial_id"], rows["metrics"], strict=True) if metric in metrics}


def values(run_id: str, metric: str) -> pd.Series[float]:
    """Return the logarithm of the metric in each usable trial, by cell and block."""
    trials = table("trials", run_id)
    trials = trials[(trials["kind"] == "measure") & ~trials["cell_id"].str.endswith("~control")]
    out = invalid(run_id, metric)
    if metric in PERCENTILES:  # a percentile needs 10 / (1 - p) requests
        few = trials["requests"] < 10 / (1 - PERCENTILES[metric]) - 1e-6
        out |= set(trials.loc[few, "trial_id"])
    if metric == "goroutines":
        trials, out = trials.assign(goroutines=goroutines(run_id, trials)), invalid(run_id, "rps")
    usable = trials[~trials["trial_id"].isin(list(out)) & (trials[metric] > 0)]
    indexed = usable.set_index(["cell_id", "block"])[metric].astype(float)
    return indexed.map(math.log)


def goroutines(run_id: str, trials: pd.DataFrame) -> pd.Series[float]:
    """Return the median number of goroutines within the window of each trial."""
    rows = table("telemetry", run_id)
    rows = rows[rows["metric"] == "goroutines"].merge(trials[["trial_id", "duration_s"]], on="trial_id")
    inside = rows[(rows["t_s"] >= 0) & (rows["t_s"] <= rows["duration_s"])]
    return trials["trial_id"].map(inside.groupby("trial_id")["value"].median())


def shares(run_id: str) -> pd.Series[float]:
    """Return the logarithm of the share of finding and waiting for work in each profile, by cell and block."""
    rows = table("profile_share", run_id)
    sums = rows[rows["category"].isin(WAITING)].groupby("trial_id")["share"].sum()
    trials = table("trials", run_id).set_index("trial_id").loc[sums.index]
    return sums.set_axis(pd.MultiIndex.from_frame(trials[["cell_id", "block"]])).map(math.log)


def lead(logs: pd.Series[float], cell: str, baseline: str) -> pd.Series[float]:
    """Return the log-ratio of two cells in each block that has both."""
    one, other = (pd.Series(logs.xs(name, level="cell_id")) for name in (cell, baseline))
    return (one - other).dropna()


@pytest.mark.parametrize(("run_id", "ratio"), RATIOS)
def test_a_printed_ratio_is_that_of_plain_pandas(run_id: str, ratio: Ratio) -> None:
    is_share = ratio.metric in PROFILE_METRICS
    logs = shares(run_id) if is_share else values(run_id, ratio.metric)
    found = lead(logs, ratio.cell_id, ratio.baseline)
    if ratio.relative_to is not None:
        found = (found - lead(logs, *ratio.relative_to.split(" to "))).dropna()
    assert len(found) == ratio.blocks
    assert math.exp(found.mean()) == pytest.approx(ratio.ratio, rel=1e-9)
    if ratio.low is None or ratio.high is None:
        return
    manifest = json.loads((RECORDED / "runs" / run_id / "manifest.json").read_text(encoding="utf-8"))
    assert not manifest["scenario"].get("until")  # intervals of 95 %
    reach = stats.t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / math.sqrt(len(found))
    widened = reach + ratio.bias  # a bias that the run states is added to either side
    assert math.exp(found.mean() - widened) == pytest.approx(ratio.low, rel=1e-9)
    assert math.exp(found.mean() + widened) == pytest.approx(ratio.high, rel=1e-9)


def test_most_of_the_printed_ratios_are_checked() -> None:
    assert len(RATIOS) >= 80
