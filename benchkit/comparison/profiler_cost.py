"""Cost of profiling: profiled trials relative to their partners that were not, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from benchkit.judge.checks import cold, observed
from benchkit.judge.exclusions import exclusions as verdict_exclusions
from benchkit.models.base import Frozen
from benchkit.models.design import controlled
from benchkit.models.metrics import metric_named
from benchkit.models.run import Manifest
from benchkit.stats.inference import t_quantile
from benchkit.stats.multiple_tests import ALPHA
from benchkit.stats.samples import Exclusion
from benchkit.units import counted

METRICS = ("rps", "server_cpu_s_per_request")
"""Metrics in which the cost is stated; the host CPU that perf uses itself shows only in the first."""


IGNORED_CHECKS = (observed.CHECK.code, cold.CHECK.code)
"""Checks with findings that profiling itself causes: perf starts in the first third of the window and slows it."""


class ProfilerCost(Frozen):
    """Ratio of profiled trials to their partners in one metric, of a cell or (`cell_id` None) of all cells together.

    Below 1 in RPS means that profiling slowed the server. Figures that need more pairs are absent, with the `reason`.
    """

    metric: str
    cell_id: str | None
    pairs: int
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 1 - ALPHA
    reason: str | None = None

    @property
    def sentence(self) -> str:
        """Ratio with its interval, or the reason why it has none, as a sentence."""
        title, pairs = metric_named(self.metric).title, counted(self.pairs, "pair")
        of = "" if self.cell_id is None else f" of {self.cell_id}"
        subject = f"{title}{of} of profiled trials relative to their partners"
        if self.ratio is None:
            return f"{subject} is unknown: {self.reason}."
        if self.low is None or self.high is None:
            return f"{subject}: {self.ratio:.3f} over {pairs}, without an interval: {self.reason}."
        return f"{subject}: {self.ratio:.3f}, {self.confidence:.0%} interval {self.low:.3f} to {self.high:.3f}, over {pairs}."


def profiler_costs(
    trials: pd.DataFrame, metric: str = "rps", exclusions: Iterable[Exclusion] = ()
) -> tuple[ProfilerCost, ...]:
    """Return the cost over all cells, then that of each, from the pairs of the profile pass; empty without one.

    `trials` has rows of one run as `benchkit.load("trials")` gives them, `exclusions` the excluded ones. A pair is both
    trials of a cell in a block. A cell's interval is Student's t about the mean of its log-ratios, with the variance
    within cells pooled over all cells (one-way layout; Montgomery, Design and Analysis of Experiments, 3.5): a pass has
    few blocks, and its cells have the same noise. The one over all cells uses every pair as a sample, so that
    differences between cells widen it.
    """
    rows = trials[in_profile_pass(trials)]
    if rows.empty:
        return ()
    excluded = {each.trial_id: each.reason for each in exclusions if each.covers(metric)}
    pairs = _log_ratios(rows, metric, set(excluded))
    if pairs.empty:
        lost = int(rows["trial_id"].isin(list(excluded)).sum())
        why = f"{lost} of its {len(rows)} trials are invalid" if lost else f"no pair has {metric} of both trials"
        return (ProfilerCost(metric=metric, cell_id=None, pairs=0, reason=f"no usable pair: {why}"),)
    groups = {str(cell_id): found.to_numpy(dtype=float) for cell_id, found in pairs.groupby("cell_id")["log"]}
    everything = np.concatenate(list(groups.values()))
    over_all = _cost(metric, None, everything, _pooled_deviation([everything]))
    spread = _pooled_deviation(list(groups.values()))
    return (over_all, *(_cost(metric, cell_id, logs, spread) for cell_id, logs in groups.items()))


def in_profile_pass(trials: pd.DataFrame) -> pd.Series[bool]:
    """Return a mask of the trials of the profile pass: profiled trials and their partners."""
    own = trials["cell_id"].map(lambda cell_id: controlled(str(cell_id)) is None).astype(bool)
    return (trials["kind"] == "profile") | ((trials["kind"] == "control") & own)


def profile_pass_exclusions(trials: pd.DataFrame, verdicts: pd.DataFrame, manifest: Manifest) -> tuple[Exclusion, ...]:
    """Return the exclusions in the pass, except for findings that profiling itself causes.

    Excluding the trials that profiling slowed most would make it look cheap.
    """
    profiled = verdicts["trial_id"].isin(trials["trial_id"][trials["kind"] == "profile"])
    return verdict_exclusions(trials, verdicts[~(profiled & verdicts["check"].isin(IGNORED_CHECKS))], manifest)


def _log_ratios(rows: pd.DataFrame, metric: str, excluded: set[str]) -> pd.DataFrame:
    """Return a row for each pair: its cell, and the logarithm of profiled over not; `rows` are those of the pass."""
    rows = rows[~rows["trial_id"].isin(excluded)]
    values = pd.to_numeric(rows[metric]).astype("float64")
    rows = rows[values > 0].assign(log=np.log(values[values > 0]))
    wide = rows.pivot_table(index=["cell_id", "block"], columns="kind", values="log", sort=False)
    if not {"profile", "control"} <= set(wide.columns):
        return pd.DataFrame({"cell_id": [], "log": []})
    return (wide["profile"] - wide["control"]).dropna().rename("log").reset_index()


def _pooled_deviation(groups: Sequence[np.ndarray]) -> tuple[float, int]:
    """Return the standard deviation within groups, and its degrees of freedom."""
    df = sum(len(logs) - 1 for logs in groups)
    squares = sum(float(((logs - logs.mean()) ** 2).sum()) for logs in groups)
    return (math.sqrt(squares / df) if df else math.nan), df


def _cost(metric: str, cell_id: str | None, logs: np.ndarray, spread: tuple[float, int]) -> ProfilerCost:
    deviation, df = spread
    mean = float(logs.mean())
    cost = ProfilerCost(metric=metric, cell_id=cell_id, pairs=len(logs), ratio=math.exp(mean))
    if not df:
        return cost.model_copy(update={"reason": "an interval needs a cell with two pairs"})
    reach = t_quantile(1 - ALPHA, df) * deviation / math.sqrt(len(logs))
    return cost.model_copy(update={"low": math.exp(mean - reach), "high": math.exp(mean + reach)})
