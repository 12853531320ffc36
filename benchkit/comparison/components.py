"""Components of a ratio: what the difference between a cell and its baseline consists of.

In a closed loop, requests per second are the CPU cores that the servers use, divided by their CPU time per request.
This is the utilisation law (Denning and Buzen, The Operational Analysis of Queueing Network Models, 1978). So the
logarithm of a ratio of rates is a sum of two terms. The cores used are those allowed, times their utilisation. The CPU
time per request is a sum over services, and over user code and kernel. With profiles it is a sum over the categories of
each service. Every level adds up; the remainder is a row of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from benchkit.comparison.component_costs import SUM, TrialCosts
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.base import Frozen
from benchkit.models.metrics import CPU, RPS
from benchkit.stats.cell_pairs import ComparedCells, between_runs, cell_in_run, compared_with_baseline
from benchkit.stats.inference import MIN_BLOCKS, mean_interval, serial_inflation, t_quantile, welch
from benchkit.stats.samples import Reals

Level = Literal["rate", "cores", "service", "mode", "category", "answer", "system calls", "waiting"]
"""`rate`: logarithms that add up to the logarithm of the ratio of rates. `cores`: the same for the cores used.
`service`, `mode`, `category`: parts of the CPU time per request. `answer`: parts of the mean time of an answer at a
held rate. `system calls`, `waiting`: calls, and the time that threads are off the CPU, per request of traced trials."""
LOGARITHMIC: frozenset[Level] = frozenset({"rate", "cores"})
TRACED: Mapping[Level, str] = {"system calls": "1/req", "waiting": "sec/req"}
"""Levels of traced trials, with their units."""
FINEST: tuple[Level, ...] = ("category", "mode", "service")
"""Levels by which sentences and figures divide the CPU time: the first that the run has."""

CORES, COST, ALLOWED, USED = "CPU cores used", "CPU time per request", "CPU cores allowed", "utilisation"


class Component(Frozen):
    """A part of the difference between a cell and its baseline.

    `value` and `baseline_value` are means over blocks: geometric at the levels of `LOGARITHMIC`, else arithmetic.
    `difference` is the value less the baseline value, in `unit`, and at the levels of `LOGARITHMIC` of logarithms. That
    of the CPU time per request is negative there, as the rate is divided by it. `low` and `high` are the ends of its
    interval over blocks; None: too few blocks.
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
    """Return the components of the ratios of a run, by default of those to its baseline: by level, the largest first.

    There is none without the CPU time of the servers, as with external servers, which are not watched.
    """
    if not _has_cpu_times(run):
        return ()
    costs = TrialCosts(run)
    with_cores = _with_cores_allowed(costs)
    found: list[Component] = []
    for pair in compared_with_baseline(run.manifest.scenario, run.manifest.cells) if pairs is None else pairs:
        compared = _Compared(pair, run.alpha)
        found += _logarithmic("rate", RATE_TERMS, costs.trials, compared)
        found += _logarithmic("cores", CORE_TERMS, with_cores, compared)
        for level, rows in _tables(costs).items():
            found += _additive(level, rows, compared)
    return tuple(found)


def answer_components(answers: pd.DataFrame, pairs: Iterable[ComparedCells], alpha: float) -> tuple[Component, ...]:
    """Return the components of the mean times of answers, from their parts (`TrialCosts.answers`)."""
    return tuple(part for pair in pairs for part in _additive("answer", answers, _Compared(pair, alpha)))


