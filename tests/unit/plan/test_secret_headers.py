"""Secret headers in plans: who can read them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchkit.loadtools.generators.generator import plan_generators
from benchkit.loadtools.tool import Target
from benchkit.plan.planner import secret_notes
from tests.support.builders import experiment, load, planned_cells
from tests.support.loadtools.fixtures import place


def _notes(tool: str) -> tuple[str, ...]:
    headers = {"Cookie": {"env": "SID"}, "Authorization": {"env": "TOKEN"}, "Accept": "text/html"}
    (cell,) = planned_cells(experiment(load=load(tool=tool, headers=headers)))
    generators = plan_generators(cell.load, Target("10.0.0.2:8080"), [place("load1")])
    return secret_notes([replace(cell, generators=generators)])


def test_a_plan_says_what_others_can_read_and_how_to_avoid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "Bearer 1f7e")
    in_arguments = (
        "h2load takes headers only as arguments. Anybody who may list processes on load1 can read Cookie, "
        "Authorization while it runs. Use k6, openloop, vegeta or wrk, which read headers from a private file."
    )
    assert _notes("h2load") == (in_arguments,)
    assert _notes("openloop") == ()
