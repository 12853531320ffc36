from __future__ import annotations

import pytest

from tests.support.simulation.noise import MODELS
from tests.support.simulation.searches import count_right, count_silent


@pytest.mark.parametrize("name", MODELS)
def test_slowdown_of_a_tenth_is_found_among_commits_that_do_not_all_build(name: str) -> None:
    right, _ = count_right(MODELS[name])
    assert right >= 18


@pytest.mark.parametrize("name", MODELS)
def test_history_without_a_slowdown_is_said_to_have_none(name: str) -> None:
    silent, _ = count_silent(MODELS[name])
    assert silent >= 18
