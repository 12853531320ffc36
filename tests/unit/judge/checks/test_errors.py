"""Tests of the check errors."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from benchkit.models.load_result import LoadResult
from tests.support.judge.builders import build_generator, build_load, build_trial, finding_of


@pytest.mark.parametrize(
    ("failed", "severity"),
    [({}, None), ({"non_2xx": 1}, "suspect"), ({"errors_timeout": 100}, "suspect"), ({"non_2xx": 101}, "invalid")],
)
def test_severity_follows_the_share_of_failures(failed: dict[str, int], severity: str | None) -> None:
    found = finding_of("errors", build_trial(row=failed))
    assert (found.severity if found else None) == severity
    assert found is None or found.metrics == ALL


SILENT = dict.fromkeys(("errors_connect", "errors_read", "errors_write", "errors_timeout", "non_2xx"))


def test_tool_without_kinds_of_failures() -> None:
    """Exclude failures of ab that differ only in length."""
    siege = build_generator(result=LoadResult(tool="siege", failed=200))
    found = finding_of("errors", build_trial(row=SILENT, generators=(siege,)))
    assert found is not None
    assert found.severity == "invalid"
    varying = build_generator(result=LoadResult(tool="ab", failed=200, failed_length=200))
    assert finding_of("errors", build_trial(row=SILENT, generators=(varying,))) is None


NOT_FOUND = build_load(requests=[{"path": "/a"}, {"path": "/b", "expect": {"status": 404}}])


@pytest.mark.parametrize(
    ("status", "unexpected"),
    [
        ({"200": 50_000, "404": 50_000}, None),
        ({"200": 50_000, "404": 49_000, "500": 1000}, "1,000 answers with a status"),
    ],
)
def test_expected_error_statuses_are_no_failures(status: dict[str, int], unexpected: str | None) -> None:
    generator = build_generator(result=LoadResult(tool="vegeta", status=status))
    found = finding_of("errors", build_trial(row={"non_2xx": 50_000}, load=NOT_FOUND, generators=(generator,)))
    assert (found is None) == (unexpected is None)
    assert found is None or (found.severity, found.seen.startswith(str(unexpected))) == ("invalid", True)
