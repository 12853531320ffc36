"""Short faults on a host: the trials that they hit are retried, and the run needs nobody."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from benchkit.lab.lab import Lab
from tests.qualify.chaos.host_faults import DISK, KINDS, NO_SPACE, FaultKind, Target, small_disks
from tests.qualify.chaos.interference import HeldLoadTool
from tests.qualify.chaos.kit import BLOCKS, CELLS, SCENARIO, Bench, on_host, wait_for

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount the small disks that are filled"),
]

SECONDS = 120.0
"""Longest time of a fault. It is ended once it has failed trials; how soon that is depends on the machine."""
ATTEMPTS = 2
"""Attempts at the trial that the fault makes fail."""
LASTING = ("timeout", "python3")
"""Programs in the scripts of faults that last for the seconds of the fault."""

UNTIL_FULL = (
    f"cd {DISK}; while head -c 8192 /dev/zero > probe && rm probe; do sleep 0.02; done 2> /dev/null; rm -f probe"
)


def end(fault: subprocess.Popen[str]) -> None:
    """End a fault before its time; its script removes what it made."""
    for process in psutil.Process(fault.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # one that a loop of the script runs has just ended
            if process.name() in LASTING:
                process.terminate()
    fault.wait()


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for kind in KINDS
        if kind.name in {"server's inodes used up", "load host's disk full", "port taken by a server"}
    ],
    ids=lambda kind: kind.name,
)
def test_a_fault_that_fails_two_attempts_loses_no_trial(
    kind: FaultKind, new_bench: Callable[[], Bench], lab: Lab, held: HeldLoadTool
) -> None:
    with small_disks(lab, new_bench()) as bench:
        running = bench.start(str(SCENARIO), "--json")
        held.wait(running)
        fault = kind.start(Target(bench, running, SECONDS))
        if NO_SPACE in kind.words:  # a port is taken only when the service of the trial has ended
            on_host(lab, kind.words[0], UNTIL_FULL)
        held.release()
        wait_for(running.journal(), '"trial-failed"', ATTEMPTS)
        assert fault is not None
        end(fault)
        result = running.wait()
        assert result.code == 0, result.err
        summary = json.loads(result.out)
        assert (summary["trials"], summary["failures"]) == (CELLS * BLOCKS, {})
        whys = [why for of_trial in summary["retries"].values() for why in of_trial]
        assert len(whys) >= ATTEMPTS
        assert all(word in why for why in whys for word in kind.words), whys
        failures = [event for event in bench.events() if event["event"] == "trial-failed"]
        assert {event["cause"] for event in failures} == {"host-state"}
        assert all(event["will_retry"] and event["pause_s"] > 0 for event in failures)
