from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from benchkit.errors import InputError
from benchkit.models.base import cell_id
from benchkit.models.design import control_of, controlled, design_of, until_of
from benchkit.models.load import Load
from benchkit.scenario.experiment import Experiment, needed_programs
from benchkit.scenario.read import WITH_PROFILES
from benchkit.scenario.trial_order import (
    PlannedTrial,
    ProfilePass,
    TracePass,
    is_of_pass,
    pass_trials,
    planned_trials,
)
from benchkit.services.service import PERF
from tests.support.builders import load, read_scenario, stack


def cells_of(trials: tuple[PlannedTrial, ...], block: int) -> list[str]:
    return [trial.cell_id for trial in trials if trial.block == block]


def test_blocks_are_complete_and_random_and_depend_on_the_seed() -> None:
    cells = [f"c{i}" for i in range(6)]
    trials = planned_trials("blocks", cells, blocks=50, seed=3)
    orders = [cells_of(trials, block) for block in range(1, 51)]
    assert all(sorted(order) == cells for order in orders)
    assert [trial.position for trial in trials[:6]] == [1, 2, 3, 4, 5, 6]
    assert trials == planned_trials("sliced", cells, 50, 3)
    assert trials != planned_trials("blocks", cells, 50, 4)
    assert trials[:60] == planned_trials("blocks", cells, 10, 3)
    # Each cell comes first about equally often: 50 blocks, 6 cells, mean 8.3; 0.001 of seeds give a count above 18.
    firsts = Counter(order[0] for order in orders)
    assert set(firsts) == set(cells)
    assert max(firsts.values()) <= 18


def test_a_sequential_design_completes_a_cell_before_the_next() -> None:
    trials = planned_trials("sequential", ["a", "b"], 3, 7)
    assert [trial.cell_id for trial in trials] == ["a", "a", "a", "b", "b", "b"]
    assert [trial.block for trial in trials] == [1, 2, 3, 1, 2, 3]
    assert len({(trial.block, trial.position) for trial in trials}) == 6


def test_a_control_is_named_after_its_cell() -> None:
    name = cell_id({"stack": "go", "version": "1.2+x"})
    assert controlled(control_of(name)) == name
    assert controlled(name) is None
    kinds = {trial.cell_id: trial.kind for trial in planned_trials("blocks", ["a", control_of("a")], 2, 1)}
    assert kinds == {"a": "measure", "a~control": "control"}


def test_the_design_of_a_stored_scenario_is_read() -> None:
    assert design_of({}) == "blocks"
    assert design_of({"design": "sliced"}) == "sliced"
    assert until_of({}) is None
    until = until_of({"until": {"precision": 0.05}})
    assert until is not None
    assert (until.min_blocks, until.metrics, until.budget_s) == (7, ("rps",), None)


CELLS = ["server=a", "server=b", "server=c"]


@given(st.integers(1, 5), st.integers(0, 10_000), st.integers(0, 9))
def test_every_cell_has_a_pair_of_adjacent_trials_in_each_block(blocks: int, seed: int, after: int) -> None:
    order = pass_trials(ProfilePass(blocks=blocks), CELLS, after, seed)
    assert [trial.block for trial in order] == [
        after + block for block in range(1, blocks + 1) for _ in range(2 * len(CELLS))
    ]
    for block in range(after + 1, after + blocks + 1):
        trials = [trial for trial in order if trial.block == block]
        assert [trial.position for trial in trials] == list(range(1, len(trials) + 1))
        pairs = list(zip(trials[::2], trials[1::2], strict=True))
        assert sorted(one.cell_id for one, _ in pairs) == CELLS
        assert all(one.cell_id == other.cell_id for one, other in pairs)
        assert all({one.kind, other.kind} == {"profile", "control"} for one, other in pairs)
    assert pass_trials(ProfilePass(blocks=blocks), CELLS, after, seed) == order


def test_trials_of_a_trace_pass_have_a_kind_of_their_own() -> None:
    order = pass_trials(TracePass(blocks=2), CELLS, 4, 1, "trace")
    assert Counter(trial.kind for trial in order) == {"trace": 6, "control": 6}
    assert {trial.block for trial in order} == {5, 6}
    assert not any(trial.is_measured for trial in order)


