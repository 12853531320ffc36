"""`benchkit capacity` from the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from benchkit.document import read_document
from tests.support.cli.fixtures import CommandResult
from tests.support.paths import TESTS

Cli = Callable[..., CommandResult]
SERVER = TESTS / "support/servers/plain.js"


def test_the_capacity_is_told_with_what_is_known_of_it(cli: Cli, tmp_path: Path) -> None:
    saved = tmp_path / "mine.yaml"
    done = cli(
        "capacity", f"node {SERVER} {{port}} 100000", "--p99", "500ms", "--connections", 8, "--duration", 24,
        "--probe", 1, "--precision", 0.3, "--save", saved, "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    document = done.document()
    (capacity,) = document["capacities"]
    assert capacity["objective"] == "p99 latency within 500 ms"
    rate = capacity["rps"] or capacity["at_least"]  # a busy machine may leave it without an upper end
    assert rate > 0
    probes = re.findall(r"probe [0-9]+ at [0-9,.]+ requests/s (held|failed|cannot be used|was limited)", done.err)
    assert "held" in probes
    assert dict(read_document(saved).data)["load"]["capacity"]["slo"] == {"p99_s": 0.5, "error_share": 0.001}
