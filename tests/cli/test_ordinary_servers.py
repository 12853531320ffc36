"""Load tools against servers as users have them: each server gets a rate, whatever it does with its connections."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import benchkit
from benchkit.lab.lab import Lab
from benchkit.results.store import Store
from tests.cli.conftest import CommandResult

Cli = Callable[..., CommandResult]
SERVERS = Path(__file__).parent / "servers"


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


@pytest.mark.lab
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
    assert of_check["overran"].tolist() == ["suspect"]
    assert of_check["missing-connections"].tolist() == ["invalid"], "two of eight connections were served"


@pytest.mark.lab
def test_a_server_that_works_without_load_is_compared_one_at_a_time(
    cli: Cli, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SERVERS)
    servers = ("node plain.js {port} 10000", "node restless.js {port} 10000")
    done = cli("versus", *servers, "--connections", 2, "--duration", 50, "--json")
    assert done.code == 0, done.err
    assert "one server runs at a time" in done.err
    assert "begins again" in done.err
    document = done.document()
    run = Store(Path(environment["BENCHKIT_STORE"])).run(document["run_id"])
    assert run.manifest().scenario["design"] == "blocks"
    assert len(list(run.records())) > 2, "it went on after its first block"
