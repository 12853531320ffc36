"""Stores of many runs: comparisons in S3 against a folder, all tables rebuilt by workers, questions to large tables.

BENCHKIT_LARGE_STORE names a store that `tests.bench.large_store` has made: the figures in RESULTS.md are of 2,000 runs
and 20 GB. Without it, comparisons have a small one. Questions have one that is made for them and removed afterwards: of
BENCHKIT_LARGE_GB gigabytes, 20 unless it is set, with 100 runs for each. The S3 server is MinIO where BENCHKIT_MINIO
names its program, else moto; it takes as much room as the store again.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.scenario.read import read_experiment
from benchkit.store.layout import checksums_path, is_file_of_run
from benchkit.store.remote_files import RemoteFiles
from benchkit.store.store import Store
from benchkit.store.transfer import push
from tests.bench.large_store import large_bytes, make_large_store
from tests.bench.minio import minio_server, wait_for_records
from tests.bench.real_runs import STACKS, run_once, table
from tests.support.many_runs import copy_run, digest, remove_tables
from tests.support.s3 import BUCKET, S3, s3_server

PUBLISHED_RUNS, PUBLISHED_BYTES = 120, 50e6
"""Number of runs in S3, and bytes of their latencies and telemetry, unless there is a store."""
FILE_BUFFER = 1 << 16
"""Size of an object, in bytes, from which moto keeps it in a file, and that open."""
TIMES = 7
RUNS = int(os.environ.get("BENCHKIT_BEYOND_RUNS", "1000"))
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own is made in it
LARGE_GB = float(os.environ.get("BENCHKIT_LARGE_GB", "20"))
"""Size in gigabytes of the latencies and telemetry that questions are asked about, unless there is a store."""
RUNS_PER_GB = 100
WORKERS = 2
"""Processes of Dask."""
WORKER_MEMORY = 1e9
"""Largest resident memory of each of them, in bytes."""
LARGE_TIMEOUT_S = 3600
"""Time for one question; of 20 GB, it takes many minutes on two cores."""

URL = f"s3://{BUCKET}/team"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A folder with many runs."""
    if named := os.environ.get("BENCHKIT_LARGE_STORE"):
        return Store(Path(named))
    return make_large_store(tmp_path_factory.mktemp("store"), PUBLISHED_RUNS, PUBLISHED_BYTES)


@contextmanager
def server(folder: Path) -> Iterator[S3]:
    """Serve S3: MinIO from a folder, else moto, which keeps large objects in files of its own."""
    if program := os.environ.get("BENCHKIT_MINIO"):
        with minio_server(program, folder) as served:
            yield served
    else:
        with pytest.MonkeyPatch.context() as patch, s3_server() as served:
            patch.setenv("MOTO_S3_DEFAULT_KEY_BUFFER_SIZE", str(FILE_BUFFER))
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            yield served


