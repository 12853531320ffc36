"""Components of a ratio: what the difference between a cell and its baseline consists of.

In a closed loop, requests per second are the CPU cores that the servers use, divided by their CPU time per request
(the utilisation law, Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978): the logarithm of a
ratio of rates is a sum of two terms. The CPU time per request is a sum over services, and with profiles over the
categories of each service. Every level adds up: what no part accounts for is a row of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from benchkit.comparison.increases import increases_of
from benchkit.comparison.run_data import RunData, profile_pass_exclusions
from benchkit.models.base import STACK, Frozen
from benchkit.models.metrics import CPU, RPS
from benchkit.models.telemetry import AGENT_SERVICE, is_neighbour, is_of_load_tool
from benchkit.stats.cell_pairs import ComparedCells, compared_with_baseline
from benchkit.stats.inference import MIN_BLOCKS, mean_interval
from benchkit.stats.samples import Reals

Level = Literal["rate", "service", "category", "activity"]
"""rate: logarithms that add up to that of the ratio of rates; service, category: CPU time per request of services, and
of their categories; activity: what else happens per request, which adds up to nothing."""

CORES, COST = "CPU cores used", "CPU time per request"
ROUNDING = 1e-3
"""Share of the CPU time of a trial by which the sum of its services may differ: both are read within a millisecond."""
SUM, REST = "all", "not attributed"
"""Components of a level: the sum of all others, and what none of them accounts for."""
PER_REQUEST: Mapping[str, tuple[str, str]] = {
    "voluntary_switches_total": ("voluntary context switches", "1/req"),
    "involuntary_switches_total": ("involuntary context switches", "1/req"),
    "connections_accepted_total": ("connections accepted", "1/req"),
    "gc_pause_s_total": ("pauses for garbage collection", "sec/req"),
    "gc_total": ("garbage collections", "1/req"),
    "goroutine_wait_s_total": ("waits of runnable goroutines", "sec/req"),
}
"""Counters of services with their names per request, and units."""


class Component(Frozen):
    """A part of the difference between a cell and its baseline.

    `value` and `baseline_value` are means over blocks in `unit`: geometric ones of rates, arithmetic ones of times per
    request. `difference` is theirs: of logarithms at level `rate`, else in `unit`. `low` and `high` are the ends of its
    t interval over blocks; None: too few blocks.
    """

    cell_id: str
    baseline_id: str
    level: Level
    service: str | None
    component: str
    unit: str
    value: float
    baseline_value: float
    difference: float
    low: float | None = None
    high: float | None = None
    blocks: int

    @property
    def is_sum(self) -> bool:
        """True for the sum of a level."""
        return self.component == SUM and self.service is None


def components_of(run: RunData, pairs: Sequence[ComparedCells] | None = None) -> tuple[Component, ...]:
    """Return the components of the ratios of a run: by default those to its baseline. Level by level, largest first.

    There is none without the CPU time of the servers: those that are there already are not watched.
    """
    if pairs is None:
        pairs = compared_with_baseline(run.manifest.scenario, run.manifest.cells)
    if run.table is None or not run.trials[CPU].notna().any():
        return ()
    excluded = {each.trial_id for each in run.exclusions if each.covers(RPS)}
    measured = _usable(run.trials[run.trials["kind"] == "measure"], excluded)
    increases = service_increases(run.table("telemetry"), run.trials)
    services = _with_rest(_service_costs(run, increases, measured), measured)
    categories = _category_costs(run, increases)
    found: list[Component] = []
    for pair in pairs:
        found += _rate_terms(measured, pair, run.alpha)
        found += _additive("service", services, pair, run.alpha)
        found += _additive("category", categories, pair, run.alpha)
        found += _activities(increases, measured, pair, run.alpha)
    return tuple(found)


def service_increases(telemetry: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the increases of counters, of all hosts and instances: trial_id, service, metric, value, elapsed_s."""
    metrics = {"cpu_s_total", *PER_REQUEST}
    rows = telemetry[telemetry["metric"].isin(metrics) & telemetry["service"].notna()]
    names = rows["service"].astype(str)
    foreign = names.map(lambda name: name == AGENT_SERVICE or is_neighbour(name) or is_of_load_tool(name)).astype(bool)
    grouped = increases_of(rows[~foreign], trials).groupby(["trial_id", "service", "metric"], sort=False)
    return grouped.agg(value=("value", "sum"), elapsed_s=("elapsed_s", "max")).reset_index()


