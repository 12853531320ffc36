"""Input that nobody should give: each command refuses it with a message, soon, and without a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from typer import Typer
from typer.models import OptionInfo

from benchkit.cli.commands import COMMANDS
from benchkit.cli.options import finite
from benchkit.store.store import Store
from benchkit.store.verification import write_checksums
from tests.support.builders import write_scenario
from tests.support.cli.fixtures import Cli
from tests.unit.store.test_store import stored

DEEP = "[" * 100_000 + "]" * 100_000
HUGE = "0x" + "f" * 6000
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
        f"{RUN}/checksums.sha256",
        f"{RUN}/.lock",
        f"{RUN}/raw/r1.b01.p01/trial.json",
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
        ("report",),
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
        (lambda document: document["cells"][0].update(cell_id="stack=other"), "lacks the cell stack=go"),
        (lambda document: document.update(cells=[None]), "cells.0"),
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
    assert cli("report").code == 0


def test_a_deeply_nested_line_of_a_journal_is_damage(cli: Cli, store: Path) -> None:
    with (store / RUN / "journal.jsonl").open("a") as journal:
        journal.write(f'{{"event": "other", "value": {DEEP}}}\n')
    refused = cli("results", "trials", "r1")
    assert (refused.code, "journal.jsonl:" in refused.err) == (2, True)
    assert cli("results", "check").code == 1


@pytest.mark.parametrize("arguments", [("results", "import", "wrk", "--scenario", "x"), ("parse", "wrk")])
def test_a_device_that_never_ends_is_refused(cli: Cli, arguments: tuple[str, ...]) -> None:
    refused = cli(*arguments, "/dev/zero")
    assert (refused.code, "/dev/zero: cannot read the file: it is a device" in refused.err) == (2, True)


@pytest.mark.parametrize("since", ["99999999999999d", "9" * 5000 + "w"])
def test_an_age_before_the_first_year_selects_all_runs(cli: Cli, store: Path, since: str) -> None:
    assert store.exists()
    assert cli("history", "small", "--since", since).code == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"blocks": HUGE},
        {"title": HUGE},
        {"factors": f"{{stack: [one], port: [1, {HUGE}]}}"},
        {"blocks": "9" * 6000},
    ],
)
def test_an_integer_that_python_cannot_print_is_refused(cli: Cli, tmp_path: Path, fields: dict[str, str]) -> None:
    path = write_scenario(tmp_path)
    lines = [line for line in path.read_text().splitlines() if line.partition(":")[0] not in fields]
    path.write_text("\n".join([*lines, *(f"{name}: {value}" for name, value in fields.items())]))
    refused = cli("validate", path)
    assert (refused.code, "the integer has more than 64 bits" in refused.err) == (2, True)


def test_a_factor_of_twenty_thousand_levels_is_counted_before_it_is_examined(cli: Cli, tmp_path: Path) -> None:
    path = write_scenario(tmp_path, factors={"port": [*range(20_000), 0]})
    refused = cli("validate", path)
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "these are 20,001 cells" in refused.err


def number_options() -> Iterator[tuple[str, OptionInfo]]:
    """Yield the options of all commands that take a decimal number without a unit, by function and parameter."""
    for home in (each.target for each in COMMANDS.values()):
        module, _, name = home.partition(":")
        command = getattr(import_module(module), name)
        functions = [each.callback for each in command.registered_commands] if isinstance(command, Typer) else [command]
        for function in functions:
            for parameter, hint in get_type_hints(function, include_extras=True).items():
                if get_origin(hint) is Annotated and float in {get_args(hint)[0], *get_args(get_args(hint)[0])}:
                    option = get_args(hint)[1]
                    if option.parser is None:
                        yield f"{home} {parameter}", option


def test_every_option_that_takes_a_decimal_number_refuses_inf_and_nan(cli: Cli) -> None:
    options = dict(number_options())
    assert "benchkit.cli.versus:versus duration" in options
    assert [name for name, option in options.items() if option.max is None or option.callback is not finite] == []
    for value in ("inf", "nan"):
        refused = cli("versus", "a", "b", "--duration", value)
        assert (refused.code, "'--duration'" in refused.err) == (2, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_below_stdout_is_one_line(program: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*program, "fields", "nginx"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (1, "benchkit: cannot write stdout: No space left on device\n")
