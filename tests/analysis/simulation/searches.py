"""Simulated searches for a slower commit: how many name the right one, and how many blocks they take."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchkit.analysis.bisection import (
    MIN_BLOCKS,
    Bisection,
    classify,
    halfway,
    is_shown_worse,
    step_error_rate,
)
from benchkit.analysis.inference import t_statistics
from benchkit.analysis.ratio import Ratio
from benchkit.analysis.samples import Reals
from benchkit.models.bisection import Step
from benchkit.models.design import ALPHA_PER_LOOK
from tests.analysis.simulation.noise import SPREAD, Model, cells_in_blocks


@dataclass(frozen=True)
class Found:
    """The result of one simulated search."""

    suspects: tuple[str, ...]
    """The commits named as the first bad one; none where no slowdown is shown."""
    blocks: int
    """Blocks that all steps took."""


def search(
    model: Model,
    *,
    seed: int,
    commits: int = 32,
    first_bad: int | None,
    change: float = 0.9,
    broken: frozenset[int] = frozenset(),
    spread: float = SPREAD,
    precision: float = 0.025,
    max_blocks: int = 30,
) -> Found:
    """Search among commits of which those from `first_bad` on have `change` times the rate of the good end.

    `broken` are the places of commits that do not build, `spread` is the deviation of a trial's logarithm.
    """
    names = tuple(f"c{i}" for i in range(commits))
    level = step_error_rate(commits)
    generator = np.random.default_rng([seed, commits])

    def differences(place: int) -> Reals:
        noise = cells_in_blocks(model, generator, 1, 2, max_blocks)[0] * spread / SPREAD
        effect = math.log(change) if first_bad is not None and place >= first_bad else 0.0
        return np.asarray(noise[1] - noise[0] + effect)

    first = differences(commits - 1)
    blocks = next(
        (n for n in range(MIN_BLOCKS, max_blocks) if _reach(_ratio(first[:n]), level) <= math.log1p(precision)),
        max_blocks,
    )
    end = _ratio(first[:blocks])
    if end.ratio is None or not is_shown_worse(end, ALPHA_PER_LOOK):
        return Found((), blocks)
    threshold, total, state = halfway(end.ratio), blocks, Bisection(names)
    while (commit := state.next_commit) is not None:
        place = names.index(commit)
        if place in broken:
            state = state.with_step(Step(commit=commit, judgement="skipped"))
            continue
        measured = differences(place)
        for n in range(MIN_BLOCKS, max_blocks + 1):
            judged = classify(_ratio(measured[:n]), threshold, level)
            if judged is not None and judged[1]:
                break
        assert judged is not None
        total += n
        state = state.with_step(Step(commit=commit, judgement=judged[0], is_decided=judged[1]))
    return Found(state.suspects, total)


def _ratio(differences: Reals) -> Ratio:
    (mean,), (error,) = t_statistics(differences[None, :])
    plain = Ratio(metric="rps", cell_id="commit", baseline="good", blocks=len(differences))
    return plain.with_point(float(mean), 0.0).with_interval(
        float(mean), float(error), len(differences) - 1, ALPHA_PER_LOOK
    )


def _reach(ratio: Ratio, level: float) -> float:
    low, high = ratio.interval(level)
    return math.log(high / low) / 2