def components_between_runs(
    before: RunData, after: RunData, cells: Sequence[str], reference: str | None = None
) -> tuple[Component, ...]:
    """Return the components of the ratios of cells between two runs, at the levels that sentences name.

    Ids are those of `between_runs`; trials and intervals are those of `run_ratios`. With a `reference`, all values are
    relative to that cell in the same block. Then there is only the level `rate`: relative values have no seconds.
    """
    runs = [run if reference else replace(run, exclusions=run.exclusions_between_runs) for run in (before, after)]
    if not all(map(_has_cpu_times, runs)):
        return ()
    costs, ids = [TrialCosts(run) for run in runs], [run.manifest.run_id for run in runs]

    def joined(*tables: pd.DataFrame) -> pd.DataFrame:
        named = [
            rows.assign(cell_id=[cell_in_run(run_id, cell_id) for cell_id in rows["cell_id"]])
            for run_id, rows in zip(ids, tables, strict=True)
        ]
        return pd.concat([rows for rows in named if len(rows)] or named[:1], ignore_index=True)

    trials, with_cores = joined(*(each.trials for each in costs)), joined(*map(_with_cores_allowed, costs))
    tables = {level: joined(*(_tables(each)[level] for each in costs)) for level in reversed(FINEST)}
    relative_to = None if reference is None else between_runs(reference, *ids)
    rates, times = ([run.samples(metric).logs for run in runs] for metric in (RPS, CPU))
    used = [rate + time for rate, time in zip(rates, times, strict=True)]
    logs = {SUM: rates, CORES: used, COST: times}
    inflations = {name: 1.0 if reference else serial_inflation(of_term) for name, of_term in logs.items()}
    found: list[Component] = []
    for cell_id in cells:
        compared = _Compared(between_runs(cell_id, *ids), min(run.alpha for run in runs), inflations, relative_to)
        found += _logarithmic("rate", RATE_TERMS, trials, compared)
        if reference is None:
            found += _logarithmic("cores", CORE_TERMS, with_cores, compared)
            found += [each for level, rows in tables.items() for each in _additive(level, rows, compared)]
    return tuple(found)


def _has_cpu_times(run: RunData) -> bool:
    return run.table is not None and bool(run.trials[CPU].notna().any())


def _tables(costs: TrialCosts) -> dict[Level, pd.DataFrame]:
    """Return the parts of the levels that add up per request."""
    traced = {level: costs.traces[costs.traces["level"] == level] for level in TRACED}
    of_cpu: dict[Level, pd.DataFrame] = {"service": costs.services, "mode": costs.modes, "category": costs.categories}
    return {**of_cpu, "answer": costs.answers, **traced}


def _with_cores_allowed(costs: TrialCosts) -> pd.DataFrame:
    allowed = costs.trials["trial_id"].map(costs.cores_allowed).astype("float64")
    return costs.trials.assign(**{ALLOWED: allowed})[allowed.notna()]


def finest_parts(components: Sequence[Component]) -> list[Component]:
    """Return the parts of the CPU time at the finest level that sentences name, with their sum, which is last."""
    levels = {each.level for each in components}
    level = next((each for each in FINEST if each in levels), None)
    return [each for each in components if each.level == level]


Terms = Mapping[str, tuple[str, Mapping[str, int]]]
"""Unit and factors of the terms of a logarithm, the sum first: each factor is a column with exponent 1 or -1."""

_USED = {RPS: 1, CPU: 1}
RATE_TERMS: Terms = {SUM: ("req/s", {RPS: 1}), CORES: ("cores", _USED), COST: ("sec/req", {CPU: 1})}
CORE_TERMS: Terms = {SUM: ("cores", _USED), ALLOWED: ("cores", {ALLOWED: 1}), USED: ("ratio", {**_USED, ALLOWED: -1})}


def _logarithmic(level: Level, terms: Terms, trials: pd.DataFrame, compared: _Compared) -> Iterator[Component]:
    """Yield the terms of the logarithm of a ratio; none if the cells share no block with all columns of the terms."""
    columns = list(dict.fromkeys(name for _, powers in terms.values() for name in powers))
    logs = trials[columns].astype("float64").apply(np.log)
    both = compared.sides(logs.groupby([trials["cell_id"], trials["block"]]).mean())
    if both is None:
        return
    for name, (unit, powers) in terms.items():
        parts = [[power * side[each].to_numpy(dtype=np.float64) for each, power in powers.items()] for side in both]
        own, other = (np.sum(part, axis=0) for part in parts)
        sign = -1 if name == COST else 1
        part = compared.component(sign * own, sign * other, level=level, service="", name=name, unit=unit)
        yield part.model_copy(update={"value": math.exp(own.mean()), "baseline_value": math.exp(other.mean())})


