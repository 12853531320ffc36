from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from benchkit.errors import InputError
from benchkit.models.published import Published, published_of
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import SCALES, read_experiment, scales_of

SCENARIO = """\
name: small
title: Small
question: Which?
factors: {procs: [1, all]}
stacks:
  go: {entry: app, services: {app: {backend: nethttp, listen: 8080, gomaxprocs: $procs}}}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 2
scales: {lab: {}, paper: {factors: {procs: [8]}}}
"""
STUDIES = ("nginx-vs-go", "static-files", "reuseport", "nethttp-vs-fasthttp", "node-vs-go", "scheduler-overhead")


def read(tmp_path: Path, published: str) -> Experiment:
    path = tmp_path / "s.yaml"
    path.write_text(f"{SCENARIO}published:\n  - {published}\n")
    return read_experiment(str(path))


def test_figures_are_read_with_their_cell(tmp_path: Path) -> None:
    experiment = read(tmp_path, "{cell: {procs: 8}, figures: {rps: 128403, errors_timeout: 0}, shares: {mcall: 0.4}}")
    (found,) = experiment.scenario.published
    assert found.cell == {"procs": 8}  # a level of another scale
    assert found.figures == {"rps": 128403, "errors_timeout": 0}
    assert found.shares == {"mcall": 0.4}
    assert published_of(experiment.document.data) == experiment.scenario.published
    assert published_of({}) == ()


@pytest.mark.parametrize(
    ("published", "said"),
    [
        ("{cell: {procs: 2}, figures: {rps: 1}}", "s.yaml:11: published.0.cell.procs: no level '2' at any scale"),
        ("{cell: {cores: 1}, figures: {rps: 1}}", "s.yaml:11: published.0.cell.cores: no factor 'cores'"),
        ("{cell: {procs: 1}, figures: {rsp: 1}}", "s.yaml:11: published.0.figures.rsp: no such figure; did you mean"),
        ("{cell: {procs: 1}, shares: {mcal: 0.1}}", "s.yaml:11: published.0.shares.mcal: no such figure; did you mean"),
        ("{cell: {procs: 1}, shares: {mcall: 40.1}}", "s.yaml:11: published.0.shares.mcall"),
        ("{cell: {procs: 1}, figures: {rps: -1}}", "s.yaml:11: published.0.figures.rps"),
    ],
)
def test_what_no_run_could_measure_names_its_place(tmp_path: Path, published: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, published)
    assert said in str(caught.value)


def test_an_entry_says_something_of_a_cell() -> None:
    for data in ({"cell": {"procs": 1}}, {"cell": {}, "figures": {"rps": 1}}):
        with pytest.raises(ValidationError):
            Published.model_validate(data)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_repeats_a_cell_to_know_its_noise(name: str) -> None:
    """At the scales whose figures anybody reads; seconds-long runs need none."""
    for scale in SCALES:
        assert scale in scales_of(name)
        experiment = read_experiment(name, scale)
        assert len(experiment.controlled) == (scale != "smoke")