def _usable(trials: pd.DataFrame, excluded: set[str]) -> pd.DataFrame:
    rows = trials[~trials["trial_id"].isin(excluded) & (trials[RPS] > 0) & (trials[CPU] > 0)]
    return rows[["trial_id", "cell_id", "block", "duration_s", "requests", RPS, CPU]]


def _rate_terms(trials: pd.DataFrame, pair: ComparedCells, alpha: float) -> Iterator[Component]:
    """Yield the terms of the logarithm of a ratio of rates: cores used, less CPU time per request, and their sum."""
    logs = trials.assign(**{name: np.log(trials[name].astype("float64")) for name in (RPS, CPU)})
    means = logs.groupby(["cell_id", "block"])[[RPS, CPU]].mean()
    both = _sides(means, pair)
    if both is None:
        return
    cell, base = both
    terms: Mapping[str, tuple[str, Callable[[pd.DataFrame], pd.Series[float]], int]] = {
        "requests per second": ("req/s", lambda side: side[RPS], 1),
        CORES: ("cores", lambda side: side[RPS] + side[CPU], 1),
        COST: ("sec/req", lambda side: side[CPU], -1),
    }
    for name, (unit, of, sign) in terms.items():
        own, other = of(cell).to_numpy(dtype=np.float64), of(base).to_numpy(dtype=np.float64)
        difference, low, high = _interval(sign * (own - other), alpha)
        yield Component(
            cell_id=pair.cell_id,
            baseline_id=pair.baseline,
            level="rate",
            service=None,
            component=name if name in {CORES, COST} else SUM,
            unit=unit,
            value=math.exp(own.mean()),
            baseline_value=math.exp(other.mean()),
            difference=difference,
            low=low,
            high=high,
            blocks=len(own),
        )


