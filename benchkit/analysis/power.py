"""What a design will resolve, said before it runs: from the noise of earlier runs like it, or of a pilot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field

from benchkit.analysis import adaptive, cell_pairs
from benchkit.analysis.multiple_tests import ALPHA, blocks_to_decide
from benchkit.analysis.resolution import Noise, Resolution, half_width, noise_of, resolution
from benchkit.analysis.run_data import RunData, read_run_data
from benchkit.analysis.samples import take_samples
from benchkit.analysis.within_blocks import Pair
from benchkit.models.base import Frozen
from benchkit.models.design import Until, design_of, until_of
from benchkit.models.run import HostRecord, Manifest
from benchkit.results.store import Store

NEWEST = 5
"""So many of the newest runs tell the noise; hosts change, and older ones tell less of what they are now."""

_ALIKE = ("name", "roles", "load", "tools")
"""What a run's scenario must share with another's for its noise to be that of the other."""

_MIRRORED = math.sqrt(2)
"""An ABBA block has each cell twice: its log-ratio varies so much less than that of a block that has it once."""


class RatioPower(Frozen, serialize_by_alias=True):
    """A ratio that a scenario asks for, and what its design will show of it.

    `claim` is the sentence that asks for it. `own_noise`: the noise is of this very ratio, and not of all cells together.
    `with_more` is what the fewest blocks would show that can show any difference, where those of the design cannot.
    """

    metric: str
    cell_id: str
    baseline: str
    claim: str | None = None
    own_noise: bool = Field(default=False, serialization_alias="own")
    resolution: Resolution
    with_more: Resolution | None = None


class PowerAnalysis(Frozen):
    """What a run will resolve. `noise_from` are the runs (or the pilot) that told the noise; none: it is not known.

    `blocks_expected`: after about so many blocks a run ends that may end early.
    """

    noise_from: tuple[str, ...] = ()
    ratios: tuple[RatioPower, ...] = ()
    blocks_expected: int | None = None


def analyse_power(
    planned: Manifest, runs: Sequence[RunData], noise_from: Sequence[str], *, block_s: float | None = None
) -> PowerAnalysis:
    """What the run of a plan will resolve, from the noise of these runs; `noise_from` is what they are called.

    `planned` is the manifest that the run will begin with, `block_s` the time that a block takes, as far as it is known.
    A run that may end early resolves what the blocks show after which it is expected to; where that is not known, the
    fewest that it may have. Of a sequential design nothing can be said beforehand: drift is not in what it shows of its
    noise.
    """
    if design_of(planned.scenario) == "sequential":
        return PowerAnalysis()
    until = until_of(planned.scenario)
    alpha = ALPHA if until is None else adaptive.ALPHA_PER_LOOK
    asked = list(planned_ratios(planned))
    family = Counter(claim is None for _, _, claim in asked)[True]
    pooled = {metric: _pooled(metric, runs, planned) for metric, _, _ in asked}
    owns = {(metric, pair): _own(pair, metric, runs, planned) for metric, pair, _ in asked}
    watched = [
        owns[metric, pair] or pooled[metric] for metric, pair, claim in asked if _is_watched(metric, claim, until)
    ]
    expected = None if until is None else _expected(until, planned.blocks, watched, block_s)
    blocks = planned.blocks if until is None else expected or min(until.min_blocks, planned.blocks)
    ratios = []
    for metric, pair, claim in asked:
        own = owns[metric, pair]
        noise, among = own or pooled[metric], 1 if claim else family
        made = resolution(blocks, among, noise, alpha)
        enough = blocks_to_decide(1, alpha) if made.test is None else None
        ratios.append(
            RatioPower(
                metric=metric,
                cell_id=pair.cell_id,
                baseline=pair.baseline,
                claim=claim,
                own_noise=own is not None,
                resolution=made,
                with_more=resolution(enough, among, noise, alpha) if enough else None,
            )
        )
    known = tuple(noise_from) if any(ratio.resolution.noise_sd is not None for ratio in ratios) else ()
    return PowerAnalysis(noise_from=known, ratios=tuple(ratios), blocks_expected=expected)


def planned_ratios(planned: Manifest) -> Iterator[tuple[str, Pair, str | None]]:
    """Metric, comparison, and the claim that asks for it: in requests a second, and what else the run is to know."""
    until = until_of(planned.scenario)
    metrics = dict.fromkeys(("rps", *(until.metrics if until else ())))
    yield from cell_pairs.requested_ratios(planned.scenario, planned.cells, metrics)


def earlier_runs(store: Store, planned: Manifest) -> list[RunData]:
    """The newest runs of a store that are like the planned one: the same asked for, at its scale, on hosts like its."""
    alike = [run for run in store.runs() if _like(run.manifest(), planned)]
    return [read_run_data(store, run) for run in alike[-NEWEST:]]


def _own(pair: Pair, metric: str, runs: Sequence[RunData], planned: Manifest) -> Noise | None:
    """The noise of one ratio over the blocks of all runs."""
    found = []
    for data in runs:
        samples = take_samples(data.trials, metric, data.exclusions)
        differences = samples.of(pair.cell_id) - samples.of(pair.baseline)
        there = differences[~np.isnan(differences)]
        if len(there) > 1:
            found.append(_converted(Noise(float(there.std(ddof=1)), len(there) - 1), data, planned))
    return _together(found)


def _pooled(metric: str, runs: Sequence[RunData], planned: Manifest) -> Noise | None:
    """The noise of the ratios of all cells, where the ratio that is asked for was not among them."""
    noises = [(noise_of(data.trials, metric, data.exclusions), data) for data in runs]
    return _together([_converted(noise, data, planned) for noise, data in noises if noise is not None])


def _together(noises: Sequence[Noise]) -> Noise | None:
    """Several estimates of one noise as one, each with the weight of its degrees of freedom."""
    df = sum(noise.df or 0 for noise in noises)
    return Noise(math.sqrt(sum(noise.sd**2 * (noise.df or 0) for noise in noises) / df), df) if df else None


def _converted(noise: Noise, data: RunData, planned: Manifest) -> Noise:
    """The noise of a block of one design as that of a block of the other."""
    one, other = (design_of(manifest.scenario) == "abba" for manifest in (data.manifest, planned))
    return noise if one == other else Noise(noise.sd * _MIRRORED if one else noise.sd / _MIRRORED, noise.df)


def _is_watched(metric: str, claim: str | None, until: Until | None) -> bool:
    """Whether a run that may end early has to know the ratio for that: what claims ask for, and in the rule's metrics."""
    return claim is not None or (until is not None and metric in until.metrics)


def _expected(until: Until, most: int, noises: Sequence[Noise | None], block_s: float | None) -> int | None:
    """After how many blocks the ratio that is known least is known well enough, or the time is spent; at most all."""
    known = [noise for noise in noises if noise is not None]
    if not noises or len(known) < len(noises):
        return None
    if until.budget_s is not None and block_s:
        most = min(most, max(math.floor(until.budget_s / block_s), 1))
    worst = Noise(max(noise.sd for noise in known))
    for blocks in range(until.min_blocks, most):
        if (half_width(worst, blocks, adaptive.ALPHA_PER_LOOK) or math.inf) <= 1 + until.precision:
            return blocks
    return most


def _like(run: Manifest, planned: Manifest) -> bool:
    return (
        run.status != "running"
        and run.scale == planned.scale
        and design_of(run.scenario) != "sequential"
        and all(run.scenario.get(name) == planned.scenario.get(name) for name in _ALIKE)
        and sorted(map(_kind, run.hosts)) == sorted(map(_kind, planned.hosts))
    )


def _kind(host: HostRecord) -> tuple[str, str, int]:
    """What of a host makes its noise, as far as facts tell."""
    return "+".join(host.roles), str(host.facts.get("cpu_model")), len(host.facts.get("cpus") or ())
