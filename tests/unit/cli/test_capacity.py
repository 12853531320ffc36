"""`benchkit capacity` from the command line."""

from __future__ import annotations

import pytest
import typer

from benchkit.cli.versus import latency_limit
from tests.support.cli.fixtures import Cli, transcript
from tests.support.snapshots import Snapshot


@pytest.mark.parametrize(("text", "seconds"), [("10ms", 0.01), ("0.5 s", 0.5), ("250us", 0.00025), ("1µs", 1e-6)])
def test_limits_have_units(text: str, seconds: float) -> None:
    assert latency_limit(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["10", "ms", "-1ms", "0ms", "1h", "nan s"])
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="allowed: a number and us, ms or s"):
        latency_limit(text)


def test_mistakes_are_named_before_a_lab_is_started(cli: Cli, snapshot: Snapshot) -> None:
    mistakes = [
        ("./one {port}",),
        ("--p99", "10ms"),
        ("./one {port}", "--p99", "10"),
        ("./one {port}", "--p99", "10ms", "--tool", "wrk"),
    ]
    shown = transcript(cli, *(("capacity", *arguments) for arguments in mistakes))
    assert shown.count("exit code 2") == len(mistakes)
    assert "lab:" not in shown
    snapshot(shown)
