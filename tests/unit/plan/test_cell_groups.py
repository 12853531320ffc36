"""Groups of cells: every comparison has both cells in one group, and no group is larger than there is room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from benchkit.plan.design import compared_pairs, group_cells
from benchkit.plan.order import control_cells
from benchkit.stats.cell_pairs import ComparedCells
from tests.support.builders import experiment, planned_cells, stacks


def room_for(cells: int) -> Callable[[Sequence[str]], bool]:
    return lambda group: len(group) <= cells


def test_each_group_has_the_baseline() -> None:
    pairs = [ComparedCells(cell_id, "a") for cell_id in "bcde"]
    assert group_cells("abcde", pairs, room_for(3)) == (("a", "b", "c"), ("a", "d", "e"))
    assert group_cells("abcde", pairs, room_for(5)) == (("a", "b", "c", "d", "e"),)
    assert group_cells("abcde", pairs, room_for(1)) is None


def test_a_control_is_beside_its_cell() -> None:
    pairs = [
        ComparedCells("b", "a"),
        ComparedCells("c", "a"),
        ComparedCells("b~", "b", control=True),
        ComparedCells("a~", "a", control=True),
    ]
    assert group_cells(["a", "b", "c", "b~", "a~"], pairs, room_for(3)) == (("a", "b", "b~"), ("a", "c", "a~"))


def test_cells_of_a_claim_are_together() -> None:
    pairs = [*(ComparedCells(cell_id, "a") for cell_id in "bcd"), ComparedCells("d", "b")]
    assert group_cells("abcd", pairs, room_for(3)) == (("a", "b", "c"), ("a", "b", "d"))
    assert group_cells("abcd", pairs, room_for(2)) is None


def test_baselines_of_several_levels_have_groups_of_their_own() -> None:
    pairs = [ComparedCells("b1", "a1"), ComparedCells("b2", "a2")]
    assert group_cells(["a1", "a2", "b1", "b2"], pairs, room_for(2)) == (("a1", "b1"), ("a2", "b2"))
    claim = ComparedCells("a2", "a1")
    with_claim = group_cells(["a1", "a2", "b1", "b2"], [*pairs, claim], room_for(2))
    assert with_claim == (("a1", "a2"), ("a1", "b1"), ("a2", "b2"))


def test_a_cell_without_a_baseline_stands_beside_another() -> None:
    assert group_cells("abc", [ComparedCells("b", "a")], room_for(2)) == (("a", "b"), ("a", "c"))


@given(st.integers(2, 12), st.integers(1, 5), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=6))
def test_every_comparison_has_a_group(cells: int, room: int, claimed: list[tuple[int, int]]) -> None:
    names = [f"c{number}" for number in range(cells)]
    claims = [
        ComparedCells(names[one], names[other]) for one, other in claimed if one != other and max(one, other) < cells
    ]
    pairs = [*(ComparedCells(name, names[0]) for name in names[1:]), *claims]
    groups = group_cells(names, pairs, room_for(room))
    if groups is None:
        assert room < cells
        return
    assert all(len(group) <= room for group in groups)
    assert all(any({pair.cell_id, pair.baseline} <= set(group) for group in groups) for pair in pairs)
    assert set().union(*groups) == set(names)


def test_a_scenario_asks_for_baselines_controls_and_claims() -> None:
    scenario = experiment(
        stacks=stacks(a={}, b={}, c={}, d={}),
        factors={"stack": ["a", "b", "c", "d"]},
        baseline={"stack": "a"},
        control=[{"stack": "b"}],
        claims=[{"text": "c is faster than b", "ratio": {"of": {"stack": "c"}, "to": {"stack": "b"}}, "at_least": 1}],
    )
    cells = planned_cells(scenario, d="too many connections")
    assert compared_pairs(scenario, (*cells, *control_cells(scenario, cells))) == [
        ComparedCells("stack=b", "stack=a"),
        ComparedCells("stack=c", "stack=a"),
        ComparedCells("stack=b~control", "stack=b", control=True),
        ComparedCells("stack=c", "stack=b"),
    ]
