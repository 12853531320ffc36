"""The real command line, run as users run it: in a process of its own, or for unit tests in this one."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from benchkit.lab.lab import Lab
from tests.support.commands import command


@dataclass(frozen=True)
class CommandResult:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    def document(self) -> Any:  # noqa: ANN401 - any JSON value
        """Return the output, which is one JSON document and nothing else."""
        return json.loads(self.out)


Cli = Callable[..., CommandResult]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Environment with a store of its own and no lab."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BENCHKIT_")}
    return kept | {"BENCHKIT_STORE": str(tmp_path / "store"), "BENCHKIT_LAB": f"none-{os.getpid()}", "COLUMNS": "120"}


@pytest.fixture
def program() -> list[str]:
    """The installed program."""
    return [str(Path(sys.executable).parent / "benchkit")]


@pytest.fixture
def cli(environment: dict[str, str]) -> Cli:
    """Run `benchkit` with these arguments, without a terminal."""

    def run(
        *arguments: str | Path, stdin: str = "", constants: Mapping[str, object] = MappingProxyType({})
    ) -> CommandResult:
        done = command(*map(str, arguments), environment=environment, stdin=stdin, constants=constants)
        assert "Traceback" not in done.err, done.err
        assert done.code is not None
        return CommandResult(done.code, done.out, done.err)

    return run


@pytest.fixture(name="cli")
def cli_in_this_process(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Cli:
    """Run `benchkit` with these arguments in this process, as far as its streams: texts are printed as they are."""
    environment["BENCHKIT_LAB"] = "none"
    for name in os.environ.keys() - environment.keys():
        monkeypatch.delenv(name)

    def run(*arguments: str | Path, stdin: str = "") -> CommandResult:
        from benchkit.cli.app import run_command  # noqa: PLC0415 - for tests of the command line alone

        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        code = run_command([*map(str, arguments)])
        return CommandResult(code, *capsys.readouterr())

    return run


def transcript(cli: Cli, *commands: tuple[str | Path, ...]) -> str:
    """Return commands with what they print and their exit codes, as a terminal shows them."""
    parts = []
    for arguments in commands:
        done = cli(*arguments)
        parts.append(f"$ {shlex.join(('benchkit', *map(str, arguments)))}\n{done.out}{done.err}exit code {done.code}\n")
    return "\n".join(parts)


def write_inventory(lab: Lab, folder: Path, **changes: dict[str, object]) -> Path:
    """Write a lab as an inventory file; keyword arguments change fields of a host."""
    hosts = {}
    for spec in lab.inventory().hosts:
        fields = spec.model_dump(mode="json", exclude={"name"}, exclude_none=True) | changes.get(spec.name, {})
        hosts[spec.name] = {key: value for key, value in fields.items() if value is not None}
    path = folder / "inventory.yaml"
    path.write_text(json.dumps({"hosts": hosts}))  # JSON is YAML
    return path


@pytest.fixture
def inventory(lab: Lab, tmp_path: Path) -> Callable[..., Path]:
    """Write the session's lab as an inventory file; keyword arguments change fields of a host."""
    return partial(write_inventory, lab, tmp_path)
