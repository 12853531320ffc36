"""Ratios of samples that no block joins: the same cell in two runs, and cells of a sequential design."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchkit.analysis.inference import MIN_BLOCKS, serial_inflation, t_p_values, welch
from benchkit.analysis.multiple_tests import ALPHA
from benchkit.analysis.ratio import Ratio
from benchkit.analysis.samples import Reals, Samples
from benchkit.analysis.within_blocks import Pair, left_out


def run_ratios(
    before: Samples, after: Samples, cells: Sequence[str], reference: str | None = None, level: float = ALPHA
) -> list[Ratio]:
    """Ratios of the same cells between two runs, `after` over `before`, without outcomes yet.

    With a `reference` cell each run gives its ratios to that cell within blocks, and those are compared: what changed
    for all cells alike falls out, and the interval covers as it should under every noise simulated. Without one, the
    figures themselves are compared, with a variance that allows for neighbouring blocks being alike; but what changed
    from one run to the other, and varies in neither, no interval can tell from a change of the cells.
    """
    inflation = 1.0 if reference else serial_inflation([before.logs, after.logs])
    made = []
    for cell_id in cells:
        one, other = (_relative(samples, cell_id, reference) for samples in (before, after))
        ratio = Ratio(
            metric=after.metric,
            cell_id=cell_id,
            baseline=cell_id,
            relative_to=reference,
            blocks=min(len(one), len(other)),
            left_out=tuple(
                trial
                for samples in (before, after)
                for trial in left_out(samples.left_out, cell_id, *filter(None, (reference,)))
            ),
        )
        made.append(_compared(ratio, one, other, inflation, level))
    return made


def sequential_ratios(samples: Samples, pairs: Sequence[Pair], level: float = ALPHA) -> list[Ratio]:
    """Ratios of cells that ran one after the other, without outcomes yet.

    Drift between them is in the ratio and mostly not in the interval: such a comparison is labelled wherever it is shown.
    """
    inflation = serial_inflation([samples.logs])
    made = []
    for pair in pairs:
        one, other = (_relative(samples, cell_id, None) for cell_id in (pair.baseline, pair.cell_id))
        ratio = Ratio(
            metric=samples.metric,
            cell_id=pair.cell_id,
            baseline=pair.baseline,
            control=pair.control,
            blocks=min(len(one), len(other)),
            left_out=left_out(samples.left_out, pair.cell_id, pair.baseline),
        )
        made.append(_compared(ratio, one, other, inflation, level))
    return made


def _relative(samples: Samples, cell_id: str, reference: str | None) -> Reals:
    logs = samples.of(cell_id) if reference is None else samples.of(cell_id) - samples.of(reference)
    found: Reals = logs[~np.isnan(logs)]
    return found


def _compared(ratio: Ratio, one: Reals, other: Reals, inflation: float, level: float) -> Ratio:
    if ratio.blocks == 0:
        return ratio.undecided()
    ratio = ratio.with_point(float(other.mean()), float(one.mean()))
    if ratio.blocks < MIN_BLOCKS:
        return ratio.undecided()
    mean, error, df = welch(one, other, inflation)
    p = float(t_p_values(np.array([mean]), np.array([error]), df)[0])
    return ratio.with_interval(mean, error, df, level).model_copy(update={"p_t": p})
