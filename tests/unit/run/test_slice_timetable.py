from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from benchkit.loadtools.load_shares import Pauses
from benchkit.scenario.trial_order import plan_turns, slice_count

CELLS = {"a": 8, "b": 8, "c": 8}
PAUSES = {"a": Pauses(0.02, 0.01), "b": Pauses(0.02, 0.01), "c": Pauses(0.07, 0.11)}


def test_each_round_has_one_slice_of_every_cell_in_an_order_of_its_own() -> None:
    turns = list(plan_turns(CELLS, PAUSES, 0.25, seed=3, block=2))
    orders = [[turn.cell_id for turn in turns if turn.round == round_] for round_ in range(1, 9)]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert len({tuple(order) for order in orders}) > 2
    assert [turn.place for turn in turns] == [1, 2, 3] * 8


def test_turns_follow_each_other_with_lead_and_margin() -> None:
    turns = list(plan_turns(CELLS, PAUSES, 0.25, seed=1, block=1))
    assert turns[0].start_s == 0
    for turn in turns:
        begins_s = turn.start_s + PAUSES[turn.cell_id].lead_s
        assert turn.window_s == (begins_s, begins_s + 0.25)
    for before, after in pairwise(turns):
        assert after.start_s - before.window_s[1] == pytest.approx(PAUSES[before.cell_id].margin_s)
    in_all_s = 24 * 0.25 + 8 * sum(map(sum, PAUSES.values()))
    assert turns[-1].window_s[1] == pytest.approx(in_all_s - PAUSES[turns[-1].cell_id].margin_s)


def test_the_order_depends_on_seed_block_and_round_alone() -> None:
    first = list(plan_turns(CELLS, PAUSES, 0.25, seed=1, block=1))
    assert list(plan_turns(CELLS | {"a": 4, "b": 4, "c": 4}, PAUSES, 0.25, seed=1, block=1)) == first[:12]
    assert [turn.cell_id for turn in plan_turns(CELLS, PAUSES, 0.25, seed=2, block=1)] != [
        turn.cell_id for turn in first
    ]
    assert [turn.cell_id for turn in plan_turns(CELLS, PAUSES, 0.25, seed=1, block=2)] != [
        turn.cell_id for turn in first
    ]


def test_every_order_of_two_cells_comes_equally_often() -> None:
    firsts = Counter(next(plan_turns({"a": 1, "b": 1}, PAUSES, 0.1, 1, block)).cell_id for block in range(1000))
    assert 450 < firsts["a"] < 550


def test_cells_with_fewer_slices_leave_the_later_rounds() -> None:
    turns = list(plan_turns({"a": 1, "b": 3}, PAUSES, 0.1, seed=1, block=1))
    assert [turn.cell_id for turn in turns if turn.round > 1] == ["b", "b"]


@pytest.mark.parametrize(("duration_s", "slice_s", "count"), [(5, 0.25, 20), (2, 0.3, 7), (0.1, 0.25, 1)])
def test_slices_fill_the_duration_of_a_cell(duration_s: float, slice_s: float, count: int) -> None:
    assert slice_count(duration_s, slice_s) == count
