"""Large reports are drawn by two processes, and look as if by one."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest

from benchkit.report import ahead
from benchkit.report.figures.registry import FIGURES
from benchkit.report.report_files import write_report
from benchkit.report.run_reader import read_run
from benchkit.report.view import RunView
from benchkit.results.store import Store
from tests.report.conftest import keep, synthetic_run, watched
from tests.report.test_verdicts import judged
from tests.report.test_write import hashes

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A run with verdicts and telemetry."""
    plain = synthetic_run({"stack": ["go", "nginx-go"], "connections": [16, 256]}, blocks=3)
    doubted, telemetry = judged(plain), watched(plain).telemetry
    run = replace(doubted, table=lambda name: telemetry if name == "telemetry" else doubted.table(name))
    return keep(run, tmp_path_factory.mktemp("store"))


@pytest.fixture
def run(store: Store) -> RunView:
    return read_run(store, store.run("latest"))


@pytest.mark.system
@pytest.mark.parametrize("started", ["fork", "spawn"])
def test_two_processes_draw_the_same_as_one(
    store: Store, run: RunView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: str
) -> None:
    monkeypatch.setattr(ahead, "LARGE", 1)
    monkeypatch.setattr(ahead, "STARTED", started)
    with ahead.ahead(store.path, [run.manifest]) as meanwhile:
        (theirs,) = meanwhile.drawn.values()
        write_report(run, tmp_path / "two", drawn=meanwhile.drawings_of)
    drawn = [name for name, _ in theirs.result().drawn]
    assert drawn == list(ahead.APART), "this run has data for all that is drawn apart"
    assert "telemetry" not in vars(run), "the second process has read it"
    write_report(read_run(store, store.run("latest")), tmp_path / "one")
    assert hashes(tmp_path / "two") == hashes(tmp_path / "one")


def test_what_is_drawn_apart_are_figures_that_read_no_raw_files() -> None:
    assert set(ahead.APART) < FIGURES.keys()
    assert not {"flame", "flame-difference"} & set(ahead.APART)


def test_small_runs_need_no_second_process(store: Store, run: RunView) -> None:
    with ahead.ahead(store.path, [run.manifest]) as meanwhile:
        assert meanwhile.drawn == {}


def test_a_second_process_that_is_killed_is_missed_by_nobody(run: RunView) -> None:
    killed: Future[ahead.Theirs] = Future()
    killed.set_exception(BrokenProcessPool())
    drawn = ahead.Ahead({run.manifest.run_id: killed}).drawings_of(run)
    assert [each.figure.name for each in drawn] == [name for name, figure in FIGURES.items() if figure.available(run)]
