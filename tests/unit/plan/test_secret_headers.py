"""Secret headers in plans: who can read them, how they are better given, and the digests that a manifest has."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from benchkit.loadtools.generators.generator import plan_generators
from benchkit.loadtools.tool import Target
from benchkit.plan.planner import secret_notes
from benchkit.run.manifest import header_digests
from benchkit.services.controller_files import STATE_ENVIRONMENT
from tests.support.builders import experiment, load, planned_cells, run_plan
from tests.support.loadtools.fixtures import place


def _notes(tool: str) -> tuple[str, ...]:
    headers = {"Cookie": "sid=1f7e", "Authorization": {"env": "TOKEN"}, "Accept": "text/html"}
    (cell,) = planned_cells(experiment(load=load(tool=tool, headers=headers)))
    generators = plan_generators(cell.load, Target("10.0.0.2:8080"), [place("load1")])
    return secret_notes([replace(cell, generators=generators)])


def test_a_plan_says_what_others_can_read_and_how_to_avoid_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "Bearer 1f7e")
    in_clear = (
        "Cookie is given in clear, where it can be read; runs store {env: COOKIE} instead. In a scenario write "
        "`Cookie: {env: COOKIE}`, on the command line --header-env 'Cookie: COOKIE'."
    )
    in_arguments = (
        "h2load takes headers as arguments alone. Everybody who may list processes on load1 can read Cookie, "
        "Authorization while it runs. k6, openloop, vegeta and wrk read headers from a private file."
    )
    assert _notes("h2load") == (in_clear, in_arguments)
    assert _notes("openloop") == (in_clear,)


def test_digests_tell_values_apart_and_can_be_made_on_this_controller_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digest(controller: str, value: str) -> str:
        monkeypatch.setenv(STATE_ENVIRONMENT, str(tmp_path / controller))
        monkeypatch.setenv("PIN", value)
        digests = header_digests(run_plan(experiment(load=load(headers={"X-Pin": {"env": "PIN"}}))))
        assert list(digests) == ["X-Pin from {env: PIN}"]
        return digests["X-Pin from {env: PIN}"]

    first = digest("one", "1234")
    assert first == digest("one", "1234")
    assert len({first, digest("one", "1235"), digest("other", "1234")}) == 3
    assert hashlib.sha256(b"1234").hexdigest() not in first
