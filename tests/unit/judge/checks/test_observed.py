"""Tests of the check observed."""

from __future__ import annotations

from benchkit.judge.check import ALL
from tests.support.judge.builders import build_trial, finding_of


def test_profile_trial_is_invalid() -> None:
    assert finding_of("observed", build_trial()) is None
    finding = finding_of("observed", build_trial(kind="profile"))
    assert finding is not None
    assert (finding.severity, finding.metrics) == ("invalid", ALL)
