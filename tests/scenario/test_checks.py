from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.models.scale import Scale
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import read_experiment

SCENARIO = """\
name: small
title: Small
question: Which?
factors:
  stack: [go, nginx]
  cores: [1]
stacks:
  go: {entry: app, services: {app: {backend: nethttp, listen: 8080, gomaxprocs: $cores}}}
  nginx: {entry: app, services: {app: {backend: nethttp, listen: 8081}}}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 8
scales:
  paper: {factors: {stack: [go, nginx], cores: [8]}}
  lab: {}
"""
LINES = SCENARIO.count("\n")


def read(tmp_path: Path, more: str, scale: Scale = "lab") -> Experiment:
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO + more)
    return read_experiment(str(path), scale)


def faults(tmp_path: Path, more: str) -> list[str]:
    """What is wrong: line counted from the first that was added, and the message."""
    with pytest.raises(InputError) as caught:
        read(tmp_path, more)
    found = []
    for fault in str(caught.value).splitlines():
        _, line, message = fault.removeprefix(f"{tmp_path}/").split(":", 2)
        found.append(f"{int(line) - LINES}:{message}")
    return found


CLAIMS = """\
claims:
  - text: costs little
    ratio: {of: {stack: nginx, cores: 8}, to: {stack: go}}
    at_least: 0.9
  - text: many faults
    ratio:
      of: {stak: nginx}
      to: {stack: gone}
    metric: rpss
    at_most: 1
    needs: {sud: {cpus: 6}}
"""


def test_claims_may_be_about_what_another_scale_has(tmp_path: Path) -> None:
    one = "".join(CLAIMS.splitlines(keepends=True)[:4])
    for scale in ("lab", "paper"):
        (claim,) = read(tmp_path, one, scale).scenario.claims
        assert claim.ratio.of == {"stack": "nginx", "cores": 8}


def test_faults_of_claims_name_file_line_and_field(tmp_path: Path) -> None:
    *found, metric = faults(tmp_path, CLAIMS)
    assert found == [
        "7: claims.1.ratio.of.stak: no factor 'stak'; did you mean 'stack'? allowed: stack, cores",
        "8: claims.1.ratio.to.stack: no level 'gone' at any scale; did you mean 'go'? allowed: go, nginx",
        "11: claims.1.needs.sud: no role 'sud'; did you mean 'sut'? allowed: sut, load",
    ]
    assert metric.startswith("9: claims.1.metric: no metric 'rpss'; did you mean 'rps'? allowed: rps, ")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            "claims:\n  - {text: x, ratio: {of: {stack: go}, to: {stack: nginx}}}",
            "2: claims.0: expects one of at_least",
        ),
        ("control:\n  - {stack: go}\n  - {cores: 2}", "3: control.1: no cell has cores=2; allowed: stack=go,cores=1"),
        ("control: [{stack: go}]\ndesign: abba", "2: design: abba compares two cells; there are 3, controls included"),
        ("design: latin", "1: design: found 'latin'; allowed: 'blocks', 'abba' or 'sequential'"),
        ("until: {precision: 0.05, metrics: [rps, rsp]}", "1: until.metrics.1: no metric 'rsp'; did you mean 'rps'?"),
        ("until: {precision: 0.05, min_blocks: 9}", "1: until: needs at least 9 blocks, but blocks is 8"),
        ("until: {precision: 0.05}\ndesign: sequential", "1: until: not allowed in a sequential design"),
        ("until: {precision: 5}", "1: until.precision: found 5; input should be less than 1"),
    ],
)
def test_what_makes_no_sense_is_blamed_on_its_field(tmp_path: Path, more: str, message: str) -> None:
    (found,) = faults(tmp_path, more)
    assert found.startswith(message)


def test_controls_are_the_cells_that_have_the_levels(tmp_path: Path) -> None:
    one = read(tmp_path, "control: [{stack: nginx}, {stack: nginx, cores: 1}]")
    assert one.controlled == ("stack=nginx,cores=1",)
    both = read(tmp_path, "control: [{cores: 1}]")
    assert both.controlled == ("stack=go,cores=1", "stack=nginx,cores=1")
    assert read(tmp_path, "").controlled == ()


def test_a_cell_and_its_control_are_two_cells_for_abba(tmp_path: Path) -> None:
    found = read(tmp_path, "design: abba\ncells: [{stack: go, cores: 1}]\ncontrol: [{stack: go}]")
    assert found.scenario.design == "abba"
