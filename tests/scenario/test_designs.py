from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from benchkit.errors import InputError
from benchkit.models.design import Until, control_of, controlled, design_of, until_of
from benchkit.models.levels import cell_id
from benchkit.scenario.trial_order import abba, planned_trials, randomised_blocks, sequential


@given(st.integers(1, 12), st.integers(0, 10_000))
def test_abba_blocks_are_mirrored_and_cancel_linear_drift(blocks: int, seed: int) -> None:
    order = abba(["a", "b"], blocks, seed)
    assert len(order) == 4 * blocks
    for block in range(1, blocks + 1):
        cells = [planned_trial.cell_id for planned_trial in order if planned_trial.block == block]
        assert cells in (["a", "b", "b", "a"], ["b", "a", "a", "b"])
        positions = {cell: sum(s.position for s in order if s.block == block and s.cell_id == cell) for cell in "ab"}
        assert positions["a"] == positions["b"]
    assert abba(["a", "b"], blocks, seed) == order
    assert abba(["a", "b"], blocks + 1, seed)[: len(order)] == order


def test_which_cell_comes_first_is_drawn() -> None:
    first = [planned_trial.cell_id for planned_trial in abba(["a", "b"], 200, 1) if planned_trial.position == 1]
    assert 70 < Counter(first)["a"] < 130


def test_abba_is_for_two_cells() -> None:
    with pytest.raises(InputError, match="compares two cells; there are 3"):
        abba(["a", "b", "c"], 2, 1)


def test_sequential_runs_a_cell_to_its_end_before_the_next() -> None:
    order = sequential(["a", "b"], 3)
    assert [planned_trial.cell_id for planned_trial in order] == ["a", "a", "a", "b", "b", "b"]
    assert [planned_trial.block for planned_trial in order] == [1, 2, 3, 1, 2, 3]
    assert len({(planned_trial.block, planned_trial.position) for planned_trial in order}) == 6


def test_a_design_gives_its_order() -> None:
    cells = ["a", "b"]
    assert planned_trials("blocks", cells, 3, 7) == randomised_blocks(cells, 3, 7)
    assert planned_trials("abba", cells, 3, 7) == abba(cells, 3, 7)
    assert planned_trials("sequential", cells, 3, 7) == sequential(cells, 3)


def test_a_control_is_a_cell_under_a_second_name() -> None:
    name = cell_id({"stack": "go", "version": "1.2+x"})
    assert controlled(control_of(name)) == name
    assert controlled(name) is None
    kinds = {
        planned_trial.cell_id: planned_trial.kind
        for planned_trial in planned_trials("abba", ["a", control_of("a")], 2, 1)
    }
    assert kinds == {"a": "measure", "a~control": "control"}


def test_stored_scenarios_say_their_design() -> None:
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
def test_rules_that_make_no_sense_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Until.model_validate(fields)
