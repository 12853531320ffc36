"""Effects of testbeds in a run whose blocks were divided among several.

The logarithm of a metric is the sum of effects of the cell, of the testbed and of the block, and of noise. A block is
nested in its testbed. Ratios are differences within blocks, from which testbed and block cancel out.

The effect of a testbed is the mean of its blocks less the mean of another testbed's blocks, with Welch's interval. Each
block is freed of the effects of its cells. Blocks are the sample, so that what blocks have in common is not taken for
the testbed's. Where the ratio of two cells itself depends on the testbed (an interaction), it does not cancel out; that
is tested too. (Montgomery, Design and Analysis of Experiments, on nested and blocked designs.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.metrics import metric_named
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.inference import ALPHA, MIN_BLOCKS, serial_inflation, t_quantile, welch
from benchkit.stats.samples import Reals, Samples, is_comparable

if TYPE_CHECKING:
    import pandas as pd


class TestbedEffect(Frozen):
    """A metric, or a ratio in it, on one testbed relative to another."""

    testbed: str
    reference: str
    ratio: float
    low: float
    high: float
    pair: tuple[str, str] | None = None
    """Cell and baseline whose ratio is compared; None: the metric itself, over all cells."""

    @property
    def is_shown(self) -> bool:
        """True if the interval excludes one."""
        return not self.low <= 1 <= self.high


def find_testbeds(trials: pd.DataFrame) -> dict[int, str]:
    """Return the testbed of each block; empty unless cells ran on several of them. `trials` as stored."""
    rows = trials[is_comparable(trials) & trials["testbed"].notna()]
    if rows.groupby("cell_id")["testbed"].nunique().max() == 1:  # one testbed, or testbeds are a factor
        return {}
    found = {int(block): str(name) for block, name in zip(rows["block"], rows["testbed"], strict=True)}
    return found if len(set(found.values())) > 1 else {}


def effects_of_testbeds(samples: Samples, testbeds: Mapping[int, str], alpha: float = ALPHA) -> list[TestbedEffect]:
    """Return the effect of each testbed but the first on a metric, those with at least three blocks.

    `testbeds` has the testbed of each block. The intervals together keep `alpha` (Bonferroni).
    """
    parts = _split(samples.logs, samples.blocks, testbeds)
    is_on_all = np.all([~np.isnan(part).all(axis=1) for part in parts.values()], axis=0)
    if not is_on_all.any():
        return []
    parts = {name: part[is_on_all] for name, part in parts.items()}
    of_cells = np.mean([np.nanmean(part, axis=1, keepdims=True) for part in parts.values()], axis=0)
    of_blocks = {name: _block_effects(part - of_cells) for name, part in parts.items()}
    inflation = serial_inflation(list(parts.values()))
    return list(_against_first(of_blocks, alpha, inflation))


def ratio_effects(
    samples: Samples, pairs: Sequence[ComparedCells], testbeds: Mapping[int, str], alpha: float = ALPHA
) -> list[TestbedEffect]:
    """Return for each pair of cells how its ratio on each other testbed relates to that on the first.

    The intervals of all pairs together keep `alpha` (Bonferroni).
    """
    effects: list[TestbedEffect] = []
    for pair in pairs:
        logs = samples.of(pair.cell_id) - samples.of(pair.baseline)
        parts = _split(logs[np.newaxis, :], samples.blocks, testbeds)
        of_blocks = {name: _block_effects(part) for name, part in parts.items()}
        found = _against_first(of_blocks, alpha / len(pairs), 1.0)
        effects += [each.model_copy(update={"pair": (pair.cell_id, pair.baseline)}) for each in found]
    return effects


def notes_on_testbeds(
    trials: pd.DataFrame, samples: Sequence[Samples], pairs: Sequence[ComparedCells], alpha: float = ALPHA
) -> Iterator[str]:
    """Yield sentences about the testbeds of a run, for readers of its values and ratios; none for one testbed."""
    testbeds = find_testbeds(trials)
    if not testbeds:
        return
    counts = Counter(testbeds.values())
    listed = ", ".join(f"{name} ({units.counted(counts[name], 'block')})" for name in sorted(counts))
    yield (
        f"The run was divided among testbeds {listed}: ratios are within blocks, and so within a testbed; values of cells "
        "are over all testbeds."
    )
    for of_metric in samples:
        title = metric_named(of_metric.metric).title
        for effect in effects_of_testbeds(of_metric, testbeds, alpha):
            if effect.is_shown:
                yield (
                    f"Testbed {effect.testbed}: {title} is {_interval(effect)} times that of testbed {effect.reference}; "
                    "values of cells include this difference, ratios do not."
                )
        for effect in ratio_effects(of_metric, pairs, testbeds, alpha):
            if effect.is_shown and effect.pair is not None:
                yield (
                    f"Testbed {effect.testbed}: the ratio of {effect.pair[0]} to {effect.pair[1]} in {title} is "
                    f"{_interval(effect)} times that of testbed {effect.reference}: it depends on the testbed. The "
                    "ratio stated is the mean over the blocks of all."
                )


def _split(logs: Reals, blocks: Sequence[int], testbeds: Mapping[int, str]) -> dict[str, Reals]:
    names = np.array([testbeds.get(block, "") for block in blocks])
    return {name: logs[:, names == name] for name in sorted(set(testbeds.values()))}


def _block_effects(logs: Reals) -> Reals:
    """Return the mean of each block over the cells that it has, without blocks that have none."""
    known = logs[:, ~np.isnan(logs).all(axis=0)]
    means: Reals = np.nanmean(known, axis=0) if known.size else np.empty(0)
    return means


def _against_first(of_blocks: Mapping[str, Reals], alpha: float, inflation: float) -> Iterator[TestbedEffect]:
    (reference, first), *others = of_blocks.items()
    for name, blocks in others:
        if min(len(first), len(blocks)) >= MIN_BLOCKS:
            difference, error, df = welch(first, blocks, inflation)
            reach = t_quantile(1 - alpha / len(others), df) * error
            yield TestbedEffect(
                testbed=name,
                reference=reference,
                ratio=float(np.exp(difference)),
                low=float(np.exp(difference - reach)),
                high=float(np.exp(difference + reach)),
            )


def _interval(effect: TestbedEffect) -> str:
    return f"{units.ratio(effect.ratio)} [{units.ratio(effect.low)}, {units.ratio(effect.high)}]"
