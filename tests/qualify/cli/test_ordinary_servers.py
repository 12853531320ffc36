"""Load tools against servers as users have them: each server gets a rate, whatever it does with its connections."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import benchkit
from benchkit.cli.choices import own_lab, split_cpus
from benchkit.cli.server_runs import compare_servers
from benchkit.lab.lab import Lab
from benchkit.loadtools import load_shares
from benchkit.models.request import Request
from benchkit.scenario.versus import ServerComparison, compare_commands
from benchkit.store.store import Store
from tests.support.cli.fixtures import CommandResult
from tests.support.paths import TESTS

Cli = Callable[..., CommandResult]
SERVERS = TESTS / "support/servers"


def write_scenario(path: Path, file: str, load: dict[str, object], **fields: object) -> Path:
    """Write a scenario with two stacks of one Python server."""

    def stack(name: str) -> dict[str, object]:
        run = f"python3 {file} {{port}} {name}"
        app = {"backend": "command", "listen": 8791, "run": run, "files": [str(SERVERS / file)]}
        return {"entry": "app", "services": {"app": app}}

    document = {
        "name": "ordinary",
        "title": "An ordinary server twice",
        "question": "Has it a rate?",
        "factors": {"stack": ["one", "two"]},
        "stacks": {name: stack(name) for name in ("one", "two")},
        "load": load,
        "blocks": 1,
        **fields,
    }
    with path.open("w") as file_:
        YAML().dump(document, file_)
    return path


@pytest.mark.parametrize("design", ["blocks", "sliced"])
def test_a_load_tool_that_does_not_end_is_judged_by_what_it_did_in_its_window(
    cli: Cli, lab: Lab, environment: dict[str, str], tmp_path: Path, design: str
) -> None:
    load = {"tool": "h2load", "connections": 8, "duration_s": 1, "warmup_s": 0.3}
    done = cli(
        "run",
        write_scenario(tmp_path / "short.yaml", "short_queue.py", load, design=design),
        "--lab",
        lab.name,
        "--json",
    )
    assert done.code == 0, done.err
    tables = {
        name: benchkit.load(name, store=environment["BENCHKIT_STORE"]) for name in ("trials", "verdicts", "notes")
    }
    trials = tables["trials"].set_index("trial_id")
    assert len(trials) == 2
    assert (trials["requests"] > 0).all()
    assert trials["rps"].to_list() == pytest.approx((trials["requests"] / 1.0).to_list(), rel=1e-6), (
        "in the window alone"
    )
    assert {"no-summary"} <= set(tables["notes"]["code"])
    of_check = tables["verdicts"].groupby("check")["severity"].unique()
    assert of_check["missing-connections"].tolist() == ["invalid"], "two of eight connections were served"


ORDINARY = {
    "Python http.server, HTTP/1.0": (f"{sys.executable} -m http.server {{port}}", {"wrk", "hey"}),
    "Node net, closes without a word": (f"node {SERVERS}/closing.js {{port}}", {"hey"}),
}
"""Servers by name: their command line, and the load tools that suit them."""


@pytest.fixture(scope="module")
def only_host() -> Iterator[Lab]:
    """A lab as `versus` starts it: its host sees this checkout and its environment, in whatever folder they are."""
    with own_lab("ordinary", is_one_host=True, quiet=True) as lab:
        yield lab


@pytest.mark.parametrize("name", ORDINARY)
def test_each_ordinary_server_has_a_rate_with_the_default_tool(
    only_host: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(load_shares, "LEAST_LEAD_S", 0.3)  # the only answer on a connection comes before the window
    command, tools = ORDINARY[name]
    if shutil.which(command.partition(" ")[0]) is None:
        pytest.skip(f"{command.partition(' ')[0]} is not installed")
    store = Store(tmp_path / "store")
    comparison = ServerComparison(
        (Request(),), "h2load", budget_s=120, precision=0.03, blocks=1, held_share=None,
        search_path=os.environ["PATH"], cpus=split_cpus(), ready_within_s=60,
    )  # fmt: skip
    _, found = compare_servers(
        partial(compare_commands, {"server": command}), comparison, only_host.inventory(), store, quiet=True
    )
    *_, record = store.run("latest").records()
    (generator,) = record.generators
    assert generator.result is not None
    assert generator.result.rps, found
    assert found.tool in tools
