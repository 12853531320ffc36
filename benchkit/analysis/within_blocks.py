"""Ratios of cells within the blocks of a run: what all cells of a block share falls out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchkit.analysis.inference import MIN_BLOCKS, sign_flip_p_values, t_p_values, t_statistics
from benchkit.analysis.multiple_tests import ALPHA
from benchkit.analysis.ratio import Ratio
from benchkit.analysis.samples import ExcludedTrial, Reals, Samples


@dataclass(frozen=True)
class Pair:
    """A comparison to be made: `cell_id` over `baseline`; `control`: both are the same cell under two names."""

    cell_id: str
    baseline: str
    control: bool = False


def block_ratios(samples: Samples, pairs: Sequence[Pair], level: float = ALPHA) -> list[Ratio]:
    """Ratios by log-ratio within blocks, without outcomes yet; `level` is what an interval may miss.

    A block counts where both cells have a sample. Comparisons over equally many blocks are computed together.
    """
    both = {pair: _both(samples, pair) for pair in pairs}
    by_blocks: defaultdict[int, list[Pair]] = defaultdict(list)
    for pair, (one, _) in both.items():
        by_blocks[len(one)].append(pair)
    made: dict[Pair, Ratio] = {}
    for blocks, group in by_blocks.items():
        empty = [
            Ratio(
                metric=samples.metric,
                cell_id=pair.cell_id,
                baseline=pair.baseline,
                control=pair.control,
                blocks=blocks,
                left_out=left_out(samples.left_out, pair.cell_id, pair.baseline),
            )
            for pair in group
        ]
        one, other = (np.array([both[pair][side] for pair in group]).reshape(len(group), blocks) for side in (0, 1))
        made.update(zip(group, _computed(empty, one, other, level), strict=True))
    return [made[pair] for pair in pairs]


def left_out(by_cell: Mapping[str, Sequence[ExcludedTrial]], *cells: str) -> tuple[ExcludedTrial, ...]:
    """The trials of these cells that do not count."""
    return tuple(trial for cell_id in dict.fromkeys(cells) for trial in by_cell.get(cell_id, ()))


def _both(samples: Samples, pair: Pair) -> tuple[Reals, Reals]:
    one, other = samples.of(pair.baseline), samples.of(pair.cell_id)
    there = ~np.isnan(one) & ~np.isnan(other)
    return one[there], other[there]


def _computed(empty: Sequence[Ratio], one: Reals, other: Reals, level: float) -> list[Ratio]:
    blocks = one.shape[1]
    if blocks == 0:
        return [ratio.undecided() for ratio in empty]
    points = [
        ratio.with_point(float(value), float(base))
        for ratio, value, base in zip(empty, other.mean(axis=1), one.mean(axis=1), strict=True)
    ]
    if blocks < MIN_BLOCKS:
        return [ratio.undecided() for ratio in points]
    differences = other - one
    mean, error = t_statistics(differences)
    p_t, p_flip = t_p_values(mean, error, blocks - 1), sign_flip_p_values(differences)
    return [
        ratio.with_interval(float(mean[i]), float(error[i]), blocks - 1, level).model_copy(
            update={"p_t": float(p_t[i]), "p_sign_flip": float(p_flip[i])}
        )
        for i, ratio in enumerate(points)
    ]
