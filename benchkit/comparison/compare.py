"""Comparison of the cells of a run with a baseline, or of the same cells in two runs: `benchkit.compare(…)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field

from benchkit.comparison.answer import Answer, write_answer
from benchkit.comparison.cell_results import CellCapacity, ClassResult, cell_capacities, class_ratios, class_results
from benchkit.comparison.claims import ClaimResult, asked_ratios, judge_claims
from benchkit.comparison.gate import GateLimits, GateResult, default_limits, judge_ratios
from benchkit.comparison.load_curves import HELD_METRICS, HeldRate, held_rate
from benchkit.comparison.notes import describe_findings, notes_on_latencies, with_run_notes
from benchkit.comparison.power import Resolution, noise_of, resolution
from benchkit.comparison.ratios import Ratio, block_ratios, run_ratios, sequential_ratios, with_outcomes
from benchkit.comparison.runs.run_data import TOOL_IS_LIMIT, ComparedRun, RunData, read_run_data
from benchkit.errors import InputError
from benchkit.judge.run_differences import FactDifference, host_differences, machine_differences, setting_differences
from benchkit.models.base import Frozen
from benchkit.models.claims import claims_of
from benchkit.models.design import controlled, until_of
from benchkit.models.metrics import CPU, METRICS, P99, RPS, metric_column
from benchkit.stats.cell_pairs import ComparedCells, baseline_pairs, cells_with_levels, levels_of, scenario_baseline
from benchkit.stats.inference import ALPHA
from benchkit.stats.samples import Exclusion, take_samples
from benchkit.store.store import open_store

_FRAME = (
    "metric",
    "cell_id",
    "baseline",
    "baseline_value",
    "value",
    "ratio",
    "low",
    "high",
    "p_holm",
    "outcome",
    "worth",
    "blocks",
    "reason",
    "remarks",
)
"""Columns of the table of ratios that a reader needs."""
_NOT_IN_FRAME = {"exclusions", "serious_notes", "uses_invalid", "is_unusable", "is_limited_alike"}


class RunComparison(Frozen, serialize_by_alias=True):
    """Cells of a run relative to a baseline, or the same cells in two runs, the second relative to the first.

    `drift` (of hosts) and `asked` (of settings) hold the differences between two runs; `notes` are sentences to read
    before any ratio. `alpha` is the probability that a family of comparisons of equal cells shows any difference.
    `level` is the largest `p_holm` that shows a difference: less than `alpha` in runs that may end early.
    """

    mode: Literal["cells", "runs"]
    runs: tuple[ComparedRun, ...]
    metrics: tuple[str, ...]
    drift: tuple[FactDifference, ...] = ()
    asked: tuple[FactDifference, ...] = ()
    notes: tuple[str, ...] = Field(default=(), serialization_alias="notices")
    answer: Answer | None = None
    """The result in sentences; without chosen metrics or a gate also in the metrics that are shown beside the first."""
    alpha: float
    level: float
    ratios: tuple[Ratio, ...]
    classes: tuple[ClassResult, ...] = ()
    """Classes of requests of each cell, of the second run in a comparison of two; empty for loads without classes."""
    capacities: tuple[CellCapacity, ...] = ()
    """Capacities of the cells, of the second run in a comparison of two; empty where none was searched for."""
    resolution: Mapping[str, Resolution]
    """Resolution by metric, of comparisons within a run."""
    claims: tuple[ClaimResult, ...] = ()
    """Results of the scenario's claims, of comparisons within a run; each claim is evaluated by itself."""
    gate: GateResult | None = None

    @property
    def decides(self) -> str:
        """Rule by which a difference is shown, as a clause."""
        shown = f"differences are shown at {self.alpha:.0%} over all comparisons (Holm)"
        if self.level == self.alpha:
            return shown
        return (
            f"{shown}; the run could end early, so each interval is at {1 - self.level:.0%} and p must be at most "
            f"{self.level:g}, which keeps {1 - self.alpha:.0%} and {self.alpha:.0%} over the run"
        )

    def frame(self, *, full: bool = False) -> pd.DataFrame:
        """Return the ratios as a table, a row each; their notes are one text in the column `remarks`.

        The columns are the most important fields of a ratio, with `full` all.
        """
        rows = [{**ratio.model_dump(exclude=_NOT_IN_FRAME), "remarks": "; ".join(ratio.notes)} for ratio in self.ratios]
        fields = {name: field for name, field in Ratio.model_fields.items() if name not in _NOT_IN_FRAME}
        columns = [field.serialization_alias or name for name, field in fields.items()] if full else list(_FRAME)
        return pd.DataFrame(rows, columns=columns)


