"""Every ratio on the pages of the studies, computed again from the Parquet tables by pandas alone.

Nothing of benchkit computes here. Excluded trials have an invalid finding about the metric. A block counts where both
cells have a usable trial. The interval is Student's t on the logarithms of its ratios.
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
from tests.support.studies.pages import page
from tests.support.studies.study import RECORDED, read_studies

STUDIES = read_studies().values()
KINDS = {False: "measure", True: "held"}
"""Kinds of the trials that a ratio compares: at full speed, or at a held rate."""
CLAIMED = [
    pytest.param(recorded.runs[scenario].manifest.run_id, ratio, KINDS["held" in stated], id=f"{scenario}-{place}-{i}")
    for recorded in STUDIES
    for scenario, run in recorded.runs.items()
    for place, (claim, stated) in enumerate(zip(run.claims, run.manifest.scenario.get("claims", ()), strict=True))
    for i, ratio in enumerate(claim.ratios)
    if ratio.ratio is not None
]
IN_PROSE = [
    pytest.param(
        recorded.runs[figure.scenario].manifest.run_id, ratio, KINDS[figure.held], id=f"{recorded.name}-{name}-{i}"
    )
    for recorded in STUDIES
    for name, figure in recorded.study.figures.items()
    if figure.scenario in recorded.runs
    for i, ratio in enumerate(recorded.figure(name).ratios)
    if ratio.ratio is not None
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


def values(run_id: str, metric: str, kind: str) -> pd.Series[float]:
    """Return the logarithm of the metric in each usable trial of a kind, by cell and block."""
    trials = table("trials", run_id)
    trials = trials[(trials["kind"] == kind) & ~trials["cell_id"].str.endswith("~control")]
    out = invalid(run_id, metric)
    if metric in PERCENTILES:  # a percentile needs 10 / (1 - p) requests
        few = trials["requests"] < 10 / (1 - PERCENTILES[metric]) - 1e-6
        out |= set(trials.loc[few, "trial_id"])
    if metric.startswith("cpu/"):
        trials = trials.assign(**{metric: cpu_of_service(run_id, trials, metric.removeprefix("cpu/"))})
        out = invalid(run_id, "rps")
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


def cpu_of_service(run_id: str, trials: pd.DataFrame, service: str) -> pd.Series[float]:
    """Return the CPU time per request of a service, from the samples around the window of each trial."""
    rows = table("telemetry", run_id)
    rows = rows[(rows["metric"] == "cpu_s_total") & (rows["service"] == service)].sort_values("t_s")
    spent: dict[str, float] = {}
    for trial_id, duration_s in trials[["trial_id", "duration_s"]].itertuples(index=False):
        for _, samples in rows[rows["trial_id"] == trial_id].groupby("instance", dropna=False):
            before, after = samples[samples["t_s"] <= 0], samples[samples["t_s"] >= duration_s]
            begin = (before.tail(1) if len(before) else samples.head(1))["value"].item()
            end = (after.head(1) if len(after) else samples.tail(1))["value"].item()
            spent[trial_id] = spent.get(trial_id, 0.0) + end - begin
    return trials["trial_id"].map(spent) / trials["requests"]


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


@pytest.mark.parametrize(("run_id", "ratio", "kind"), RATIOS)
def test_a_printed_ratio_is_that_of_plain_pandas(run_id: str, ratio: Ratio, kind: str) -> None:
    is_share = ratio.metric in PROFILE_METRICS
    logs = shares(run_id) if is_share else values(run_id, ratio.metric, kind)
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


def test_the_published_profiles_stand_beside_those_of_plain_pandas() -> None:
    (recorded,) = [each for each in STUDIES if each.name == "nethttp-vs-fasthttp"]
    run_id = recorded.runs["scheduler-overhead"].manifest.run_id
    profiled = table("trials", run_id)
    profiled = profiled[(profiled["kind"] == "profile") & (profiled["cell_id"] == "server=fasthttp,connections=15000")]
    calls_of = table("profile", run_id)
    of_schedule = calls_of[
        (calls_of["function"] == "runtime.schedule") & calls_of["trial_id"].isin(profiled["trial_id"])
    ]
    share = of_schedule["cum_share"].sum() / len(profiled)
    written = page(recorded)
    assert "| function | the study, 8000 connections | the study, 16000 connections | here," in written
    (row,) = [line for line in written.splitlines() if line.startswith("| schedule |")]
    assert row.split(" | ")[1:3] == ["39.8 %", "55.6 %"]
    assert row.removesuffix(" |").split(" | ")[-1] == f"{100 * share:.1f} %"