def test_trials_of_the_pass_are_distinguished_from_measured_and_control_trials() -> None:
    assert is_of_pass("profile", "a")
    assert is_of_pass("control", "a")
    assert is_of_pass("trace", "a")
    assert not is_of_pass("control", control_of("a"))
    assert not is_of_pass("measure", "a")


def test_the_pass_may_have_a_window_of_its_own() -> None:
    by_requests = Load(tool="hey", connections=8, request_count=1_000_000)
    assert ProfilePass().load(by_requests) == Load(tool="hey", connections=8, duration_s=2)
    assert ProfilePass(duration_s=3).load(by_requests) == Load(tool="hey", connections=8, duration_s=3)


def test_the_pass_may_be_limited_to_some_services() -> None:
    assert ProfilePass().includes("app")
    some = ProfilePass(services=("app", "db"))
    assert some.includes("app")
    assert not some.includes("front")


@pytest.mark.parametrize(
    "wrong",
    [{"blocks": 0}, {"frequency_hz": 0}, {"frequency_hz": 99.5}, {"settle_s": -1}, {"duration_s": 0}, {"hz": 9}],
)
def test_invalid_fields_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ProfilePass.model_validate(wrong)


def read(folder: Path, profile: object, **load_fields: object) -> Experiment:
    """Read a scenario of a Go server alone, and of one behind nginx, with this profile pass."""
    web = {"backend": "nginx", "listen": 8080, "upstream": "app"}
    app = {"backend": "nethttp", "listen": "127.0.0.1:9000"}
    return read_scenario(
        folder,
        factors={"stack": ["go", "front"]},
        stacks={"go": stack(), "front": {"entry": "web", "services": {"app": app, "web": web}}},
        load=load(**{"duration_s": 4, **load_fields}),
        profile=profile,
    )


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"duration_s": 1}, "profile.duration_s: found 1; a profile needs a window of at least 2 s"),
        ({"settle_s": 3, "duration_s": 4}, "profile.duration_s: found 4; a profile needs a window of at least 5 s"),
        ({"duration_s": 2.5}, "profile.duration_s: wrk takes whole seconds, not 2.5"),
        ({"services": ["wbe"]}, "profile.services.0: no stack has a service 'wbe'"),
        ({"blocks": 0}, "profile.blocks"),
        ({"hertz": 99}, "profile.hertz"),
    ],
)
def test_a_pass_that_does_not_fit_the_load_is_refused(tmp_path: Path, profile: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, profile)
    assert f"small.yaml:8: {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("profile", "load_fields", "window_s"),
    [
        ({}, {}, 4),  # long enough
        ({}, {"duration_s": 1}, 2),
        ({"settle_s": 3}, {}, 5),
        ({"settle_s": 0.5}, {"duration_s": 2}, 3),  # wrk takes whole seconds
        ({}, {"tool": "hey", "duration_s": None, "request_count": 100_000}, 2),
        ({"duration_s": 3}, {"duration_s": 1}, 3),
    ],
)
def test_a_pass_has_a_window_that_a_profile_needs(
    tmp_path: Path, profile: dict[str, Any], load_fields: dict[str, Any], window_s: float
) -> None:
    experiment = read(tmp_path, profile, **load_fields)
    assert experiment.scenario.profile is not None
    used = experiment.scenario.profile.load(experiment.cells[0].load)
    assert (used.duration_s, used.request_count) == (window_s, None)


def test_the_option_for_profiles_adds_a_pass_to_short_windows(tmp_path: Path) -> None:
    experiment = read_scenario(tmp_path, settings=[WITH_PROFILES])
    assert experiment.cells[0].load.duration_s == 1
    assert experiment.scenario.profile is not None
    assert experiment.scenario.profile.load(experiment.cells[0].load).duration_s == 2


@pytest.mark.parametrize(
    ("profile", "expected"), [({}, True), ({"services": ["web"]}, True), ({"services": ["app"]}, False), (None, False)]
)
def test_perf_is_needed_for_services_without_a_profiler(tmp_path: Path, profile: object, expected: bool) -> None:  # noqa: FBT001 - a parameter of the test
    needed = needed_programs(read(tmp_path, profile))
    assert needed["load"] == {"wrk"}
    assert needed["sut"] == {"nginx"} | ({PERF} if expected else set())
