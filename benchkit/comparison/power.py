"""Statistical power of a design, before it runs: from the noise of earlier similar runs, or of a pilot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from pydantic import Field

from benchkit.comparison.resolution import Noise, Resolution, half_width, noise_of, resolution
from benchkit.comparison.run_data import RunData, read_run_data
from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.models.design import StopCondition, design_of, until_of
from benchkit.models.run import HostRecord, Manifest
from benchkit.stats import cell_pairs
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.multiple_tests import ALPHA, blocks_to_decide
from benchkit.stats.samples import Samples, take_samples
from benchkit.store.store import Store

MAX_RUNS = 5
"""Number of the newest runs that the noise is estimated from; hosts change, and older runs say less."""

_SAME_SETTINGS = ("name", "roles", "load", "tools")
"""Parts of its scenario that a run must share with another to have the same noise."""

_ABBA_FACTOR = math.sqrt(2)
"""An ABBA block has each cell twice: the noise of its log-ratio is smaller by this factor."""


class RatioPower(Frozen, serialize_by_alias=True):
    """Power of the design for a ratio that a scenario asks for.

    `claim` is the sentence that asks for it. `own_noise`: the noise is that of this very ratio, and not of all cells
    together. `with_more` is the resolution of the fewest blocks that can show any difference, if those of the design
    cannot.
    """

    metric: str
    cell_id: str
    baseline: str
    claim: str | None = None
    own_noise: bool = Field(default=False, serialization_alias="own")
    resolution: Resolution
    with_more: Resolution | None = None


class PowerAnalysis(Frozen):
    """Power of a planned run.

    `noise_from` names the runs (or the pilot) that the noise comes from; none: it is unknown. `blocks_expected` is the
    expected number of blocks of a run that may end early.
    """

    noise_from: tuple[str, ...] = ()
    ratios: tuple[RatioPower, ...] = ()
    blocks_expected: int | None = None


def analyse_power(
    planned: Manifest, runs: Sequence[RunData], noise_from: Sequence[str], *, block_s: float | None = None
) -> PowerAnalysis:
    """Return the power of a planned run, from the noise of these runs; `noise_from` are their names.

    `planned` is the manifest that the run will begin with, `block_s` the time of a block, if known. A run that may end
    early has the resolution of its expected number of blocks; if that is unknown, of its minimum. A ratio has the
    blocks of the groups with both of its cells. A sequential design has no prediction: its noise does not include
    drift.
    """
    if design_of(planned.scenario) == "sequential":
        return PowerAnalysis()
    until = until_of(planned.scenario)
    alpha = ALPHA if until is None else until.alpha
    requested = list(planned_ratios(planned))
    family = Counter(claim is None for _, _, claim in requested)[True]
    run_noises = {metric: _run_noise(metric, runs, planned) for metric, _, _ in requested}
    samples = {metric: [take_samples(run.trials, metric, run.exclusions) for run in runs] for metric in run_noises}
    ratio_noises = {(metric, pair): _ratio_noise(pair, samples[metric], runs, planned) for metric, pair, _ in requested}
    decisive = [
        ratio_noises[metric, pair] or run_noises[metric]
        for metric, pair, claim in requested
        if _must_be_known(metric, claim, until)
    ]
    groups = max(1, len(planned.groups))
    of_group = planned.blocks // groups
    round_s = None if block_s is None else groups * block_s
    expected = None if until is None else _expected(until, of_group, decisive, round_s)
    rounds = of_group if until is None else expected or min(until.min_blocks, of_group)
    ratios = []
    for metric, pair, claim in requested:
        own = ratio_noises[metric, pair]
        noise, comparisons = own or run_noises[metric], 1 if claim else family
        blocks = rounds * planned.blocks_with(pair.cell_id, pair.baseline) // of_group
        planned_resolution = resolution(blocks, comparisons, noise, alpha)
        enough = blocks_to_decide(1, alpha) if planned_resolution.test is None else None
        ratios.append(
            RatioPower(
                metric=metric,
                cell_id=pair.cell_id,
                baseline=pair.baseline,
                claim=claim,
                own_noise=own is not None,
                resolution=planned_resolution,
                with_more=resolution(enough, comparisons, noise, alpha) if enough else None,
            )
        )
    known = tuple(noise_from) if any(ratio.resolution.noise_sd is not None for ratio in ratios) else ()
    return PowerAnalysis(noise_from=known, ratios=tuple(ratios), blocks_expected=expected and expected * groups)


def planned_ratios(planned: Manifest) -> Iterator[tuple[str, ComparedCells, str | None]]:
    """Yield metric, comparison, and the claim that asks for it: for `rps` and metrics of the rule for ending early."""
    until = until_of(planned.scenario)
    metrics = dict.fromkeys(("rps", *(until.metrics if until else ())))
    yield from cell_pairs.requested_ratios(planned.scenario, planned.cells, metrics)


def earlier_runs(store: Store, planned: Manifest) -> tuple[list[RunData], list[InputError]]:
    """Return the newest similar runs of a store: the same settings and scale, on hosts of the same kind.

    A run with damaged files is skipped; the second list has the error of each.
    """
    found: list[RunData] = []
    damaged: list[InputError] = []
    for run, manifest in reversed(store.survey()[0]):
        if len(found) < MAX_RUNS and _is_similar(manifest, planned):
            try:
                found.insert(0, read_run_data(store, run))
            except InputError as error:
                damaged.append(error)
    return found, damaged


def _ratio_noise(
    pair: ComparedCells, samples: Sequence[Samples], runs: Sequence[RunData], planned: Manifest
) -> Noise | None:
    """Return the noise of one ratio over the blocks of all runs; `samples` has those of its metric for each run."""
    noises = []
    for of_run, data in zip(samples, runs, strict=True):
        log_ratios = of_run.known(pair.cell_id, pair.baseline)
        if len(log_ratios) > 1:
            noises.append(_converted(Noise(float(log_ratios.std(ddof=1)), len(log_ratios) - 1), data, planned))
    return _pooled(noises)


def _run_noise(metric: str, runs: Sequence[RunData], planned: Manifest) -> Noise | None:
    """Return the noise of the ratios of all cells, for ratios that the earlier runs do not have."""
    noises = [(noise_of(data.trials, metric, data.exclusions), data) for data in runs]
    return _pooled([_converted(noise, data, planned) for noise, data in noises if noise is not None])


def _pooled(noises: Sequence[Noise]) -> Noise | None:
    """Pool several estimates of one noise, weighted by their degrees of freedom."""
    df = sum(noise.df or 0 for noise in noises)
    return Noise(math.sqrt(sum(noise.sd**2 * (noise.df or 0) for noise in noises) / df), df) if df else None


def _converted(noise: Noise, data: RunData, planned: Manifest) -> Noise:
    """Convert the noise of a block of one design to that of the other."""
    one, other = (design_of(manifest.scenario) == "abba" for manifest in (data.manifest, planned))
    return noise if one == other else Noise(noise.sd * _ABBA_FACTOR if one else noise.sd / _ABBA_FACTOR, noise.df)


def _must_be_known(metric: str, claim: str | None, until: StopCondition | None) -> bool:
    """Return True if the rule for ending early needs this ratio: those of claims, and those in its metrics."""
    return claim is not None or (until is not None and metric in until.metrics)


def _expected(until: StopCondition, most: int, noises: Sequence[Noise | None], block_s: float | None) -> int | None:
    """Return the blocks after which the least precise ratio is precise enough, or time is spent; at most all.

    Where cells are in groups, the blocks are those of each group, and `block_s` is the time of one of each.
    """
    known = [noise for noise in noises if noise is not None]
    if not noises or len(known) < len(noises):
        return None
    if until.budget_s is not None and block_s:
        most = min(most, max(math.floor(until.budget_s / block_s), 1))
    worst = Noise(max(noise.sd for noise in known))
    for blocks in range(until.min_blocks, most):
        if (half_width(worst, blocks, until.alpha) or math.inf) <= 1 + until.precision:
            return blocks
    return most


def _is_similar(run: Manifest, planned: Manifest) -> bool:
    return (
        run.status != "running"
        and run.scale == planned.scale
        and design_of(run.scenario) != "sequential"
        and all(run.scenario.get(name) == planned.scenario.get(name) for name in _SAME_SETTINGS)
        and sorted(map(_host_kind, run.hosts)) == sorted(map(_host_kind, planned.hosts))
    )


def _host_kind(host: HostRecord) -> tuple[str, str, int]:
    """Return the facts of a host that determine its noise."""
    return "+".join(host.roles), str(host.facts.cpu_model), len(host.facts.cpus)
