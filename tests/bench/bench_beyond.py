"""Bytes that a comparison reads from an S3 store of many runs, and its time against that of a folder."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from benchkit.results.remote_files import RemoteFiles
from benchkit.results.store import Store
from benchkit.results.transfer import push
from tests.s3 import BUCKET, S3, s3_server

RECORDED = Path(__file__).parents[2] / "notebooks" / "recorded"
COPIES = 15
"""Copies of each of the recorded runs."""
TIMES = 7

URL = f"s3://{BUCKET}/team"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A folder with real runs, each many times under other ids."""
    made = Store(tmp_path_factory.mktemp("store"))
    recorded = Store(RECORDED)
    for run in recorded.runs():
        manifest = run.manifest()
        for number in range(COPIES):
            run_id = f"{run.run_id}-{number}"
            copy = made.create(manifest.model_copy(update={"run_id": run_id}))
            shutil.copyfile(run.journal_file, copy.journal_file)
            for table in (recorded.path / "tables").iterdir():
                for folder in recorded.table_folders(table.name, run.run_id):
                    target = made.table_folder(table.name, str(manifest.scenario["name"]), run_id)
                    shutil.copytree(folder, target)
    return made


@pytest.fixture(scope="module")
def s3(store: Store) -> Iterator[S3]:
    """An S3 server to which all runs are published."""
    with s3_server() as served, pytest.MonkeyPatch.context() as patch:
        for name, value in served.environment.items():
            patch.setenv(name, value)
        for run in store.runs():
            push(store, run, RemoteFiles(URL))
        yield served


def seconds(*arguments: str, environment: Mapping[str, str]) -> float:
    """Return the wall time of a command, a process of its own."""
    began = time.perf_counter()
    program = Path(sys.executable).with_name("benchkit")
    subprocess.run([program, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def test_a_comparison_reads_its_run_alone_and_takes_at_most_twice_as_long(s3: S3, store: Store) -> None:
    run_id = next(run.run_id for run in store.runs() if "nginx-vs-go" in str(run.manifest().scenario["name"]))
    environment = {**os.environ, **s3.environment}
    there, here = [], []
    for _ in range(TIMES):
        s3.requests.clear()
        there.append(seconds("compare", run_id, "--store", URL, environment=environment))
        here.append(seconds("compare", run_id, "--store", str(store.path), environment=environment))
    paths = {path.removeprefix(f"/{BUCKET}/team/") for _, path, _ in s3.requests}
    assert all(store.is_path_of_run(path, run_id) for path in paths)
    checksums = next(path for path in paths if path.endswith(".sha256"))  # which these runs have there alone
    size = sum((store.path / path).stat().st_size for path in paths - {checksums})
    size += next(sent for _, path, sent in s3.requests if path.endswith(checksums))
    whole = sum(
        path.stat().st_size
        for path in store.path.rglob("*")
        if path.is_file() and store.is_path_of_run(path.relative_to(store.path).as_posix(), run_id)
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
        s3.requests.clear()
        there = statistics.median(seconds(*arguments, "--store", URL, environment=environment) for _ in range(3))
        here = statistics.median(
            seconds(*arguments, "--store", str(store.path), environment=environment) for _ in range(3)
        )
        assert len(s3.requests) // 3 <= 3 * len(store.runs())
        print(f"{' '.join(arguments)}: {there:.2f} s, {len(s3.requests) // 3} requests; in a folder {here:.2f} s")