_MANY_CELLS = 100


def compare(
    run: str,
    run2: str | None = None,
    *,
    store: str | Path | None = None,
    metrics: Sequence[str] = (),
    baseline: str | None = None,
    exclusions: Iterable[Exclusion] | None = None,
    thresholds: GateLimits | None = None,
    gated: bool = False,
) -> RunComparison:
    """Compare the cells of a stored run with a baseline, or with the same cells in `run2`, relative to `run`.

    `run` and `run2` are ids, beginnings of ids, or `latest`. `baseline` is a cell or a part of its levels (`stack=go`).
    Within a run each cell is compared with the cell that differs from it only in these levels. Between runs, ratios to
    the baseline are compared. `metrics` are numeric columns of `trials`: by default the primary metric. To these the
    metrics of `thresholds` are added, which the gate uses. `gated` applies a gate, by default with the default
    thresholds. `exclusions` are the trials to exclude; None: the trials that verdicts make invalid. Raises InputError.
    """
    where = open_store(store)
    data = [read_run_data(where, where.run(name), exclusions) for name in (run, run2) if name is not None]
    if run2 is not None and data[0].manifest.run_id == data[1].manifest.run_id:
        raise InputError(f"{data[0].manifest.run_id} cannot be compared with itself", hint="name two different runs")
    chosen = tuple(map(metric_column, metrics)) or (primary_metric(*data),)
    limits = default_limits(chosen) if gated and thresholds is None else thresholds
    wanted = tuple(dict.fromkeys((*chosen, *(limits.metrics if limits else ()))))

    def compared(runs: Sequence[RunData], metrics: Sequence[str]) -> RunComparison:
        if run2 is None:
            return compare_cells(runs[0], metrics, baseline)
        return compare_runs(runs[0], runs[1], metrics, baseline)

    comparison = compared(data, wanted)
    others = () if metrics or thresholds or gated else _answer_metrics(*data)[1:]
    ratios = [*comparison.ratios, *(ratio for metric in others for ratio in compared(data, [metric]).ratios)]
    by_class = class_ratios(data, lambda runs, metrics: compared(runs, metrics).ratios, comparison.level)
    if run2 is None and baseline is None and not (metrics or thresholds or gated):
        ratios = _asked_first(data[0], ratios)
    comparison = comparison.model_copy(
        update={
            "claims": judge_claims(data[0]) if run2 is None else (),
            "answer": write_answer(
                ratios,
                data,
                (*comparison.drift, *comparison.asked),
                by_class,
                held_of(data[0]) if run2 is None else None,
            ),
            "classes": class_results(data[-1], by_class),
            "capacities": cell_capacities(data[-1]),
        }
    )
    if limits is None:
        return comparison
    limitation = data[0].limitation if run2 is None else None
    result = judge_ratios(comparison.ratios, limits, comparison.level, limitation=limitation)
    return comparison.model_copy(update={"gate": result})


