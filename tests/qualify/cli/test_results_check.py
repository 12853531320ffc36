"""`benchkit results check`: what is damaged, with its file, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchkit.store.store import Store
from benchkit.store.verification import write_checksums
from tests.support.cli.fixtures import Cli
from tests.unit.store.test_store import stored


def test_damage_is_named_and_reparse_builds_the_tables(cli: Cli, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for run_id in ("r1", "r2"):
        run = stored(store, run_id, "small", [{"stack": "go"}])
        write_checksums(store, run)
    options = ("--store", str(store.path))
    intact = cli("results", "check", *options)
    assert (intact.code, intact.out.count("intact")) == (0, 2)
    file = store.table_folder("trials", "small", "r1") / "trials.parquet"
    file.write_bytes(file.read_bytes()[:50])
    name = str(file.relative_to(store.path))
    failed = cli("results", "trials", "r1", *options)
    assert failed.code == 2
    assert name in failed.err
    assert "`benchkit results reparse RUN`" in failed.err
    assert "Traceback" not in failed.err
    damaged = cli("results", "check", "--json", *options)
    assert damaged.code == 1
    assert {run["run_id"]: list(run["damages"]) for run in json.loads(damaged.out)} == {
        "r1": [name],
        "r2": [],
    }
    assert f"  {name}: differs from its checksum" in cli("results", "check", *options).out
    assert cli("results", "reparse", "r1", *options).code == 0
    assert cli("results", "check", *options).code == 0
    assert cli("results", "trials", "r1", *options).code == 0


@pytest.mark.parametrize("command", [("report", "r1"), ("results", "export", "r1")])
def test_an_output_creates_no_folder_above_its_own(cli: Cli, tmp_path: Path, command: tuple[str, ...]) -> None:
    stored(Store(tmp_path / "store"), "r1", "small", [{"stack": "go"}])
    missing = tmp_path / "typo"
    refused = cli(*command, "-o", missing / "out", "--store", str(tmp_path / "store"))
    assert (refused.code, f"there is no folder {missing}" in refused.err) == (2, True)
    assert not missing.exists()
