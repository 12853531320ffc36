"""Tests of the check shared-cpus."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from benchkit.models.run import ControllerRecord
from tests.support.judge.builders import build_generator, build_trial, finding_of


@pytest.mark.parametrize(("cpus", "expected"), [((1,), False), ((0, 1), True)])
def test_common_cpu_on_one_machine(cpus: tuple[int, ...], *, expected: bool) -> None:
    found = finding_of("shared-cpus", build_trial(generators=(build_generator(cpus=cpus),)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("suspect", ALL)


@pytest.mark.parametrize(
    ("machine", "cpus", "expected"),
    [("one machine", (1,), False), ("one machine", (0, 1), True), ("mine", (0,), False)],
)
def test_common_cpu_with_the_controller(machine: str, cpus: tuple[int, ...], *, expected: bool) -> None:
    trial_with_unwatched_host = ControllerRecord(machine=machine, cpus=cpus)
    found = finding_of("shared-cpus", build_trial(controller=trial_with_unwatched_host))
    assert (found is not None) == expected
    assert found is None or found.seen == "the server and benchkit itself may run on the same CPU: 0"


def test_same_number_on_another_machine_is_another_cpu() -> None:
    elsewhere = {"load": {"boot_id": "another"}}
    assert finding_of("shared-cpus", build_trial(generators=(build_generator(cpus=(0,)),), facts=elsewhere)) is None
