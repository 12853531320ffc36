"""CPU profiles of a run: the shares of its services by category, and what profiling cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import numpy as np
import pandas as pd
from scipy import special

from benchkit.comparison.runs.run_data import RunData, studied_functions
from benchkit.models.base import Frozen
from benchkit.models.design import controlled
from benchkit.models.metrics import GOROUTINES, metric_named
from benchkit.models.profile import CATEGORIES, WAITING
from benchkit.models.run import PassKind
from benchkit.stats.inference import ALPHA, mean_interval
from benchkit.stats.samples import Exclusion, excluded_ids, usable_rows
from benchkit.units import counted

CPU: Final = "server_cpu_s_per_request"
ProfileFigure = Literal["shares", "goroutines", "rps", "server_cpu_s_per_request"]

COST_METRICS = ("rps", CPU)
"""Metrics in which the cost is stated; the host CPU that perf uses itself shows only in the first."""


class ServiceProfile(Frozen):
    """A service of a cell, over all of its profiles in the run.

    Shares are means over profiles, each from 0 to 1. `waiting` is the share of finding and waiting for work, `range`
    its smallest and largest value, and `interval` its 95 % interval over all `samples`. `cumulative` holds the figures
    of study 4. Goroutines, rate and CPU are medians over the cell's measured trials, which were not profiled; absent if
    unknown. Excluded trials are not used, unless all trials of a figure are excluded: `invalid_figures` then names it.
    """

    cell_id: str
    service: str
    profiles: int
    waiting: float
    range: tuple[float, float]
    samples: int | None = None
    """CPU samples of all its profiles together; None: unknown."""
    interval: tuple[float, float] | None = None
    categories: Mapping[str, float]
    cumulative: Mapping[str, float]
    goroutines: float | None = None
    rps: float | None = None
    server_cpu_s_per_request: float | None = None
    excluded_profiles: int = 0
    """Number of profiles that are not in these shares because the rate of their trials is invalid."""
    invalid_figures: tuple[ProfileFigure, ...] = ()

    def annotated(self, figure: ProfileFigure, text: str) -> str:
        """Return the text of a figure, marked if it comes from invalid trials only."""
        return f"{text}, invalid" if figure in self.invalid_figures else text


def service_profiles(run: RunData) -> tuple[ServiceProfile, ...]:
    """Return the profiled services of a run, by cell in the order of the plan."""
    cell_of = dict(zip(run.trials["trial_id"], run.trials["cell_id"], strict=True))
    shares = run.rows("profile_share")
    shares = shares.assign(cell_id=shares["trial_id"].map(cell_of))
    goroutines = goroutines_of(run.trials[run.trials["kind"] == "measure"], run.rows("telemetry"))
    return tuple(
        _service_profile(run, cell.cell_id, str(service), rows, goroutines)
        for cell in run.manifest.cells
        for service, rows in shares[shares["cell_id"] == cell.cell_id].groupby("service", sort=False)
    )


def _service_profile(
    run: RunData, cell_id: str, service: str, shares: pd.DataFrame, goroutines: pd.DataFrame
) -> ServiceProfile:
    """Return the profile of a service of a cell; `shares` are its rows, `goroutines` all rows of the run."""
    trials = run.trials[(run.trials["kind"] == "measure") & (run.trials["cell_id"] == cell_id)]
    counted = goroutines[(goroutines["cell_id"] == cell_id) & (goroutines["service"] == service)]
    of_rps, of_cpu = (excluded_ids(run.exclusions, metric) for metric in ("rps", CPU))
    rows: dict[ProfileFigure, tuple[pd.DataFrame, bool]] = {
        "shares": usable_rows(shares.dropna(subset="share"), excluded_ids(run.pass_exclusions, "rps")),
        "goroutines": usable_rows(counted.dropna(subset="count"), of_rps),
        "rps": usable_rows(trials.dropna(subset="rps"), of_rps),
        CPU: usable_rows(trials.dropna(subset=CPU), of_cpu),
    }
    used, _ = rows["shares"]
    profiles = set(used["trial_id"])
    functions = run.rows("profile")
    calls = functions[(functions["service"] == service) & functions["trial_id"].isin(profiles)]
    table = used.pivot_table(index="trial_id", columns="category", values="share", aggfunc="sum")
    waiting = table[table.columns.intersection(list(WAITING))].sum(axis="columns")
    samples = sample_count(calls)
    means = table.mean()
    return ServiceProfile(
        cell_id=cell_id,
        service=service,
        profiles=len(profiles),
        waiting=float(waiting.mean()),
        range=(float(waiting.min()), float(waiting.max())),
        samples=samples,
        interval=None if samples is None else share_interval(float(waiting.mean()), samples),
        categories={name: float(means.get(name, 0.0)) for name in CATEGORIES},
        cumulative={
            name: float(of_function["cum_share"].sum()) / len(profiles)  # 0 in a profile without the function
            for name, of_function in studied_functions(calls)
        },
        goroutines=_median(rows["goroutines"][0]["count"]),
        rps=_median(rows["rps"][0]["rps"]),
        server_cpu_s_per_request=_median(rows[CPU][0][CPU]),
        excluded_profiles=shares["trial_id"].nunique() - len(profiles),
        invalid_figures=tuple(name for name, (_, is_only_invalid) in rows.items() if is_only_invalid),
    )


def goroutines_of(trials: pd.DataFrame, telemetry: pd.DataFrame) -> pd.DataFrame:
    """Return the median goroutines of each service in each trial's window: trial_id, cell_id, block, service, count."""
    rows = telemetry[telemetry["metric"] == GOROUTINES]
    rows = rows.merge(trials[["trial_id", "cell_id", "block", "duration_s"]], on="trial_id")
    rows = rows[(rows["t_s"] >= 0) & (rows["t_s"] <= rows["duration_s"])]
    keys = ["trial_id", "cell_id", "block", "service"]
    return rows.groupby(keys, sort=False)["value"].median().reset_index().rename(columns={"value": "count"})


