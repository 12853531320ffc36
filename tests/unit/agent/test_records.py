"""Records of changes, in order also where the host's clock is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.agent.records import REPORTS, Records
from benchkit.agent.workdir import Workdir

TOMORROW = "29999999999999999999"
"""Age mark in the name of a record, written while the host's clock was far ahead."""


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(Workdir(str(tmp_path / "work")))


def test_what_was_changed_last_is_put_back_first_though_the_clock_was_set_back(records: Records) -> None:
    first = records.note("folder", {"path": "trials/first"})
    first = first.rename(first.with_name(f"{TOMORROW}-1-1.json"))
    second, third = (records.note("folder", {"path": f"trials/{name}"}) for name in ("second", "third"))
    assert [path for path, _ in records.all()] == [third, second, first]


def test_the_newest_reports_are_kept_though_the_clock_was_set_back(records: Records) -> None:
    records.report({"reason": "tomorrow"})
    (report,) = (records.note("folder", {"path": "x"}).parent).glob("report-*")
    report.rename(report.with_name(f"report-{TOMORROW}-1.json"))
    for number in range(REPORTS):
        records.report({"reason": str(number)})
    assert [each["reason"] for each in records.reports()] == [str(number) for number in range(REPORTS)]
