"""Searches for a slower commit in simulated histories: how often they are right, and how many blocks they take.

Under each noise, 20 seeded histories of 32 commits are searched, 4 of which do not build. They have a slowdown of a
tenth at a random commit, or none. The loop and the rules of the search are `benchkit bisect`'s own; only rates are
simulated.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.simulation.noise import MODELS
from tests.support.simulation.searches import SEARCHES, Found, count_right, count_silent

RIGHT = 18
"""Searches of 20 that must be right."""
WIDTH = max(map(len, MODELS))


def mean_blocks(results: Sequence[Found]) -> float:
    return sum(found.blocks for found in results) / len(results)


def test_slower_commits_are_found_and_none_is_invented() -> None:
    print(f"\nRight searches of {SEARCHES}, with their mean number of blocks (undecided steps of all searches)")
    print(f"{'':{WIDTH}}{'slowdown of 10 %':>28}{'no slowdown':>22}")
    counts: list[int] = []
    for name, model in MODELS.items():
        right, slower = count_right(model)
        silent, equal = count_silent(model)
        undecided = sum(found.undecided for found in slower)
        print(
            f"{name:{WIDTH}}{right:8} {mean_blocks(slower):8.0f} blocks ({undecided:2})"
            f"{silent:8} {mean_blocks(equal):6.0f} blocks"
        )
        counts += [right, silent]
    assert min(counts) >= RIGHT