def compare_cells(data: RunData, metrics: Sequence[str], baseline: str | None = None) -> RunComparison:
    """Compare the cells of one run with their baseline. Raises InputError."""
    cells = data.manifest.cells
    levels = levels_of(baseline, cells) if baseline is not None else scenario_baseline(data.manifest.scenario, cells)
    pairs, unpaired = baseline_pairs(cells, levels)
    estimate = sequential_ratios if data.design == "sequential" else block_ratios
    samples = [data.samples(metric) for metric in metrics]
    ratios = [
        ratio if ratio.blocks else _with_measured(ratio, data)
        for of_metric in samples
        for ratio in estimate(of_metric, pairs, data.alpha)
    ]
    ratios = [_limited_alike(ratio, data) or ratio for ratio in with_outcomes(ratios, data.alpha)]
    ratios = with_run_notes(ratios, [data])
    notes = _run_notes(data)
    if unpaired:
        notes.append(f"No baseline cell for: {', '.join(unpaired)}.")
    return _comparison("cells", [data], metrics, ratios, notes)


def _limited_alike(ratio: Ratio, data: RunData) -> Ratio | None:
    """Return a ratio that has no interval with that of trials in which the load tool was the limit.

    None if those trials show a difference. It is not the ratio of the servers: both may reach the same limit of the
    tool.
    """
    exclusions = [each for each in data.exclusions if not each.is_due_to(TOOL_IS_LIMIT)]
    if ratio.low is not None or data.design == "sequential" or len(exclusions) == len(data.exclusions):
        return None
    pair = ComparedCells(ratio.cell_id, ratio.baseline, control=ratio.control)
    (limited,) = block_ratios(take_samples(data.trials, ratio.metric, exclusions), [pair], data.alpha)
    if limited.low is None or limited.high is None or not limited.low <= 1 <= limited.high:
        return None
    note = f"{describe_findings(ratio.exclusions)}: without that limit, the servers may differ"
    found = limited.model_copy(update={"outcome": "not shown", "is_limited_alike": True})
    return found.with_notes([note])


def _with_measured(ratio: Ratio, data: RunData) -> Ratio:
    """Return a ratio that has no usable trials with the point of all measured trials, if there are any."""
    samples = take_samples(data.trials, ratio.metric)
    value, baseline_value = samples.known(ratio.cell_id), samples.known(ratio.baseline)
    if not len(value) or not len(baseline_value):
        return ratio
    return ratio.with_point(float(value.mean()), float(baseline_value.mean())).model_copy(update={"is_unusable": True})


def primary_metric(*runs: RunData) -> str:
    """Return the metric that comparisons of these runs open with: the primary metric of all of them, else RPS."""
    found = {run.primary_metric for run in runs}
    return found.pop() if len(found) == 1 else RPS


def answer_of_run(
    data: RunData, comparisons: Iterable[RunComparison] = (), by_class: Sequence[Ratio] | None = None
) -> Answer:
    """Return the answer of one run in sentences, as `compare` gives it.

    `comparisons` of single metrics, and the ratios `by_class` of `classes_of_run`, are reused.
    """
    known = {comparison.metrics: comparison for comparison in comparisons}
    parts = [known.get((metric,)) or compare_cells(data, [metric]) for metric in _answer_metrics(data)]
    ratios = _asked_first(data, [ratio for part in parts for ratio in part.ratios])
    classes = classes_of_run(data) if by_class is None else by_class
    return write_answer(ratios, [data], by_class=classes, held=held_of(data))


def held_of(data: RunData) -> HeldRate | None:
    """Return the phase of a run at a held rate, each percentile a family of comparisons; None for a run without one."""
    if data.held is None:
        return None
    ratios = [ratio for metric in HELD_METRICS for ratio in compare_cells(data.held, [metric]).ratios]
    return held_rate(data.held, ratios)


def classes_of_run(data: RunData) -> tuple[Ratio, ...]:
    """Return the ratios of each class of requests of one run; empty for loads without classes."""
    return class_ratios([data], lambda runs, metrics: compare_cells(runs[0], metrics).ratios, data.alpha)


def _asked_first(data: RunData, ratios: Sequence[Ratio]) -> list[Ratio]:
    """Return the ratios of an answer: ratios that the scenario asks for replace all others of their metric."""
    asked = asked_ratios(data)
    if not asked:
        return list(ratios)
    return [*asked, *(ratio for ratio in ratios if ratio.metric != asked[0].metric or ratio.is_of_equals)]


