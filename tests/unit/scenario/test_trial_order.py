from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from benchkit.errors import InputError
from benchkit.models.base import cell_id
from benchkit.models.design import StopCondition, control_of, controlled, design_of, until_of
from benchkit.scenario.trial_order import PlannedTrial, abba, planned_trials, randomised_blocks, sequential


def cells_of(trials: tuple[PlannedTrial, ...], block: int) -> list[str]:
    return [trial.cell_id for trial in trials if trial.block == block]


def test_blocks_are_complete_and_random_and_depend_on_the_seed() -> None:
    cells = [f"c{i}" for i in range(6)]
    trials = randomised_blocks(cells, blocks=50, seed=3)
    orders = [cells_of(trials, block) for block in range(1, 51)]
    assert all(sorted(order) == cells for order in orders)
    assert [trial.position for trial in trials[:6]] == [1, 2, 3, 4, 5, 6]
    assert trials == randomised_blocks(cells, 50, 3)
    assert trials != randomised_blocks(cells, 50, 4)
    assert trials[:60] == randomised_blocks(cells, 10, 3)
    # Each cell comes first about equally often: 50 blocks, 6 cells, mean 8.3; 0.001 of seeds give a count above 18.
    firsts = Counter(order[0] for order in orders)
    assert set(firsts) == set(cells)
    assert max(firsts.values()) <= 18


@given(st.integers(1, 12), st.integers(0, 10_000))
def test_abba_blocks_are_mirrored_and_cancel_linear_drift(blocks: int, seed: int) -> None:
    trials = abba(["a", "b"], blocks, seed)
    assert len(trials) == 4 * blocks
    for block in range(1, blocks + 1):
        assert cells_of(trials, block) in (["a", "b", "b", "a"], ["b", "a", "a", "b"])
        positions = {cell: sum(t.position for t in trials if t.block == block and t.cell_id == cell) for cell in "ab"}
        assert positions["a"] == positions["b"]
    assert abba(["a", "b"], blocks, seed) == trials
    assert abba(["a", "b"], blocks + 1, seed)[: len(trials)] == trials


def test_abba_draws_the_cell_that_comes_first() -> None:
    first = [trial.cell_id for trial in abba(["a", "b"], 200, 1) if trial.position == 1]
    assert 70 < Counter(first)["a"] < 130


def test_abba_refuses_other_than_two_cells() -> None:
    with pytest.raises(InputError, match="compares two cells; there are 3"):
        abba(["a", "b", "c"], 2, 1)


def test_a_sequential_design_completes_a_cell_before_the_next() -> None:
    trials = sequential(["a", "b"], 3)
    assert [trial.cell_id for trial in trials] == ["a", "a", "a", "b", "b", "b"]
    assert [trial.block for trial in trials] == [1, 2, 3, 1, 2, 3]
    assert len({(trial.block, trial.position) for trial in trials}) == 6


def test_a_design_determines_the_order() -> None:
    cells = ["a", "b"]
    assert planned_trials("blocks", cells, 3, 7) == randomised_blocks(cells, 3, 7)
    assert planned_trials("abba", cells, 3, 7) == abba(cells, 3, 7)
    assert planned_trials("sequential", cells, 3, 7) == sequential(cells, 3)


def test_groups_of_a_sliced_design_take_turns() -> None:
    groups = [["a", "b"], ["a", "c"]]
    trials = planned_trials("sliced", ["a", "b", "c"], 3, 7, groups)
    assert [sorted(cells_of(trials, block)) for block in range(1, 7)] == groups * 3
    assert max(trial.block for trial in trials) == 6
    assert planned_trials("sliced", ["a", "b"], 3, 7, [["a", "b"]]) == planned_trials("sliced", ["a", "b"], 3, 7)


def test_a_control_is_named_after_its_cell() -> None:
    name = cell_id({"stack": "go", "version": "1.2+x"})
    assert controlled(control_of(name)) == name
    assert controlled(name) is None
    kinds = {trial.cell_id: trial.kind for trial in planned_trials("abba", ["a", control_of("a")], 2, 1)}
    assert kinds == {"a": "measure", "a~control": "control"}


def test_the_design_of_a_stored_scenario_is_read() -> None:
    assert design_of({}) == "blocks"
    assert design_of({"design": "abba"}) == "abba"
    assert until_of({}) is None
    until = until_of({"until": {"precision": 0.05}})
    assert until is not None
    assert (until.min_blocks, until.metrics, until.budget_s) == (7, ("rps",), None)


@pytest.mark.parametrize(
    "fields",
    [
        {"precision": 0},
        {"precision": 0.1, "min_blocks": 5},
        {"precision": 0.1, "budget_s": 0},
        {"precision": 0.1, "metrics": []},
        {"precision": 0.1, "max_blocks": 9},
    ],
)
def test_invalid_conditions_for_an_early_end_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        StopCondition.model_validate(fields)
