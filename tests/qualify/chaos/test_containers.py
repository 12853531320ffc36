"""Killed and failing runs of containers: nothing of an engine is left on their host."""

from __future__ import annotations

import shutil
import signal

import pytest

from tests.qualify.chaos.kit import HERE, Bench
from tests.support.containers.fixtures import engine_state, wait_for_engine_state
from tests.support.needs import containers

pytestmark = [containers, pytest.mark.skipif(shutil.which("ab") is None, reason="ab is not installed")]

SCENARIO = str(HERE / "containers.yaml")


@pytest.mark.parametrize("point", ["deployed", "services-up", "under-load"])
def test_nothing_is_left_of_containers_whose_controller_was_killed(bench: Bench, point: str) -> None:
    """Count containers, networks, volumes, images, mounts, rules, control groups and forwarding, before and after."""
    before = engine_state(bench.lab, "sut")
    killed = bench.run(SCENARIO, "--set", "load.request_count=1000000", crash=point)
    assert killed.code == -signal.SIGKILL
    wait_for_engine_state(before, bench.lab, "sut")


def test_a_killed_run_of_containers_is_resumed_and_leaves_nothing(bench: Bench) -> None:
    before = engine_state(bench.lab, "sut")
    assert bench.run(SCENARIO, crash="rows-written").code == -signal.SIGKILL
    resumed = bench.run("--resume", "latest")
    assert resumed.code == 0, resumed.err
    assert bench.progress().status == "done"
    wait_for_engine_state(before, bench.lab, "sut")
