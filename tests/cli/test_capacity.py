"""`benchkit capacity` from the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from benchkit.cli.capacity import latency_limit
from benchkit.document import read_document
from tests.cli.conftest import CommandResult

Cli = Callable[..., CommandResult]
SERVER = Path(__file__).parent / "servers" / "plain.js"


@pytest.mark.lab
def test_the_capacity_is_told_with_what_is_known_of_it(cli: Cli, tmp_path: Path) -> None:
    saved = tmp_path / "mine.yaml"
    done = cli(
        "capacity", f"node {SERVER} {{port}} 100000", "--p99", "100ms", "--connections", 8, "--duration", 12,
        "--probe", 1, "--precision", 0.3, "--save", saved, "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    (capacity,) = done.document()["capacities"]
    assert capacity["objective"] == "p99 latency within 100 ms"
    assert (capacity["rps"] or capacity["at_least"]) > 0, "a busy machine may leave it without an upper end"
    probes = re.findall(r"probe [0-9]+ at [0-9,.]+ requests/s (held|failed|cannot be used|was limited)", done.err)
    assert "held" in probes
    assert dict(read_document(saved).data)["load"]["capacity"]["slo"] == {"p99_s": 0.1, "error_share": 0.001}


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
