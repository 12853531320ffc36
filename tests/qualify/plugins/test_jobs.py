"""Jobs in this process, on worker processes of this machine, and on a cluster that exists."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import dask
import distributed
import psutil
import pytest

from benchkit.errors import BenchkitError, InputError
from benchkit.plugins.dask import executor as jobs
from benchkit.store.run_jobs import FEW_JOBS, Workers, run_jobs


class Watched:
    """Sentences for the user, and the number of jobs that ended."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.ended = 0

    def advance(self) -> None:
        self.ended += 1

    def run(self, function: Any, items: Any, workers: Workers) -> list[Any]:  # noqa: ANN401 - jobs of any type
        return run_jobs(function, list(items), workers, notify=self.said.append, advance=self.advance)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Address of a cluster of one worker."""
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as running:
        yield running.scheduler_address


def own_pid(_: object) -> int:
    return os.getpid()


@pytest.mark.parametrize(("number", "count"), [(None, FEW_JOBS - 1), (1, FEW_JOBS + 1)])
def test_few_jobs_and_one_worker_are_this_process(watched: Watched, number: int | None, count: int) -> None:
    assert watched.run(own_pid, range(count), Workers(number)) == [os.getpid()] * count
    assert (watched.said, watched.ended) == ([], count)


def test_a_worker_killed_in_the_middle_changes_no_result(watched: Watched) -> None:
    killed: list[int] = []

    def job(item: int) -> int:
        time.sleep(0.05)
        return item * item

    def advance() -> None:
        watched.advance()
        if not killed:
            workers = [each for each in psutil.Process().children() if "spawn_main" in " ".join(each.cmdline())]
            killed.append(workers[0].pid)
            workers[0].send_signal(signal.SIGKILL)

    items = list(range(40))
    results = run_jobs(job, items, Workers(2), notify=watched.said.append, advance=advance)
    assert killed
    assert results == [item * item for item in items]
    assert watched.ended == len(items)
    (said,) = watched.said
    assert said.startswith("2 workers; dashboard: http://127.0.0.1:")
    assert not psutil.pid_exists(killed[0])


def test_jobs_run_on_a_cluster_that_exists_and_their_errors_come_back(watched: Watched, cluster: str) -> None:
    def job(item: int) -> int:
        if item == 3:
            raise InputError("no such thing", where="there", hint="look elsewhere")
        return os.getpid()

    (pid,) = set(watched.run(job, range(3), Workers(cluster=cluster)))
    assert pid != os.getpid()
    with pytest.raises(InputError, match="there: no such thing\n  → look elsewhere"):
        watched.run(job, range(5), Workers(cluster=cluster))


def test_a_cluster_of_other_versions_is_refused(
    watched: Watched, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = jobs.versions()
    monkeypatch.setattr(jobs, "_PACKAGES", ("benchkit",))
    monkeypatch.setattr("importlib.metadata.version", lambda _: "99")
    with pytest.raises(InputError, match=f"other versions: benchkit {own['benchkit']}, here 99"):
        watched.run(own_pid, [1], Workers(cluster=cluster))


def test_an_address_without_a_scheduler_is_named(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(jobs, "CONNECT_TIMEOUT_S", 0.5)
        with pytest.raises(BenchkitError, match=f"{address}: no scheduler of Dask answers"):
            watched.run(own_pid, [1], Workers(cluster=address))
    with pytest.raises(InputError, match="no address of a scheduler"):
        watched.run(own_pid, [1], Workers(cluster="quic://host:1"))


def test_a_job_that_ends_its_workers_is_an_error(watched: Watched) -> None:
    def job(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        pytest.raises(BenchkitError, match="a job ended several workers"),
    ):
        watched.run(job, [1, 2], Workers(2))


def test_without_dask_all_jobs_run_here_unless_workers_are_asked_for(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert set(watched.run(own_pid, range(FEW_JOBS), Workers())) == {os.getpid()}
    assert "pip install 'benchkit[dask]'" in watched.said[0]
    for workers, option in ((Workers(2), "--workers"), (Workers(cluster="tcp://127.0.0.1:1"), "--cluster")):
        with pytest.raises(InputError, match=rf"{option}: .*\n  → pip install 'benchkit\[dask\]'"):
            watched.run(own_pid, range(FEW_JOBS), workers)