def _shown_metrics(*runs: RunData) -> tuple[str, ...]:
    """Return the metrics that answers and reports compare beside the primary one, each a family of comparisons.

    A percentile of a closed loop restates its rate (Little's law), so only runs at held rates show one. Runs with more
    than `_MANY_CELLS` cells have none.
    """
    if any(len(data.manifest.cells) > _MANY_CELLS for data in runs):
        return ()
    return (P99, CPU) if all(data.is_held for data in runs) else (CPU,)


def _answer_metrics(*runs: RunData) -> tuple[str, ...]:
    """Return the metrics of the answer: the primary one, and others if all runs have values of them and few cells."""
    known = (name for name in _shown_metrics(*runs) if all(run.trials[name].notna().any() for run in runs))
    return tuple(dict.fromkeys((primary_metric(*runs), *known)))


def compare_all_metrics(data: RunData) -> tuple[RunComparison, ...]:
    """Compare the cells of one run with their baseline: one comparison for each metric that has a ratio.

    The metrics are the primary one, those of `until` and of claims, and those that are shown beside the primary one.
    Each is a family of comparisons of its own, as in `benchkit compare RUN --metric M`.
    """
    until = until_of(data.manifest.scenario)
    claimed = (claim.metric for claim in claims_of(data.manifest.scenario) if claim.metric in METRICS)
    metrics = dict.fromkeys((data.primary_metric, *(until.metrics if until else ()), *claimed, *_shown_metrics(data)))
    comparisons = (compare_cells(data, [metric]) for metric in metrics if data.trials[metric].notna().any())
    return tuple(each for each in comparisons if any(ratio.ratio is not None for ratio in each.ratios))


def compare_runs(before: RunData, after: RunData, metrics: Sequence[str], baseline: str | None) -> RunComparison:
    """Compare the same cells in two stored runs, `after` relative to `before`. Raises InputError."""
    runs = (before, after)
    names = [[cell.cell_id for cell in data.manifest.cells if controlled(cell.cell_id) is None] for data in runs]
    common = [name for name in names[0] if name in names[1]]
    if not common:
        raise InputError(
            f"{before.manifest.run_id} and {after.manifest.run_id} have no cell in common",
            why=f"{', '.join(names[0])}; {', '.join(names[1])}",
        )
    machines = machine_differences(before.manifest, after.manifest)
    if machines and baseline is None:
        baseline = _common_baseline(before, after, common, machines)
    reference = None if baseline is None else _reference_cell(baseline, runs, common)
    compared = [name for name in dict.fromkeys((*names[0], *names[1])) if name != reference]
    alpha = min(data.alpha for data in runs)
    ratios: list[Ratio] = []
    for metric in metrics:
        samples = [
            take_samples(data.trials, metric, data.exclusions if reference else data.exclusions_between_runs)
            for data in runs
        ]
        ratios += run_ratios(samples[0], samples[1], compared, reference, alpha)
    ratios = with_run_notes(with_outcomes(ratios, alpha), runs)
    changes = host_differences(before.rows("hosts"), after.rows("hosts"))
    asked = setting_differences(before.manifest, after.manifest)
    notes = []
    if machines:
        notes.append(
            f"The runs had different hosts ({_listed(machines)}): their rates cannot be compared, and only ratios to "
            f"{reference} within each run are."
        )
    elif changes:
        notes.append(f"The hosts have drifted: {_listed(changes)}.")
    if asked:
        notes.append(f"The runs have different settings: {_listed(asked)}.")
    notes += [f"{name} is only in one of the runs." for name in compared if name not in common]
    notes += [note for data in runs for note in _run_notes(data)]
    if reference is None:
        notes.append(
            "Two runs are one sample each of the state of their hosts: these ratios include changes between the runs, and "
            "their intervals do not. To remove such changes, name a cell that did not change as --baseline."
        )
    return _comparison("runs", runs, metrics, ratios, notes).model_copy(update={"drift": changes, "asked": asked})