def sample_count(functions: pd.DataFrame) -> int | None:
    """Return the number of CPU samples of profiles, from their rows of `profile`; None where none states a time.

    A profiler samples at a fixed period. In a profile of some hundred samples the rarest function has one, so its CPU
    time is the period. The samples are the whole CPU time divided by it.
    """
    seconds = pd.to_numeric(functions["flat_s"]).astype("float64")
    times = seconds[seconds > 0].groupby(functions["trial_id"])
    return int((times.sum() / times.min()).round().sum()) or None


def share_interval(share: float, samples: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of independent samples (Wilson, J. Am. Stat. Assoc. 22, 1927)."""
    z = float(special.ndtri(1 - ALPHA / 2))
    centre, scale = share + z**2 / (2 * samples), 1 + z**2 / samples
    reach = z * math.sqrt(share * (1 - share) / samples + z**2 / (4 * samples**2))
    return max(0.0, (centre - reach) / scale), min(1.0, (centre + reach) / scale)


def _median(column: pd.Series) -> float | None:
    there = pd.to_numeric(column).dropna()
    return float(there.median()) if len(there) else None


class ProfilerCost(Frozen):
    """Ratio of observed trials to their unobserved partners in one metric, over all cells.

    Below 1 in RPS means that profiling or tracing (`kind`) slowed the server. Figures that need more pairs are absent,
    with the `reason`.
    """

    metric: str
    pairs: int
    kind: PassKind = "profile"
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 1 - ALPHA
    reason: str | None = None

    @property
    def sentence(self) -> str:
        """Ratio with its interval, or the reason why it has none, as a sentence."""
        observed = "traced" if self.kind == "trace" else "profiled"
        subject = f"{metric_named(self.metric).title} of {observed} trials relative to their partners"
        if self.ratio is None:
            return f"{subject} is unknown: {self.reason}."
        over = f"over {counted(self.pairs, 'pair')}"
        if self.low is None or self.high is None:
            return f"{subject}: {self.ratio:.3f} {over}, without an interval: {self.reason}."
        return (
            f"{subject}: {self.ratio:.3f} ({self.confidence:.0%} interval {self.low:.3f} to {self.high:.3f}, {over})."
        )


def profiler_cost(
    trials: pd.DataFrame, metric: str = "rps", exclusions: Iterable[Exclusion] = (), kind: PassKind = "profile"
) -> ProfilerCost | None:
    """Return the cost of a pass over all cells, by Student's t about the mean log-ratio of pairs; None without a pass.

    `trials` has rows of one run as `benchkit.load("trials")` gives them, `exclusions` the excluded ones. A pair is both
    trials of a cell in a block. Differences between cells widen the interval.
    """
    rows = trials[in_profile_pass(trials, kind)]
    if rows.empty:
        return None
    excluded = rows["trial_id"].isin(list(excluded_ids(exclusions, metric)))
    values = pd.to_numeric(rows[metric]).astype("float64")
    usable = rows[~excluded & (values > 0)].assign(log=np.log(values.where(values > 0)))
    wide = usable.pivot_table(index=["cell_id", "block"], columns="kind", values="log", sort=False)
    logs = (wide[kind] - wide["control"]).dropna().to_numpy() if {kind, "control"} <= set(wide.columns) else np.empty(0)
    cost = ProfilerCost(metric=metric, pairs=len(logs), kind=kind)
    if not len(logs):
        lost = f"{excluded.sum()} of its {len(rows)} trials are invalid"
        why = lost if excluded.any() else f"no pair has {metric} of both trials"
        return cost.model_copy(update={"reason": f"no usable pair: {why}"})
    cost = cost.model_copy(update={"ratio": math.exp(logs.mean())})
    if len(logs) == 1:
        return cost.model_copy(update={"reason": "an interval needs two pairs"})
    mean, reach = mean_interval(logs, ALPHA)
    return cost.model_copy(update={"low": math.exp(mean - reach), "high": math.exp(mean + reach)})


def in_profile_pass(trials: pd.DataFrame, kind: PassKind = "profile") -> pd.Series[bool]:
    """Return a mask of the trials of a pass: observed trials and their partners, in the same blocks."""
    own = trials["cell_id"].map(lambda cell_id: controlled(str(cell_id)) is None).astype(bool)
    observed = trials["kind"] == kind
    return observed | ((trials["kind"] == "control") & own & trials["block"].isin(trials["block"][observed]))
