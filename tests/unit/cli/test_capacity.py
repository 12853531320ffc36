"""`benchkit capacity` from the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer

from benchkit.cli.capacity import latency_limit
from tests.support.cli.fixtures import CommandResult

Cli = Callable[..., CommandResult]


@pytest.mark.parametrize(("text", "seconds"), [("10ms", 0.01), ("0.5 s", 0.5), ("250us", 0.00025), ("1µs", 1e-6)])
def test_limits_have_units(text: str, seconds: float) -> None:
    assert latency_limit(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["10", "ms", "-1ms", "0ms", "1h", "nan s"])
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="allowed: a number and us, ms or s"):
        latency_limit(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("./one {port}",), "name a limit, as --p99 10ms"),
        (("--p99", "10ms"), "name the servers"),
        (("./one {port}", "--p99", "10"), "'10' is no time"),
        (("./one {port}", "--p99", "10ms", "--tool", "wrk"), "wrk"),
    ],
)
def test_mistakes_are_named_before_a_lab_is_started(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    done = cli("capacity", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "lab:" not in done.err
