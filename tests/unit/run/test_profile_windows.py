"""Windows of profiles that a run finds itself."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.models.rows import TrialRow
from benchkit.plan.model import RunPlan
from benchkit.plan.order import cells_of_pass
from benchkit.run.profile_windows import ProfileWindows
from benchkit.scenario.trial_order import PlannedTrial
from tests.support.builders import experiment, load, planned_cells, run_plan, stacks

PROFILED = PlannedTrial(9, 1, "stack=other", "profile")
OWN_S, BLOCKS = 5.0, 12


def plan(**profile: object) -> RunPlan:
    """Return the plan of two stacks with blocks of 5 s, profiled in 2 blocks, for up to 15 s each then."""
    made = experiment(
        factors={"stack": ["one", "other"]},
        stacks=stacks(one={}, other={}),
        load=load(duration_s=OWN_S),
        blocks=BLOCKS,
        baseline={"stack": "one"},
        profile={"blocks": 2, "frequency_hz": 99, **profile},
    )
    cells = planned_cells(made)
    observed = {kind: cells_of_pass(each, cells) for kind, each in made.scenario.passes.items()}
    return run_plan(made, cells=cells, observed=observed, planned_trials=(PROFILED,))


def rows(one_us: float, other_us: float, kind: Any = "measure") -> list[TrialRow]:  # noqa: ANN401 - a kind of trials
    """Return a trial of each, of servers that use a whole core."""
    cpu_s = {"stack=one": one_us / 1e6, "stack=other": other_us / 1e6}
    return [
        TrialRow(
            cell_id=cell_id,
            trial_id=cell_id,
            block=1,
            position=1,
            kind=kind,
            rps=1 / each,
            server_cpu_s_per_request=each,
        )
        for cell_id, each in cpu_s.items()
    ]


def window(windows: ProfileWindows, trial: PlannedTrial, of: RunPlan) -> tuple[float | None, str | None]:
    cell, note = windows.cell_of(of.cell_of(trial), trial, of)
    return cell.load.duration_s, note


@pytest.mark.parametrize(("other_us", "window_s"), [(60.0, OWN_S), (36.0, 13.0)])
def test_a_profile_is_as_long_as_a_tenth_of_the_difference_needs(other_us: float, window_s: float) -> None:
    windows = ProfileWindows(rows(20.0, other_us))
    for kind in ("profile", "control"):
        assert window(windows, PlannedTrial(9, 1, "stack=other", kind), plan()) == (window_s, None)
    assert window(windows, PlannedTrial(1, 1, "stack=other"), plan()) == (OWN_S, None)


def test_the_pass_takes_no_more_time_than_the_measured_trials() -> None:
    seconds, note = window(ProfileWindows(rows(20.0, 21.0)), PROFILED, plan())
    assert seconds == 15.0
    assert note is not None
    assert note.startswith("Profiles of 15 s are too short for a narrow interval of a tenth of each difference: ")
    assert ": they need " in note
    assert note.endswith(". `--set profile.duration_s=…` sets another window.")
    assert ": no time is enough. " in (window(ProfileWindows(rows(20.0, 20.0)), PROFILED, plan())[1] or "")


def test_a_stated_window_and_unknown_costs_change_nothing() -> None:
    assert window(ProfileWindows(rows(20.0, 21.0)), PROFILED, plan(duration_s=7)) == (7.0, None)
    assert window(ProfileWindows(), PROFILED, plan()) == (OWN_S, None)
    assert window(ProfileWindows(rows(20.0, 21.0, "profile")), PROFILED, plan()) == (OWN_S, None)
