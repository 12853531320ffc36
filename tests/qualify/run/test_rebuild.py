"""Tables of many runs rebuilt by worker processes: the same bytes as one process writes."""

from __future__ import annotations

import shutil
import signal
from datetime import UTC, datetime

import psutil
import pytest

from benchkit.plugins.foreign.imported import OutputFile, import_run, read_cell
from benchkit.report.pages.report_files import write_run_report
from benchkit.run.rebuild import rebuild_run
from benchkit.store.run_jobs import RunResult, Workers, run_on_runs
from benchkit.store.store import Store
from tests.support.many_runs import copy_run, digest, remove_tables
from tests.support.paths import TESTS

OUTPUTS = TESTS / "fixtures" / "load"
RUNS = 30


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Runs with real outputs of wrk as raw files."""
    made = Store(tmp_path_factory.mktemp("store"))
    at = datetime(2026, 1, 31, tzinfo=UTC)
    content = (OUTPUTS / "wrk" / "v410-latency-version.txt").read_bytes()
    files = [OutputFile(f"{number}.txt", content, at) for number in range(2)]
    cell = read_cell("wrk", files, {"server": "go"}, {"connections": 8})
    first = import_run(made, "elsewhere", [cell], {}, interleaved=True)
    for number in range(RUNS - 1):
        copy_run(made, first.run.run_id, f"copy{number}")
    return made


def rebuild(store: Store, workers: int, *, kill: bool = False) -> list[RunResult[int]]:
    """Remove all tables, and rebuild them; with `kill`, a worker is killed after the first run."""
    remove_tables(store)
    killed: list[psutil.Process] = []

    def advance() -> None:
        if kill and not killed:
            children = psutil.Process().children()
            killed.append(next(each for each in children if "spawn_main" in " ".join(each.cmdline())))
            killed[0].send_signal(signal.SIGKILL)

    run_ids = [run.run_id for run in store.runs()]
    results = run_on_runs(rebuild_run, store, run_ids, Workers(workers), notify=lambda _: None, advance=advance)
    assert [result.run_id for result in results] == run_ids
    assert bool(killed) == kill
    return results


def test_one_process_and_workers_write_the_same_bytes_also_where_one_is_killed(store: Store) -> None:
    results = rebuild(store, 1)
    by_one_process = digest(store)
    assert {(result.value, result.problem) for result in results} == {(2, None)}
    assert rebuild(store, 2, kill=True) == results
    assert digest(store) == by_one_process


def test_a_run_in_use_and_a_damaged_one_stay_as_they_were(store: Store) -> None:
    rebuild(store, 1)
    in_use, damaged = store.runs()[:2]
    (raw,) = list((damaged.path / "raw").glob("*/*.txt"))[:1]
    content = raw.read_bytes()
    raw.write_bytes(b"damaged")
    before = digest(store)
    try:
        with in_use.locked():
            ids = [run.run_id for run in store.runs()]
            results = run_on_runs(rebuild_run, store, ids, Workers(1), notify=lambda _: None, advance=lambda: None)
    finally:
        raw.write_bytes(content)
    problems = {result.run_id: result.problem for result in results if result.problem is not None}
    assert problems.keys() == {in_use.run_id, damaged.run_id}
    assert "another benchkit process writes to this run" in str(problems[in_use.run_id])
    assert "differs from its checksum" in str(problems[damaged.run_id])
    assert digest(store) == before


def test_reports_by_workers_have_the_bytes_of_one_process(store: Store) -> None:
    runs = store.runs()[:2]
    written = []
    for workers in (1, 2):
        results = run_on_runs(
            write_run_report,
            store,
            [run.run_id for run in runs],
            Workers(workers),
            notify=lambda _: None,
            advance=lambda: None,
        )
        assert [result.value for result in results] == [str(run.report / "report.html") for run in runs]
        written.append({path: path.read_bytes() for run in runs for path in run.report.rglob("*") if path.is_file()})
        for run in runs:
            shutil.rmtree(run.report)
    assert written[0] == written[1]
