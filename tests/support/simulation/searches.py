"""Simulated searches for a slower commit: how many name the right one, and how many blocks they take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from benchkit.comparison.ratios import Ratio
from benchkit.models.design import ALPHA_PER_LOOK
from benchkit.models.request import Request
from benchkit.plugins.bisect.bisection import MIN_BLOCKS, USUAL_BLOCKS
from benchkit.plugins.bisect.search import (
    Compared,
    Search,
    answer_of,
    classify,
    run_search,
    step_error_rate,
)
from benchkit.scenario.versus import ServerComparison
from benchkit.services.git_source import Commit
from benchkit.stats.inference import t_statistics
from benchkit.stats.samples import Reals
from tests.support.simulation.noise import SPREAD, Model, cells_in_blocks

SLICED_SPREAD = 0.04
"""Deviation of a trial's logarithm in sliced blocks of slices of 1 s: 0.056 for a log-ratio."""
SEARCHES, COMMITS, BROKEN = 20, 32, 4
"""Histories of a figure, their commits, and how many of each do not build."""


@dataclass(frozen=True)
class Found:
    """The result of one simulated search."""

    suspects: tuple[str, ...]
    """The commits named as the first bad one; none where no slowdown is shown."""
    blocks: int
    """Blocks that all steps took."""
    undecided: int
    """Steps judged by their point alone."""


def count_right(model: Model, spread: float = SLICED_SPREAD) -> tuple[int, list[Found]]:
    """Return how many seeded histories with a slowdown of a tenth are searched rightly, and all results.

    Right is the first bad commit, with no other suspects than commits that do not build.
    """
    right, results = 0, []
    for seed in range(SEARCHES):
        places = np.random.default_rng(seed)
        first_bad = int(places.integers(COMMITS))
        others = [i for i in range(COMMITS - 1) if i != first_bad]
        broken = frozenset(int(i) for i in places.choice(others, BROKEN, replace=False))
        found = search(model, seed=seed, first_bad=first_bad, broken=broken, spread=spread)
        suspects = {int(name[1:]) for name in found.suspects}
        right += first_bad in suspects and suspects <= broken | {first_bad}
        results.append(found)
    return right, results


def count_silent(model: Model, spread: float = SLICED_SPREAD) -> tuple[int, list[Found]]:
    """Return how many seeded histories without a slowdown are said to have none, and all results."""
    results = [search(model, seed=100 + seed, first_bad=None, spread=spread) for seed in range(SEARCHES)]
    return sum(not found.suspects for found in results), results


def search(
    model: Model,
    *,
    seed: int,
    commits: int = COMMITS,
    first_bad: int | None,
    change: float = 0.9,
    broken: frozenset[int] = frozenset(),
    spread: float = SPREAD,
    precision: float = 0.025,
    max_blocks: int = USUAL_BLOCKS,
) -> Found:
    """Search among commits of which those from `first_bad` on have `change` times the rate of the good end.

    `broken` are the places of commits that do not build, `spread` is the deviation of a trial's logarithm.
    """
    record = Search(
        repository=".",
        good=Commit(commit="good", subject=""),
        commits=tuple(Commit(commit=f"c{place}", subject="") for place in range(commits)),
        metric="rps",
        build="",
        run="",
        comparison=ServerComparison((Request(),), "h2load", connections=64, budget_s=180, precision=precision),
    )
    compare = _SimulatedComparison(
        model=model,
        generator=np.random.default_rng([seed, commits]),
        spread=spread,
        effects=[math.log(change) if first_bad is not None and i >= first_bad else 0.0 for i in range(commits)],
        broken=broken,
        precision=precision,
        max_blocks=max_blocks,
    )
    answer = answer_of(run_search(record, compare, lambda _: None))
    return Found(tuple(commit.commit for commit in answer.first_bad), compare.blocks, len(answer.undecided))


@dataclass
class _SimulatedComparison:
    """Comparisons of commits with the good end, of which only the measured rates are simulated."""

    model: Model
    generator: np.random.Generator
    spread: float
    effects: Sequence[float]
    broken: frozenset[int]
    precision: float
    max_blocks: int
    blocks: int = field(default=0, init=False)

    def __call__(self, commit: str, *, threshold: float | None, judged: Sequence[str]) -> Compared:
        """Return the ratio after the block with which a run with this condition would end."""
        del judged  # no two builds are equal
        place = int(commit[1:])
        if place in self.broken:
            return Compared(reason="it does not build")
        level = step_error_rate(len(self.effects))
        noise = cells_in_blocks(self.model, self.generator, 1, 2, self.max_blocks)[0] * self.spread / SPREAD
        differences = np.asarray(noise[1] - noise[0] + self.effects[place])
        for blocks in range(MIN_BLOCKS, self.max_blocks + 1):
            ratio = _ratio(differences[:blocks])
            if self._ends(ratio, threshold, level):
                break
        self.blocks += blocks
        return Compared(ratio)

    def _ends(self, ratio: Ratio, threshold: float | None, level: float) -> bool:
        if threshold is None:
            low, high = ratio.interval(level)
            return math.log(high / low) / 2 <= math.log1p(self.precision)
        judged = classify(ratio, threshold, level)
        return judged is not None and judged[1]


def _ratio(differences: Reals) -> Ratio:
    (mean,), (error,) = t_statistics(differences[None, :])
    plain = Ratio(metric="rps", cell_id="commit", baseline="good", blocks=len(differences))
    return plain.with_point(float(mean), 0.0).with_interval(
        float(mean), float(error), len(differences) - 1, ALPHA_PER_LOOK
    )
