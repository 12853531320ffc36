from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from benchkit.models.design import control_of
from benchkit.models.load import Load
from benchkit.scenario.profile_pass import ProfilePass, is_profile_pass, profile_trials

CELLS = ["server=a", "server=b", "server=c"]


@given(st.integers(1, 5), st.integers(0, 10_000), st.integers(0, 9))
def test_every_cell_has_a_pair_side_by_side_in_each_block(blocks: int, seed: int, after: int) -> None:
    order = profile_trials(ProfilePass(blocks=blocks), CELLS, after, seed)
    assert [planned_trial.block for planned_trial in order] == [
        after + n for n in range(1, blocks + 1) for _ in range(2 * len(CELLS))
    ]
    for block in range(after + 1, after + blocks + 1):
        planned_trials = [planned_trial for planned_trial in order if planned_trial.block == block]
        assert [planned_trial.position for planned_trial in planned_trials] == list(range(1, len(planned_trials) + 1))
        pairs = list(zip(planned_trials[::2], planned_trials[1::2], strict=True))
        assert sorted(one.cell_id for one, _ in pairs) == CELLS
        assert all(one.cell_id == other.cell_id for one, other in pairs)
        assert all({one.kind, other.kind} == {"profile", "control"} for one, other in pairs)
    assert profile_trials(ProfilePass(blocks=blocks), CELLS, after, seed) == order


def test_which_of_a_pair_comes_first_and_the_order_of_cells_are_drawn() -> None:
    order = profile_trials(ProfilePass(blocks=100), CELLS, 0, 1)
    first = Counter(planned_trial.kind for planned_trial in order[::2])
    assert 100 < first["profile"] < 200
    leaders = Counter(planned_trial.cell_id for planned_trial in order if planned_trial.position == 1)
    assert min(leaders[cell] for cell in CELLS) > 15


def test_a_longer_pass_begins_like_a_shorter_one_and_measured_blocks_do_not_matter_to_it() -> None:
    short, long = (profile_trials(ProfilePass(blocks=n), CELLS, 6, 3) for n in (1, 3))
    assert long[: len(short)] == short
    later = profile_trials(ProfilePass(blocks=1), CELLS, 9, 3)
    assert [(s.cell_id, s.kind) for s in later] == [(s.cell_id, s.kind) for s in short]


def test_second_names_of_cells_are_not_profiled() -> None:
    order = profile_trials(ProfilePass(blocks=1), [*CELLS, control_of(CELLS[0])], 6, 1)
    assert {planned_trial.cell_id for planned_trial in order} == set(CELLS)


def test_trials_of_the_pass_are_told_from_measured_ones_and_from_second_names() -> None:
    assert is_profile_pass("profile", "a")
    assert is_profile_pass("control", "a")
    assert not is_profile_pass("control", control_of("a"))
    assert not is_profile_pass("measure", "a")


def test_the_pass_may_have_a_window_of_its_own() -> None:
    load = Load(tool="hey", connections=8, requests=1_000_000)
    assert ProfilePass().load(load) == load
    assert ProfilePass(duration_s=3).load(load) == Load(tool="hey", connections=8, duration_s=3)


def test_what_it_says_of_services() -> None:
    assert ProfilePass().includes("app")
    some = ProfilePass(services=("app", "frnt"))
    assert some.includes("app")
    assert not some.includes("front")


@pytest.mark.parametrize(
    "wrong",
    [{"blocks": 0}, {"frequency_hz": 0}, {"frequency_hz": 99.5}, {"settle_s": -1}, {"duration_s": 0}, {"hz": 9}],
)
def test_what_it_does_not_take(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ProfilePass.model_validate(wrong)
