"""What profiling cost: trials that were profiled over those beside them that were not, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from benchkit.analysis.inference import t_quantile
from benchkit.analysis.multiple_tests import ALPHA
from benchkit.analysis.samples import Exclusion
from benchkit.analysis.verdicts.checks import cold, observed
from benchkit.analysis.verdicts.exclusions import exclusions as verdict_exclusions
from benchkit.models.base import Frozen
from benchkit.models.design import controlled
from benchkit.models.metrics import metric_named
from benchkit.models.run import Manifest
from benchkit.units import counted

METRICS = ("rps", "server_cpu_s_per_request")
"""In what the cost is told: what perf itself takes of the host's CPU shows in the first alone."""


IGNORED_CHECKS = (observed.CHECK.code, cold.CHECK.code)
"""What a trial is found to be because it is profiled: perf starts in the first third of the window, which is the slower
one for it."""


class ProfilerCost(Frozen):
    """The ratio of profiled trials to their partners in one metric, of a cell or (`cell_id` None) of all cells together.

    Below 1 in RPS means that profiling slowed the server. Absent: what so few pairs cannot say, with the `reason`.
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
        """For people: the figure with its interval, or why it has none."""
        title, pairs = metric_named(self.metric).title, counted(self.pairs, "pair")
        of = "" if self.cell_id is None else f" of {self.cell_id}"
        said = f"{title}{of} of profiled trials over those beside them"
        if self.ratio is None:
            return f"{said} is not known: {self.reason}."
        if self.low is None or self.high is None:
            return f"{said}: {self.ratio:.3f} over {pairs}, without an interval: {self.reason}."
        return (
            f"{said}: {self.ratio:.3f}, {self.confidence:.0%} interval {self.low:.3f} to {self.high:.3f}, over {pairs}."
        )


def profiler_costs(
    trials: pd.DataFrame, metric: str = "rps", exclusions: Iterable[Exclusion] = ()
) -> tuple[ProfilerCost, ...]:
    """The cost over all cells, then that of each, from the pairs of the profile pass; nothing where there was none.

    `trials` has rows of one run as `benchkit.load("trials")` gives them, `exclusions` the excluded ones. A pair is both trials of a cell in a block. A
    cell's interval is Student's t about the mean of its log-ratios, with the variance within cells pooled over all cells
    (one-way layout; Montgomery, Design and Analysis of Experiments, 3.5): a pass has few blocks, and its cells are under
    the same noise. That over all cells takes every pair as a sample, so that cells which differ widen it.
    """
    rows = trials[in_profile_pass(trials)]
    if rows.empty:
        return ()
    out = {each.trial_id: each.reason for each in exclusions if each.covers(metric)}
    pairs = _log_ratios(rows, metric, set(out))
    if pairs.empty:
        lost = int(rows["trial_id"].isin(list(out)).sum())
        why = (
            f"verdicts void {lost} of its {len(rows)} trials" if lost else f"there is no {metric} of both trials of any"
        )
        return (ProfilerCost(metric=metric, cell_id=None, pairs=0, reason=f"no pair counts: {why}"),)
    groups = {str(cell_id): found.to_numpy(dtype=float) for cell_id, found in pairs.groupby("cell_id")["log"]}
    everything = np.concatenate(list(groups.values()))
    over_all = _cost(metric, None, everything, _spread([everything]))
    spread = _spread(list(groups.values()))
    return (over_all, *(_cost(metric, cell_id, logs, spread) for cell_id, logs in groups.items()))


def in_profile_pass(trials: pd.DataFrame) -> pd.Series[bool]:
    """The trials of the profile pass: those that were profiled, and their partners."""
    own = trials["cell_id"].map(lambda cell_id: controlled(str(cell_id)) is None).astype(bool)
    return (trials["kind"] == "profile") | ((trials["kind"] == "control") & own)


def profile_pass_exclusions(trials: pd.DataFrame, verdicts: pd.DataFrame, manifest: Manifest) -> tuple[Exclusion, ...]:
    """The trials of the pass that verdicts void, for other reasons than that they were there to be profiled.

    To leave out those that profiling slowed most would make it look cheap.
    """
    profiled = verdicts["trial_id"].isin(trials["trial_id"][trials["kind"] == "profile"])
    return verdict_exclusions(trials, verdicts[~(profiled & verdicts["check"].isin(IGNORED_CHECKS))], manifest)


def _log_ratios(rows: pd.DataFrame, metric: str, excluded: set[str]) -> pd.DataFrame:
    """A row for each pair: its cell, and the logarithm of profiled over not; `rows` are those of the pass."""
    rows = rows[~rows["trial_id"].isin(excluded)]
    values = pd.to_numeric(rows[metric]).astype("float64")
    rows = rows[values > 0].assign(log=np.log(values[values > 0]))
    wide = rows.pivot_table(index=["cell_id", "block"], columns="kind", values="log", sort=False)
    if not {"profile", "control"} <= set(wide.columns):
        return pd.DataFrame({"cell_id": [], "log": []})
    return (wide["profile"] - wide["control"]).dropna().rename("log").reset_index()


def _spread(groups: Sequence[np.ndarray]) -> tuple[float, int]:
    """The standard deviation within groups, and its degrees of freedom."""
    df = sum(len(logs) - 1 for logs in groups)
    squares = sum(float(((logs - logs.mean()) ** 2).sum()) for logs in groups)
    return (math.sqrt(squares / df) if df else math.nan), df


def _cost(metric: str, cell_id: str | None, logs: np.ndarray, spread: tuple[float, int]) -> ProfilerCost:
    deviation, df = spread
    mean = float(logs.mean())
    cost = ProfilerCost(metric=metric, cell_id=cell_id, pairs=len(logs), ratio=math.exp(mean))
    if not df:
        return cost.model_copy(update={"reason": "no cell has two pairs; an interval needs them"})
    reach = t_quantile(1 - ALPHA, df) * deviation / math.sqrt(len(logs))
    return cost.model_copy(update={"low": math.exp(mean - reach), "high": math.exp(mean + reach)})
