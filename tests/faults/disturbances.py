"""Disturbances of a lab from outside: processes on its cores, quotas, signals; and a monitor of others."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import psutil

from benchkit.agent.telemetry import measure_loop
from benchkit.errors import BenchkitError
from benchkit.hosts.files import PlacedFile
from benchkit.lab.lab import Lab
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.services.nginx import hello_body
from tests.faults.fault_lab import FaultLab, TrialHook

LOOP = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass\n"
PERIOD_US = 100_000
LOAD_TOOL = re.compile(r"(\S*/)?(wrk|h2load|openloop) ")


@contextmanager
def busy_loop(cpu: int) -> Iterator[None]:
    """Run a foreign process that uses all of a core."""
    process = subprocess.Popen([sys.executable, "-c", LOOP, str(cpu)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def cpus_of(lab: Lab, host: str) -> tuple[int, ...]:
    """Return the cores of a host."""
    return next(each.cpus for each in lab.hosts if each.name == host)


def groups_of(lab: Lab, host: str) -> list[Path]:
    """Return the control groups of all of a host's processes."""
    return [folder / host for folder in lab.state.cgroups if (folder / host).is_dir()]


def set_quota(lab: Lab, host: str, cpus: float | None) -> None:
    """Set or remove a CPU quota of a host."""
    for group in groups_of(lab, host):
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text(str(-1 if cpus is None else round(cpus * PERIOD_US)))
        elif (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{'max' if cpus is None else round(cpus * PERIOD_US)} {PERIOD_US}")


@contextmanager
def quota(lab: Lab, host: str, cpus: float) -> Iterator[None]:
    """Set a CPU quota of a host for a while."""
    set_quota(lab, host, cpus)
    try:
        yield
    finally:
        set_quota(lab, host, None)


def processes_of(lab: Lab, host: str) -> list[psutil.Process]:
    """Return all processes of a host, by its control groups."""
    pids = {
        int(pid)
        for group in groups_of(lab, host)
        for file in group.rglob("cgroup.procs")
        for pid in file.read_text().split()
    }
    found = []
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found


def command_of(process: psutil.Process) -> str:
    """Return the command line of a process; empty if it has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def kill_nginx_worker(lab: Lab) -> None:
    """Kill a worker of nginx; its master starts another."""
    workers = [each for each in processes_of(lab, "sut") if "nginx: worker" in command_of(each)]
    assert workers, "no worker to kill"
    os.kill(workers[0].pid, signal.SIGKILL)


def put_page_for(fault_lab: FaultLab, seconds: float, size: int, instead: bytes) -> None:
    """Replace nginx's page of this size by another one for a while."""
    masters = [each for each in processes_of(fault_lab.lab, "sut") if command_of(each).startswith("nginx: master")]
    assert masters, "no nginx"
    page = f"{masters[0].cwd()}/html/index.html"  # it starts in its service's folder
    place = fault_lab.hosts["sut"].files.place
    assert place([PlacedFile(page, instead)]).changed
    time.sleep(seconds)
    assert place([PlacedFile(page, hello_body(size))]).changed


def stop_for(lab: Lab, host: str, seconds: float, is_one: Callable[[psutil.Process], bool]) -> None:
    """Suspend processes of a host for a while."""
    stopped = [each for each in processes_of(lab, host) if is_one(each)]
    assert stopped, "nothing to stop"
    for each in stopped:
        each.suspend()
    try:
        time.sleep(seconds)
    finally:
        for each in stopped:
            each.resume()


class DelayedAction(TrialHook):
    """An action once in each trial, some time after its load began."""

    LOOK_S = 0.02

    def __init__(self, lab: Lab, after_s: float, do: Callable[[], None]) -> None:
        self._lab = lab
        self._after_s = after_s
        self._do = do
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    def begin(self, _: PlannedTrial) -> None:
        """Start waiting for the load of the trial, or of its block, whose trials begin together."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._ended.clear()
        self._thread = threading.Thread(target=self._act)
        self._thread.start()

    def end(self, _: PlannedTrial) -> None:
        """Wait for the action to finish. Raises its error."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _load_runs(self) -> bool:
        return any(LOAD_TOOL.match(command_of(each)) for each in processes_of(self._lab, "load"))

    def _act(self) -> None:
        while not self._load_runs():
            if self._ended.wait(self.LOOK_S):
                self._failure = AssertionError("no load was seen")
                return
        time.sleep(self._after_s)
        try:
            self._do()
        except (AssertionError, BenchkitError, OSError, psutil.Error) as error:
            self._failure = error


class DisturbanceMonitor:
    """Monitor of what other processes and machines do to the lab's cores, ten times per second."""

    INTERVAL_S = 0.1

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._cpus = {cpu for host in lab.hosts for cpu in host.cpus}
        self._looks: list[tuple[float, float]] = []
        self._stolen: dict[int, list[tuple[float, float]]] = {cpu: [] for cpu in self._cpus}
        self._speeds: dict[int, list[tuple[float, float]]] = {cpu: [] for cpu in self._cpus}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def foreign_cores(self, window_s: tuple[float, float]) -> float:
        """Return the cores that others used in this span, by `time.monotonic()`; 0 if the lab has no control groups."""
        return _growth(self._looks, *window_s) if self._looks else 0.0

    def stolen_share(self, window_s: tuple[float, float]) -> float:
        """Return the share of this time span withheld by the hypervisor, on the core with the most."""
        return max(_growth(looks, *window_s) for looks in self._stolen.values())

    def speeds(self, window_s: tuple[float, float]) -> npt.NDArray[np.float64]:
        """Return the mean speed of each core of the lab in this time span, in loops per second."""
        start, end = window_s
        inside = [[1 / took_s for when, took_s in looks if start <= when <= end] for looks in self._speeds.values()]
        return np.array([np.mean(each) for each in inside])

    def _watch(self) -> None:
        everywhere = os.sched_getaffinity(0)
        while not self._ended.wait(self.INTERVAL_S):
            look = self._look()
            if look is not None:
                self._looks.append((time.monotonic(), look))
            times = psutil.cpu_times(percpu=True)
            for cpu in self._cpus:
                self._stolen[cpu].append((time.monotonic(), times[cpu].steal))
                took_s = measure_loop(cpu)
                if took_s > 0:
                    self._speeds[cpu].append((time.monotonic(), took_s))
            os.sched_setaffinity(0, everywhere)

    def _look(self) -> float | None:
        """Return the seconds so far that others used, or that were stolen."""
        groups = [folder for host in self._lab.hosts for folder in groups_of(self._lab, host.name)]
        ours = [used for folder in groups if (used := _usage_s(folder, self._cpus)) is not None]
        mounts = {parent for folder in groups for parent in folder.parents if parent.is_mount()}
        everybodys = [used for mount in mounts if (used := _usage_s(mount, self._cpus)) is not None]
        if len(ours) < len(self._lab.hosts) or len(everybodys) != 1:
            return None
        times = psutil.cpu_times(percpu=True)
        own = psutil.Process().cpu_times()
        stolen = sum(times[cpu].steal for cpu in self._cpus)
        return everybodys[0] - sum(ours) - own.user - own.system + stolen


def _growth(looks: Sequence[tuple[float, float]], start: float, end: float) -> float:
    """Return the growth of a counter in this time span, per second."""
    when, counts = zip(*looks, strict=True)
    first, last = np.interp((start, end), when, counts)
    return float(last - first) / (end - start)


def _usage_s(folder: Path, cpus: Iterable[int]) -> float | None:
    """Return the CPU time of a control group on these cores (in version 2 on all, added up); None without a group."""
    if (per_cpu := folder / "cpuacct.usage_percpu").exists():
        spent = per_cpu.read_text().split()
        return sum(int(spent[cpu]) for cpu in cpus) / 1e9
    if (stat := folder / "cpu.stat").exists() and "usage_usec" in (text := stat.read_text()):
        return int(text.split("usage_usec")[1].split()[0]) / 1e6
    return None
