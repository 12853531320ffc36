from __future__ import annotations

import pytest

from benchkit.models.base import cpu_places


@pytest.mark.parametrize(("text", "places"), [("0", (0,)), ("2-3", (2, 3)), ("0-1,6", (0, 1, 6)), ("3,1", (3, 1))])
def test_a_list_of_cpus_gives_their_positions(text: str, places: tuple[int, ...]) -> None:
    assert cpu_places(text) == places


@pytest.mark.parametrize(("text", "why"), [("3-1", "is descending"), ("0-2,1", "twice")])
def test_descending_ranges_and_repeated_cpus_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cpu_places(text)