def _reference_cell(baseline: str, runs: tuple[RunData, RunData], common: Sequence[str]) -> str:
    """Return the cell whose ratios both runs have. Raises InputError where there is none."""
    cells = runs[1].manifest.cells
    found = cells_with_levels(levels_of(baseline, cells), cells)
    if len(found) != 1 or found[0].cell_id not in common:
        raise InputError(
            f"{baseline!r} does not name exactly one cell of both runs", why=f"they have {', '.join(common)}"
        )
    sequential = [data.manifest.run_id for data in runs if data.design == "sequential"]
    if sequential:
        raise InputError(
            f"no baseline can remove changes between these runs: {' and '.join(sequential)} ran cell after cell",
            why="in a sequential design no block has a cell and its baseline",
            hint="omit --baseline, or run with design: blocks",
        )
    return found[0].cell_id


def _listed(changes: Iterable[FactDifference]) -> str:
    return "; ".join(change.text for change in changes)


def _common_baseline(before: RunData, after: RunData, common: Sequence[str], machines: Sequence[FactDifference]) -> str:
    """Return the baseline of the later run, which both runs must have. Raises InputError."""
    cells = after.manifest.cells
    found = cells_with_levels(scenario_baseline(after.manifest.scenario, cells), cells)
    if len(found) == 1 and found[0].cell_id in common and len(common) > 1:
        return found[0].cell_id
    raise InputError(
        f"{before.manifest.run_id} and {after.manifest.run_id} ran on different hosts, whose rates cannot be compared",
        why=_listed(machines),
        hint="name a cell that both runs have, and that did not change, as --baseline: ratios to it are compared",
    )


def _run_notes(data: RunData) -> list[str]:
    notes = []
    if data.manifest.is_imported:
        notes.append(
            f"{data.manifest.run_id} is imported: it was measured elsewhere, its hosts and servers were not watched, and its "
            "verdicts rest on the outputs alone."
        )
    if data.design == "sequential":
        notes.append(
            f"The design of {data.manifest.run_id} is sequential: these ratios include the drift between one cell and the "
            "next, and their intervals mostly do not."
        )
    if data.manifest.status != "done":
        notes.append(f"{data.manifest.run_id}: {data.manifest.status}; partial results.")
    notes += [f"{cell.cell_id}: skipped, {cell.unsupported}." for cell in data.manifest.cells if cell.unsupported]
    notes += [note for cell in data.manifest.cells if not cell.unsupported for note in cell.notes]
    return notes


def _comparison(
    mode: Literal["cells", "runs"],
    runs: Sequence[RunData],
    metrics: Sequence[str],
    ratios: Sequence[Ratio],
    notes: Sequence[str],
) -> RunComparison:
    alpha = min(data.alpha for data in runs)
    resolved: dict[str, Resolution] = {}
    if mode == "cells" and runs[0].limitation is None:
        resolved = {metric: found for metric in metrics if (found := _resolution(metric, runs[0], ratios, alpha))}
    limits = dict.fromkeys(found.limits for found in resolved.values() if found.limits)
    alarms = [
        f"{ratio.cell_id} differs from itself in {ratio.metric}: the intervals do not describe this run's noise."
        for ratio in ratios
        if ratio.is_of_equals and ratio.is_shown
    ]
    return RunComparison(
        mode=mode,
        runs=tuple(data.compared_run for data in runs),
        metrics=tuple(metrics),
        notes=(*notes, *notes_on_latencies(metrics, runs), *alarms, *limits),
        alpha=ALPHA,
        level=alpha,
        ratios=tuple(ratios),
        resolution=resolved,
    )


def _resolution(metric: str, data: RunData, ratios: Sequence[Ratio], alpha: float) -> Resolution | None:
    """Return the resolution of a metric, by the ratio with the most blocks; None without intervals."""
    family = [ratio for ratio in ratios if not ratio.control and ratio.p_t is not None]
    blocks = [ratio.blocks for ratio in family if ratio.metric == metric]
    if not blocks:
        return None
    return resolution(max(blocks), len(family), noise_of(data.trials, metric, data.exclusions), alpha)