def _additive(level: Level, rows: pd.DataFrame, compared: _Compared) -> list[Component]:
    """Return the parts of a level per request, the largest difference first, and their sum, which is exact."""
    unit = TRACED.get(level, "sec/req")
    of_pair = compared.rows(rows)
    if of_pair.empty:
        return []
    index, columns = ["cell_id", "block"], ["service", "component"]
    parts = of_pair.pivot_table(index=index, columns=columns, values="value", aggfunc="mean", fill_value=0.0)
    parts = parts.loc[:, parts.ne(0).any()]
    both = compared.sides(parts)
    if both is None:
        return []
    own, base = both
    found = [
        compared.component(
            own[service, name].to_numpy(dtype=np.float64),
            base[service, name].to_numpy(dtype=np.float64),
            level=level,
            service=str(service),
            name=str(name),
            unit=unit,
        )
        for service, name in zip(*(parts.columns.get_level_values(level) for level in (0, 1)), strict=True)
    ]
    found.sort(key=lambda each: -abs(each.difference))
    cell, baseline = (side.sum(axis="columns").to_numpy(dtype=np.float64) for side in both)
    return [*found, compared.component(cell, baseline, level=level, service="", name=SUM, unit=unit)]


@dataclass(frozen=True)
class _Compared:
    """A cell and its baseline, with the parameters of intervals of their differences."""

    pair: ComparedCells
    alpha: float
    inflations: Mapping[str, float] | None = None
    """Inflation of the variances between two runs, by term of the rate; None: differences are within blocks."""
    reference: ComparedCells | None = None
    """Cells of the same blocks to which the two sides are relative."""

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the two sides."""
        return table[table["cell_id"].isin([self.pair.cell_id, self.pair.baseline])]

    def sides(self, means: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame] | None:
        """Return the rows of a cell and of its baseline in the blocks that are compared; None: there is none."""
        own, base = (_blocks_of(means, name) for name in (self.pair.cell_id, self.pair.baseline))
        if self.reference is not None:
            own = (own - _blocks_of(means, self.reference.cell_id)).dropna()
            base = (base - _blocks_of(means, self.reference.baseline)).dropna()
        if self.inflations is None:
            blocks = own.index.intersection(base.index)
            own, base = own.loc[blocks], base.loc[blocks]
        return (own, base) if len(own) and len(base) else None

    def component(self, own: Reals, other: Reals, *, level: Level, service: str, name: str, unit: str) -> Component:
        """Return the component of these values of a cell and of its baseline, one for each block."""
        term = name if level == "rate" else CORES if level == "cores" else COST
        difference, low, high = self._difference(own, other, term)
        return Component(
            cell_id=self.pair.cell_id,
            baseline_id=self.pair.baseline,
            level=level,
            service=service or None,
            component=name,
            unit=unit,
            value=float(own.mean()),
            baseline_value=float(other.mean()),
            difference=difference,
            low=low,
            high=high,
            blocks=min(len(own), len(other)),
        )

    def _difference(self, own: Reals, other: Reals, term: str) -> tuple[float, float | None, float | None]:
        if min(len(own), len(other)) < MIN_BLOCKS:
            return float(own.mean() - other.mean()), None, None
        if self.inflations is None:
            mean, reach = mean_interval(own - other, self.alpha)
        else:
            mean, error, df = welch(other, own, self.inflations[term])
            reach = t_quantile(1 - self.alpha, df) * error
        return mean, mean - reach, mean + reach


def _blocks_of(means: pd.DataFrame, cell_id: str) -> pd.DataFrame:
    return means[means.index.get_level_values("cell_id") == cell_id].droplevel("cell_id")