@pytest.fixture(scope="module")
def s3(store: Store) -> Iterator[S3]:
    """An S3 server to which all runs are published."""
    with (
        tempfile.TemporaryDirectory() as folder,  # pytest's own are kept for a while, and this one is large
        server(Path(folder)) as served,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in served.environment.items():
            patch.setenv(name, value)
        began, remote = time.perf_counter(), RemoteFiles(URL)
        for run in store.runs():
            push(store, run, remote)
        print(f"\n{len(store.runs())} runs, {large_bytes(store) / 1e9:.2f} GB of latency and telemetry, published in "
              f"{time.perf_counter() - began:.0f} s")  # fmt: skip
        yield served


def seconds(*arguments: str, environment: Mapping[str, str]) -> float:
    """Return the wall time of a command, a process of its own."""
    began = time.perf_counter()
    program = Path(sys.executable).with_name("benchkit")
    subprocess.run([program, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def is_run_path(path: str, run_id: str) -> bool:
    """Return True for a file of the run and for its checksums."""
    return is_file_of_run(path, run_id) or path == checksums_path(run_id)


def test_a_comparison_reads_its_run_alone_and_takes_at_most_twice_as_long(s3: S3, store: Store) -> None:
    run_id = next(run.run_id for run in store.runs() if "nginx-vs-go" in run.manifest().scenario_name)
    environment = {**os.environ, **s3.environment}
    there, here = [], []
    for _ in range(TIMES):
        wait_for_records(s3)
        s3.requests.clear()
        there.append(seconds("compare", run_id, "--store", URL, environment=environment))
        here.append(seconds("compare", run_id, "--store", str(store.path), environment=environment))
    wait_for_records(s3)
    paths = {path.removeprefix(f"/{BUCKET}/team/") for _, path, _ in s3.requests}
    assert all(is_run_path(path, run_id) for path in paths)
    size = sum((store.path / path).stat().st_size for path in paths)
    whole = sum(
        path.stat().st_size
        for path in store.path.rglob("*")
        if path.is_file() and is_run_path(path.relative_to(store.path).as_posix(), run_id)
    )
    ratio = statistics.median(there) / statistics.median(here)
    print(
        f"\n{len(store.runs())} runs: compare reads {s3.sent_bytes()} bytes in {len(s3.requests)} requests "
        f"({s3.sent_bytes() / size:.2f} of its files' {size}, {s3.sent_bytes() / whole:.0%} of the run); "
        f"{statistics.median(there):.2f} s, in a folder {statistics.median(here):.2f} s: {ratio:.2f} times"
    )
    assert s3.sent_bytes() <= 1.2 * size
    assert ratio <= 2


def test_what_covers_all_runs(s3: S3, store: Store) -> None:
    environment = {**os.environ, **s3.environment}
    for arguments in (("results", "list"), ("history", "quickstart")):
        wait_for_records(s3)
        s3.requests.clear()
        there = statistics.median(seconds(*arguments, "--store", URL, environment=environment) for _ in range(3))
        here = statistics.median(
            seconds(*arguments, "--store", str(store.path), environment=environment) for _ in range(3)
        )
        wait_for_records(s3)
        assert len(s3.requests) // 3 <= 3 * len(store.runs())
        print(f"{' '.join(arguments)}: {there:.2f} s, {len(s3.requests) // 3} requests; in a folder {here:.2f} s")


@pytest.fixture(scope="module")
def many(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A folder with a real run of the lab, with its raw files, under many ids.

    It is in memory: jobs are killed here, not machines, so nothing need wait for a disk.
    """
    first = tmp_path_factory.mktemp("scenario") / "small.yaml"
    first.write_text(f'name: small\ntitle: Small\nfactors: {{work: ["loop:1000", "loop:20000"]}}\nblocks: 1\n{STACKS}')
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        made = Store(Path(folder))
        with connect_all(lab.inventory()) as hosts:
            run_id = run_once(made.path, read_experiment(str(first)), hosts)
        for number in range(RUNS - 1):
            copy_run(made, run_id, f"copy{number}")
        yield made


def reparse_all(store: Store, workers: int, *, kill: bool = False) -> tuple[float, str]:
    """Rebuild all tables from nothing; return the wall time and the digest of all tables and checksums.

    With `kill`, a worker is killed once a third of the runs has tables again.
    """
    remove_tables(store)
    program = Path(sys.executable).with_name("benchkit")
    command: list[str | Path] = [
        program,
        "results",
        "reparse",
        "--all",
        "--workers",
        str(workers),
        "--store",
        store.path,
        "--json",
    ]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        if kill:
            while len(list(store.path.glob("tables/trials/*/*/*.parquet"))) < RUNS // 3:
                time.sleep(0.05)
            children = psutil.Process(process.pid).children()
            worker = next(each for each in children if "spawn_main" in " ".join(each.cmdline()))
            worker.kill()
        out, _ = process.communicate()
    took_s = time.perf_counter() - began
    assert process.returncode == 0
    assert all(run["trials"] and run["problem"] is None for run in json.loads(out)["runs"])
    return took_s, digest(store)


def test_reparse_of_all_runs_is_equal_on_any_number_of_workers(many: Store) -> None:
    digests = set()
    trials = len(many.runs()[0].complete_trials())
    print(f"\nreparse --all of {RUNS} runs of {trials} trials:")
    for workers, kill in ((1, False), (2, False), (4, False), (4, True)):
        took_s, found = reparse_all(many, workers, kill=kill)
        print(f"{workers} workers{', one killed' if kill else ''}: {took_s:.1f} s")
        digests.add(found)
        assert len(digests) == 1


@pytest.fixture(scope="module")
def large() -> Iterator[Store]:
    """The store that BENCHKIT_LARGE_STORE names, else one that is made here and removed."""
    if named := os.environ.get("BENCHKIT_LARGE_STORE"):
        yield Store(Path(named))
        return
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are kept for a while, and this one is large
        free = shutil.disk_usage(folder).free
        if free < 1.5e9 * LARGE_GB:
            pytest.skip(f"{folder} has {free / 1e9:.0f} GB free: BENCHKIT_LARGE_GB={free / 3e9:.0f} fits")
        began = time.perf_counter()
        runs = max(1, round(RUNS_PER_GB * LARGE_GB))
        made = make_large_store(Path(folder), runs, LARGE_GB * 1e9, processes=os.cpu_count() or 1)
        print(f"\n{runs} runs, {large_bytes(made) / 1e9:.2f} GB, made in {time.perf_counter() - began:.0f} s")
        yield made


BY_DASK = f"""\
import sys, threading
import distributed, psutil
from benchkit import load

if __name__ == "__main__":
    with distributed.LocalCluster(
        n_workers={WORKERS}, threads_per_worker=1, memory_limit={WORKER_MEMORY:.0f}, dashboard_address=None
    ) as cluster:
        with distributed.Client(cluster) as client:
            peak = 0
            pids = client.run(__import__("os").getpid).values()
            ended = threading.Event()

            def watch():
                global peak
                while not ended.wait(0.05):
                    peak = max(peak, *(psutil.Process(pid).memory_info().rss for pid in pids))

            thread = threading.Thread(target=watch)
            thread.start()
            buckets = load("latency", store=sys.argv[1], engine="dask")
            raw = buckets[buckets["series"] == "raw"]
            counts = raw.groupby("high_s")["count"].sum(split_out=1).compute().sort_index()
            ended.set()
            thread.join()
            assert set(pids) == set(client.run(__import__("os").getpid).values()), "a worker was restarted"
    reached = counts.cumsum()
    print(reached.index[reached >= 0.99 * reached.iloc[-1]][0], int(reached.iloc[-1]), peak)
"""
BY_DUCKDB = """\
import resource, sys
from benchkit import load

buckets = load("latency", store=sys.argv[1], engine="duckdb")
counts = buckets.filter("series = 'raw'").aggregate("high_s, sum(count) AS count", "high_s").df()
counts = counts.set_index("high_s")["count"].sort_index()
reached = counts.cumsum()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(reached.index[reached >= 0.99 * reached.iloc[-1]][0], int(reached.iloc[-1]), peak)
"""


def test_p99_over_all_runs_within_1_gb_a_worker(large: Store, tmp_path: Path) -> None:
    files = [*large.table("latency").rglob("*.parquet")]
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    print(
        f"\np99 over {len(large.parts('latency'))} runs: {rows / 1e6:.1f} million rows of `latency`, "
        f"{sum(file.stat().st_size for file in files) / 1e9:.2f} GB\n"
    )
    print(table(("engine", "p99", "requests", "time", "memory of the largest process"), ()))
    found = {}
    for name, text in ((f"Dask, {WORKERS} workers", BY_DASK), ("DuckDB", BY_DUCKDB)):
        program = tmp_path / f"{name[:3]}.py"
        program.write_text(text)
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, program, large.path],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            timeout=LARGE_TIMEOUT_S,
        )
        p99, requests, peak = done.stdout.split()
        found[name] = p99, requests
        took = f"{time.perf_counter() - began:.1f} s"
        print(f"| {name} | {float(p99) * 1e3:.3f} ms | {requests} | {took} | {int(peak) / 1e6:.0f} MB |")
        if "Dask" in name:
            assert int(peak) <= WORKER_MEMORY
    assert len(set(found.values())) == 1
