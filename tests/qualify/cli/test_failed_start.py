"""A server that ends at its start: the message, the stored log and the list of failed trials; on the lab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.agent.files import FileStore
from benchkit.hosts.connections import connect_all
from benchkit.hosts.files import PlacedFile
from benchkit.lab.lab import Lab
from tests.support.builders import stacks, write_scenario
from tests.support.cli.fixtures import Cli

LINES = 30
PROGRAM = f"""\
#!/bin/sh
if [ "$1" = --version ]; then echo v20.0.0; exit; fi
number=0
while [ $number -lt {LINES} ]; do number=$((number + 1)); echo "line $number of the failing server"; done
exit 3
"""


@pytest.fixture
def failing_node(lab: Lab) -> Iterator[str]:
    """Path on `sut` of a `node` that prints lines and ends."""
    with connect_all(lab.inventory()) as hosts:
        path = hosts["sut"].workdir / "failing" / "node"
        hosts["sut"].files.place([PlacedFile(path, PROGRAM.encode(), 0o755)])
    yield str(path)
    with connect_all(lab.inventory()) as hosts:
        hosts["sut"].call(FileStore.remove, path.parent)


def test_a_server_that_ends_at_its_start_leaves_its_whole_log_in_the_run(
    cli: Cli, inventory: Callable[..., Path], tmp_path: Path, failing_node: str
) -> None:
    scenario = write_scenario(
        tmp_path,
        stacks=stacks(go={}, node={"backend": "node", "listen": 8081}),
        factors={"stack": ["go", "node"]},
        blocks=1,
    )
    hosts = inventory(sut={"programs": {"node": failing_node}})
    result = cli("run", scenario, "-i", hosts, "--json")
    assert result.code == 1
    ((trial_id, why),) = result.document()["failures"].items()
    assert "app (node) did not start" in why
    assert f"the last 20 of {LINES} lines of its log:" in why
    assert f"line {LINES} of the failing server" in why
    assert f"line {LINES - 20} of the failing server" not in why
    run = result.document()["run_id"]
    stored = tmp_path / "store" / "runs" / run / "raw" / trial_id / "app.sut.log"
    assert str(stored.parent) in why
    assert stored.name in why
    assert stored.read_text().count("of the failing server\n") == LINES

    trials = cli("results", "trials", run, "--json").document()
    assert [each["status"] for each in trials] == ["ended", "failed"]
    assert (trials[1]["trial_id"], trials[1]["cell_id"], trials[1]["rps"]) == (trial_id, "stack=node", None)
    assert (trials[1]["why"], trials[1]["files"]) == (why, ["app.sut.log"])
    shown = cli("results", "trials", run).out
    assert "- failed (stack=node, block 1): sut: app (node) did not start" in shown
    assert str(stored.parent) in shown
    assert cli("results", "reparse", run).code == 0
