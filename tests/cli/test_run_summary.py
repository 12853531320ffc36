"""The summary at the end of a run: the answer first, in the sentences of `compare`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.cli.compare import compare
from benchkit.cli.run_summary import print_run_summary
from benchkit.run.recorder import RunOutcome
from tests.report.conftest import keep, synthetic_run


def test_a_run_ends_with_the_answer_that_compare_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = keep(synthetic_run(), tmp_path)
    outcome = RunOutcome(run=store.run("latest"), status="done")
    print_run_summary(outcome, store, quiet=False, json=False, lab=None)
    answer, trust, *_ = capsys.readouterr().out.splitlines()
    compare("latest", store=str(tmp_path))
    compared = capsys.readouterr().out
    assert "times the requests" in answer
    assert f"{answer}\n" in compared
    assert f"{trust}\n" in compared
