"""CPU profiles of a run: the shares of its services by category, and the cost of profiling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import pandas as pd
from scipy import special

from benchkit.comparison.ratios import Ratio, block_ratios
from benchkit.comparison.runs.run_data import RunData, studied_functions
from benchkit.models.base import Frozen
from benchkit.models.design import controlled
from benchkit.models.metrics import CPU, RPS, metric_named
from benchkit.models.profile import CATEGORIES, WAITING
from benchkit.models.run import PassKind
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.inference import ALPHA, MIN_BLOCKS
from benchkit.stats.samples import Exclusion, excluded_ids, take_samples, usable_rows
from benchkit.units import counted

COST_METRICS = (RPS, CPU)
"""Metrics in which the cost is stated; only the first includes the CPU time that perf itself uses."""


class ServiceProfile(Frozen):
    """A service of a cell, over all of its profiles in the run.

    Shares are means over profiles. `waiting` is the share of finding and waiting for work, `range` its smallest and
    largest value, and `interval` its 95 % interval over all `samples`. `cumulative` holds the figures of study 4.
    Excluded trials are not used, unless all are excluded (`only_invalid`).
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
    excluded_profiles: int = 0
    """Number of profiles that these shares exclude, as the rates of their trials are invalid."""
    only_invalid: bool = False


def service_profiles(run: RunData) -> tuple[ServiceProfile, ...]:
    """Return the profiled services of a run, by cell in the order of the plan."""
    cell_of = dict(zip(run.trials["trial_id"], run.trials["cell_id"], strict=True))
    shares = run.rows("profile_share")
    shares = shares.assign(cell_id=shares["trial_id"].map(cell_of))
    return tuple(
        _service_profile(run, cell.cell_id, str(service), rows)
        for cell in run.manifest.cells
        for service, rows in shares[shares["cell_id"] == cell.cell_id].groupby("service", sort=False)
    )


def _service_profile(run: RunData, cell_id: str, service: str, shares: pd.DataFrame) -> ServiceProfile:
    """Return the profile of a service of a cell; `shares` are its rows."""
    used, only_invalid = usable_rows(shares.dropna(subset="share"), excluded_ids(run.pass_exclusions, RPS))
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
        excluded_profiles=shares["trial_id"].nunique() - len(profiles),
        only_invalid=only_invalid,
    )


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


def profiler_cost(
    trials: pd.DataFrame, metric: str = RPS, exclusions: Iterable[Exclusion] = (), kind: PassKind = "profile"
) -> Ratio | None:
    """Return the ratio of observed trials to their unobserved partners, over all cells; None without such a pass.

    A ratio below 1 in RPS means that profiling or tracing slowed the server. `trials` has rows of one run. A pair is
    both trials of a cell in a block. Differences between cells widen the interval.
    """
    rows = trials[in_profile_pass(trials, kind)]
    if rows.empty:
        return None
    pair = rows.groupby(["cell_id", "block"], sort=False).ngroup()
    samples = take_samples(rows.assign(cell_id=rows["kind"], block=pair, kind="measure"), metric, exclusions)
    return block_ratios(samples, [ComparedCells(kind, "control")])[0]


def cost_sentence(cost: Ratio) -> str:
    """Return the ratio of observed trials to their partners with its interval, as a sentence."""
    observed = "traced" if cost.cell_id == "trace" else "profiled"
    subject = f"{metric_named(cost.metric).title} of {observed} trials relative to their partners"
    if cost.ratio is None:
        return f"{subject} is unknown: {cost.with_exclusions('no pair has usable trials')}."
    over = f"over {counted(cost.blocks, 'pair')}"
    if cost.low is None or cost.high is None:
        return f"{subject}: {cost.ratio:.3f} {over}, without an interval: one needs {MIN_BLOCKS} pairs."
    return f"{subject}: {cost.ratio:.3f} ({cost.confidence:.0%} interval {cost.low:.3f} to {cost.high:.3f}, {over})."


def in_profile_pass(trials: pd.DataFrame, kind: PassKind = "profile") -> pd.Series[bool]:
    """Return a mask of the trials of a pass: observed trials, and their partners in the same blocks."""
    own = trials["cell_id"].map(lambda cell_id: controlled(str(cell_id)) is None).astype(bool)
    observed = trials["kind"] == kind
    return observed | ((trials["kind"] == "control") & own & trials["block"].isin(trials["block"][observed]))