def _service_costs(run: RunData, increases: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the CPU time per request of the services of trials: trial_id, cell_id, block, service, component, value.

    Without telemetry it is known of a stack with one service: that of its trials.
    """
    cpu = increases[increases["metric"] == "cpu_s_total"]
    rows = cpu.merge(trials[["trial_id", "cell_id", "block", "requests"]], on="trial_id")
    rows = rows.assign(value=rows["value"] / rows["requests"].astype("float64"), component=SUM)
    stacks = run.manifest.scenario.get("stacks") or {}
    only = next(iter(stacks.values())) if len(stacks) == 1 else {"services": {}}
    services = {
        cell.cell_id: [*stacks.get(str(cell.levels.get(STACK)), only)["services"]] for cell in run.manifest.cells
    }
    unwatched = trials[~trials["trial_id"].isin(rows["trial_id"])]
    unwatched = unwatched[unwatched["cell_id"].map(lambda cell_id: len(services.get(cell_id, ())) == 1).astype(bool)]
    names = unwatched["cell_id"].map(lambda cell_id: services[cell_id][0])
    alone = unwatched.assign(service=names, component=SUM, value=unwatched[CPU].astype("float64"))
    columns = ["trial_id", "cell_id", "block", "service", "component", "value"]
    return pd.concat([each[columns] for each in (rows, alone) if len(each)] or [rows[columns]], ignore_index=True)


def _with_rest(costs: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the costs of services with what they lack of the CPU time per request of their trial."""
    sums = costs.groupby("trial_id")["value"].sum()
    of_trials = trials[trials["trial_id"].isin(sums.index)]
    rest = of_trials[CPU].astype("float64") - of_trials["trial_id"].map(sums).astype("float64")
    if bool((rest.abs() <= ROUNDING * of_trials[CPU]).all()):
        return costs
    rows = of_trials[["trial_id", "cell_id", "block"]].assign(service="", component=REST, value=rest)
    return pd.concat([costs, rows], ignore_index=True)


def _category_costs(run: RunData, increases: pd.DataFrame) -> pd.DataFrame:
    """Return the CPU time per request of services by category: that of the unprofiled partner, in the profile's shares.

    A service without a profile is one row, `not attributed`.
    """
    columns = ["cell_id", "block", "service", "component", "value"]
    trials = run.trials
    profiled = trials[trials["kind"] == "profile"]
    if profiled.empty or run.table is None:
        return pd.DataFrame(columns=columns)
    partners = trials[(trials["kind"] == "control") & trials["block"].isin(profiled["block"])]
    exclusions = profile_pass_exclusions(trials, run.table("verdicts"), run.manifest)
    invalid = {each.trial_id for each in exclusions if each.covers(RPS)}
    costs = _service_costs(run, increases, _usable(partners, invalid))
    profiled = profiled[~profiled["trial_id"].isin(invalid)]
    shares = run.table("profile_share").merge(profiled[["trial_id", "cell_id", "block"]], on="trial_id")
    if shares.empty or costs.empty:
        return pd.DataFrame(columns=columns)
    keys = ["cell_id", "block", "service"]
    joined = costs.merge(shares[[*keys, "category", "share"]], on=keys, how="left")
    joined["component"] = joined["category"].fillna(REST)
    joined["value"] = joined["value"] * joined["share"].fillna(1.0)
    known = joined.merge(shares[["cell_id", "block"]].drop_duplicates(), on=["cell_id", "block"])
    return known[columns]


def _activities(
    increases: pd.DataFrame, trials: pd.DataFrame, pair: ComparedCells, alpha: float
) -> Iterator[Component]:
    """Yield what else happens per request of each service: switches, connections, waits, garbage collection.

    Some counters are sampled at the interval only, so that rates over the time between two samples are divided.
    """
    rows = increases[increases["metric"].isin(list(PER_REQUEST)) & (increases["elapsed_s"] > 0)]
    rows = rows.merge(trials[["trial_id", "cell_id", "block", RPS]], on="trial_id")
    rows = rows.assign(value=rows["value"] / rows["elapsed_s"] / rows[RPS].astype("float64"))
    for (service, metric), group in rows.groupby(["service", "metric"], sort=False):
        name, unit = PER_REQUEST[str(metric)]
        means = group.groupby(["cell_id", "block"])[["value"]].mean()
        both = _sides(means, pair)
        if both is not None:
            own, other = (side["value"].to_numpy(dtype=np.float64) for side in both)
            yield _component(own, other, alpha, pair, level="activity", service=str(service), component=name, unit=unit)


def _additive(level: Level, rows: pd.DataFrame, pair: ComparedCells, alpha: float) -> list[Component]:
    """Return the parts of the CPU time per request, the largest difference first, and their sum, which is exact."""
    of_pair = rows[rows["cell_id"].isin([pair.cell_id, pair.baseline])]
    if of_pair.empty:
        return []
    parts = of_pair.pivot_table(
        index=["cell_id", "block"], columns=["service", "component"], values="value", aggfunc="mean", fill_value=0.0
    )
    parts = parts.loc[:, parts.ne(0).any()]
    both = _sides(parts, pair)
    if both is None:
        return []
    own, base = both
    found = [
        _component(
            own[service, name].to_numpy(dtype=np.float64),
            base[service, name].to_numpy(dtype=np.float64),
            alpha,
            pair,
            level=level,
            service=str(service) or None,
            component=str(name),
            unit="sec/req",
        )
        for service, name in zip(*(parts.columns.get_level_values(level) for level in (0, 1)), strict=True)
    ]
    found.sort(key=lambda each: -abs(each.difference))
    cell, baseline = (side.sum(axis="columns").to_numpy(dtype=np.float64) for side in both)
    return [*found, _component(cell, baseline, alpha, pair, level=level, service=None, component=SUM, unit="sec/req")]


def _component(own: Reals, other: Reals, alpha: float, pair: ComparedCells, **what: str | None) -> Component:
    """Return the component of these values of a cell and of its baseline, one for each block."""
    difference, low, high = _interval(own - other, alpha)
    return Component.model_validate(
        {
            "cell_id": pair.cell_id,
            "baseline_id": pair.baseline,
            "value": float(own.mean()),
            "baseline_value": float(other.mean()),
            "difference": difference,
            "low": low,
            "high": high,
            "blocks": len(own),
            **what,
        }
    )


def _sides(means: pd.DataFrame, pair: ComparedCells) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Return the rows of a cell and of its baseline in the blocks that both have; None: there is none."""
    cells = means.index.get_level_values("cell_id")
    if pair.cell_id not in cells or pair.baseline not in cells:
        return None
    own, base = (means[cells == name].droplevel("cell_id") for name in (pair.cell_id, pair.baseline))
    blocks = own.index.intersection(base.index)
    return (own.loc[blocks], base.loc[blocks]) if len(blocks) else None


def _interval(differences: Reals, alpha: float) -> tuple[float, float | None, float | None]:
    """Return the mean of differences over blocks with the ends of its t interval."""
    if len(differences) < MIN_BLOCKS:
        return float(differences.mean()), None, None
    mean, reach = mean_interval(differences, alpha)
    return mean, mean - reach, mean + reach
