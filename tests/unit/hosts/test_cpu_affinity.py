"""The controller beside servers on its own machine."""

from __future__ import annotations

import os
import threading

import pytest

from benchkit.hosts.cpu_affinity import controller_record, pinned
from benchkit.lab.state import boot_id
from benchkit.models.run import ControllerRecord

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="Linux has affinity")


def test_it_has_the_cpus_that_servers_have_not() -> None:
    own = sorted(os.sched_getaffinity(0))
    assert controller_record({boot_id(): own[:1]}).cpus == tuple(own[1:] or own)
    assert controller_record({"another machine": own}).cpus == tuple(own)


def test_it_keeps_its_own_where_servers_have_them_all() -> None:
    own = sorted(os.sched_getaffinity(0))
    assert controller_record({boot_id(): [*own, 99]}) == ControllerRecord(machine=boot_id(), cpus=tuple(own))


def test_all_of_its_threads_stay_there_for_a_while() -> None:
    own = os.sched_getaffinity(0)
    last = max(own)
    go = threading.Event()
    seen: list[set[int]] = []

    def look() -> None:
        assert go.wait(60)
        seen.append(os.sched_getaffinity(0))

    worker = threading.Thread(target=look)
    worker.start()
    with pinned(ControllerRecord(machine=boot_id(), cpus=(last,))):
        go.set()
        worker.join()
        assert os.sched_getaffinity(0) == {last}
    assert seen == [{last}]
    assert os.sched_getaffinity(0) == own
