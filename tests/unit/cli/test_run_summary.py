"""The summary at the end of a run: the answer first, in the sentences of `compare`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.cli.compare import compare
from benchkit.cli.results import trials
from benchkit.cli.run_summary import print_run_summary, say_not_restored
from benchkit.run.recorder import RunOutcome
from tests.support.report.fixtures import keep, synthetic_run
from tests.support.snapshots import Snapshot


def test_a_run_ends_with_the_answer_that_compare_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], snapshot: Snapshot
) -> None:
    store = keep(synthetic_run(), tmp_path)
    outcome = RunOutcome(run=store.run("latest"), status="done")
    print_run_summary(outcome, store, quiet=False, json=False, lab=None)
    summary = capsys.readouterr().out
    answer, why, trust, *_ = summary.splitlines()
    compare("latest", store=str(tmp_path))
    compared = capsys.readouterr().out
    trials("latest", store=str(tmp_path))
    snapshot(f"{summary}\n{compared}\n{capsys.readouterr().out}")
    assert f"{answer}\n{why}\n{trust}\n" in compared


def test_hosts_that_are_not_restored_are_named_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = keep(synthetic_run(), tmp_path).run("latest")
    say_not_restored(
        RunOutcome(run, not_restored={"sut": "sut: a.b is '2'"}, restore_unconfirmed={"load": "load: lost"})
    )
    assert capsys.readouterr().err.splitlines() == [
        "benchkit: not restored: sut: a.b is '2'",
        "  → the record is kept on the host; run `benchkit hosts restore`",
        "benchkit: restore not confirmed: load: lost",
        "  → its watchdog restores the host; `benchkit hosts check` shows the result",
    ]
