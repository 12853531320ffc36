"""Input that nobody should give: each command refuses it with a message, soon, and without a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchkit.store.store import Store
from benchkit.store.verification import write_checksums
from tests.support.cli.fixtures import Cli
from tests.unit.store.test_store import stored

RUN, TABLE = "runs/r1", "tables/trials/scenario=small/run_id=r1"


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a store with two runs; tests damage copies."""
    path = tmp_path_factory.mktemp("intact")
    for run_id in ("r1", "r2"):
        run = stored(Store(path), run_id, "small", [{"stack": "go"}, {"stack": "nginx"}])
        write_checksums(Store(path), run)
    return path


@pytest.fixture
def store(intact: Path, environment: dict[str, str]) -> Path:
    """A copy of the intact store, as the store of the commands."""
    return Path(shutil.copytree(intact, environment["BENCHKIT_STORE"]))


@pytest.mark.parametrize(
    "place",
    [
        f"{RUN}/manifest.json",
        f"{RUN}/journal.jsonl",
        f"{RUN}/raw/r1.b01.p01/wrk.txt",
        f"{TABLE}/trials.parquet",
    ],
)
def test_a_fifo_in_a_store_blocks_no_command(cli: Cli, store: Path, place: str) -> None:
    (store / place).unlink(missing_ok=True)
    os.mkfifo(store / place)
    for arguments in (
        ("results", "list"),
        ("compare", "r1"),
        ("report", "r1"),
        ("results", "check"),
    ):
        assert cli(*arguments).code in (0, 1, 2)
    assert cli("results", "trials", "r2").code == 0


def change_manifest(store: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = store / RUN / "manifest.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update(started_at="2026-01-01T00:00:00"), "started_at"),
        (lambda document: document.update(cells=[]), "lacks the cell stack=go"),
    ],
)
def test_a_manifest_that_does_not_fit_is_named(
    cli: Cli, store: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    change_manifest(store, change)
    for command in ("compare", "report"):
        refused = cli(command, "r1")
        assert (refused.code, message in refused.err) == (2, True)
        assert f"{RUN}/manifest.json" in refused.err
    checked = cli("results", "check")
    assert (checked.code, f"{RUN}/manifest.json: " in checked.out) == (1, True)
    assert cli("history", "small").code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_too_little_address_space_is_one_line(program: list[str]) -> None:
    limited = ["prlimit", f"--as={300 << 20}", "--", *program, "report", "latest"]
    done = subprocess.run(limited, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "out of memory: it may use 300 MiB of address space, and needs 1,024" in done.stderr


def test_a_full_disk_below_stdout_is_one_line(program: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*program, "fields", "nginx"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "benchkit: cannot write stdout: No space left on device\n")
