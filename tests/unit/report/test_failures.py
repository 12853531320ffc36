from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchkit.report.sections.section import ReportInput
from benchkit.report.sections.validity import build_failures
from benchkit.report.stored_run import StoredRun
from benchkit.store.journal import BlockInterrupted, JournalEvent, parse_event
from benchkit.store.progress import RunProgress, read_progress
from tests.support.report.reading import cells

MakeRun = Callable[..., StoredRun]


def trial(event: str, name: str, block: int, cell: str, **fields: object) -> JournalEvent:
    place = {"trial_id": name, "cell_id": cell, "block": block, "round": 1, "position": 1}
    return parse_event({"event": f"trial-{event}", **place, "wall_s": 1.0, **fields})


def rows(run: StoredRun, progress: RunProgress) -> list[list[str]]:
    built = build_failures(ReportInput(replace(run, progress=progress), ()))
    return [] if built is None else cells(built.table)


def test_failures_are_listed_by_cell_and_block(make_run: MakeRun) -> None:
    run = make_run()
    first, second = (cell.cell_id for cell in run.manifest.cells)
    events: list[JournalEvent] = []
    for block in (1, 2, 3):
        events += [trial("started", f"a{block}", block, first), trial("ended", f"a{block}", block, first)]
        events += [
            trial("started", f"b{block}", block, second),
            trial("failed", f"b{block}", block, second, why="crash"),
        ]
    events += [
        trial("started", "a4", 4, first),
        trial("failed", "a4", 4, first, why="lost", will_retry=True),
        trial("ended", "a4", 4, first),
        trial("skipped", "b4", 4, second, why="gone"),
        BlockInterrupted(block=1, round=2, trials=("a1",)),
    ]
    found = rows(run, read_progress(events))
    assert [row[1:] for row in found if row[0] == found[-1][0]] == [
        ["1", "failed", "crash"],
        ["2", "failed", "crash"],
        ["3", "failed", "crash"],
        ["4", "skipped", "gone"],
    ]
    assert [row[1:3] for row in found if row[0] != found[-1][0]] == [["1", "interrupted"], ["4", "retried"]]


def test_a_run_without_failures_has_no_section(make_run: MakeRun) -> None:
    run = make_run()
    cell = run.manifest.cells[0].cell_id
    assert rows(run, RunProgress()) == []
    assert rows(run, read_progress([trial("started", "a", 1, cell), trial("ended", "a", 1, cell)])) == []
