"""Thresholds of checks: one model, which a scenario lays its own over."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.models.thresholds import Thresholds
from benchkit.scenario.read import read_experiment

SMALL = """\
name: small
title: Small
question: Which?
stacks:
  one: {entry: app, services: {app: {backend: nethttp, listen: 8080}}}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 1
"""


def written(folder: Path, thresholds: str) -> str:
    path = folder / "small.yaml"
    path.write_text(f"{SMALL}thresholds: {thresholds}\n")
    return str(path)


def test_a_scenario_sets_some_and_has_the_rest(tmp_path: Path) -> None:
    scenario = read_experiment(written(tmp_path, "{server_cpu: 0.3}")).scenario
    assert scenario.thresholds == Thresholds(server_cpu=0.3)
    assert scenario.thresholds.generator_cpu == 0.9


def test_settings_lay_theirs_over_it(tmp_path: Path) -> None:
    name = written(tmp_path, "{server_cpu: 0.3}")
    assert read_experiment(name, settings=["thresholds.server_cpu=0.5"]).scenario.thresholds.server_cpu == 0.5


@pytest.mark.parametrize(
    ("thresholds", "said"),
    [("{server_cpu: 1.5}", "thresholds.server_cpu"), ("{no_such: 1}", "thresholds.no_such")],
)
def test_mistakes_name_file_and_field(tmp_path: Path, thresholds: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        read_experiment(written(tmp_path, thresholds))
    assert "small.yaml:8" in str(raised.value)
    assert said in str(raised.value)


def test_every_threshold_says_what_it_is_and_where_it_is_from() -> None:
    assert all(len(field.description or "") > 40 for field in Thresholds.model_fields.values())
