"""Rule for repeating blocks that invalid trials lose, so that a run has as many usable blocks as planned.

`RunData.samples` decides which trials are lost, as for every result. For a cell without any usable trial no block is
repeated: its new trials would be invalid, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchkit.comparison.runs.run_data import RunData
from benchkit.judge.verdicts import trials_so_far
from benchkit.models.rows import TrialRow
from benchkit.models.run import Manifest
from benchkit.stats.samples import INVALID, Exclusion


@dataclass(frozen=True)
class SpareBlocks:
    """The largest number of further blocks of a run, and the rule that chooses which of its blocks they repeat."""

    most: int
    manifest: Manifest

    def lost_block(
        self, rows: Sequence[TrialRow], exclusions: Iterable[Exclusion], added: Collection[int]
    ) -> int | None:
        """Return a block that is to be repeated, from rows of `trials` while they are written; None: there is none.

        `exclusions` come from checks on single trials; this adds the exclusions by checks on the whole run. `added` are
        the blocks added so far.
        """
        return lost_block(RunData(self.manifest, *trials_so_far(rows, self.manifest, exclusions)), added)


def lost_block(data: RunData, added: Collection[int]) -> int | None:
    """Return the planned block to repeat next, for the cell that lacks most blocks; None: no block is lost.

    Only trials that are invalid for the primary metric count as lost: a failed trial has retries of its own.
    """
    samples = data.samples(data.primary_metric)
    shortfalls: list[list[int]] = []
    for cell in samples.cells:
        usable = {block for block, log in zip(samples.blocks, samples.of(cell), strict=True) if not np.isnan(log)}
        invalid = {each.block for each in samples.excluded_of(cell) if each.reason.startswith(INVALID)}
        lost = sorted(invalid - usable - set(added))
        replaced = len(usable & set(added))
        if usable and lost[replaced:]:
            shortfalls.append(lost[replaced:])
    return max(shortfalls, key=len)[0] if shortfalls else None
