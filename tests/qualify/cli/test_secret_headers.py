"""Secret headers of real runs: every byte that is stored, published, shown or kept by hosts is searched for them."""

from __future__ import annotations

import base64
import json
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest

from benchkit.lab.lab import Lab
from benchkit.loadtools.registry import TOOLS
from tests.qualify.chaos.kit import on_host
from tests.support.builders import load, write_scenario
from tests.support.cli.fixtures import CommandResult
from tests.support.paths import TESTS
from tests.support.store.leaks import leaks, unpacked
from tests.support.waiting import wait_until

Cli = Callable[..., CommandResult]
SERVER = TESTS / "support/servers/echo.py"
CREDENTIALS = "c0f3-planted-5e12-c0f3"
VALUE = f"Bearer {CREDENTIALS}"
IN_ARGUMENTS = {"ab", "bombardier", "h2load", "hey", "oha", "siege"}
"""Tools that take headers as arguments alone."""
HEADER_FILES = {
    "wrk": "benchkit.lua", "openloop": "openloop.requests", "vegeta": "vegeta.targets", "k6": "k6.load.json",
}  # fmt: skip
"""Files from which the others read them."""


def _has_secret(text: str) -> bool:
    """Return whether an input file has the secret; openloop's has whole requests in base64."""
    return CREDENTIALS in text or any(
        CREDENTIALS in base64.b64decode(encoded).decode() for encoded in re.findall(r'"Bytes": "([^"]*)"', text)
    )


@dataclass
class Seen:
    """Observations of running load tools by another process on the machine of the lab."""

    programs: set[str] = field(default_factory=set)
    """Names of programs with the secret on their list of arguments."""
    modes: dict[str, int] = field(default_factory=dict)
    """Modes of the files from which load tools read headers, by name."""

    def look(self) -> None:
        """Look at all processes."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, UnicodeDecodeError):  # also of other labs
                arguments = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if any(CREDENTIALS in argument for argument in arguments):
                    self.programs.add(Path(arguments[0]).name)
                if Path(arguments[0]).name in HEADER_FILES:
                    file = process / "cwd" / HEADER_FILES[Path(arguments[0]).name]
                    if _has_secret(file.read_text()):  # not another lab's
                        self.modes[file.name] = file.stat().st_mode & 0o777


@contextmanager
def watched_processes() -> Iterator[Seen]:
    """Look at processes again and again during the block."""
    seen, ended = Seen(), threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            seen.look()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[..., Path]:
    """Write a scenario of one server, which needs the header, and a factor of load tools."""
    shutil.copy(SERVER, tmp_path)

    def write(headers: dict[str, object], tools: list[str], **fields: object) -> Path:
        service = {"backend": "command", "listen": 8080, "files": ["echo.py"], "run": "python3 echo.py {port}"}
        return write_scenario(
            tmp_path,
            factors={"tool": tools},
            stacks={"one": {"entry": "app", "services": {"app": service}}},
            load=load(tool="$tool", headers=headers, warmup_s=1),
            tools={"siege": {"duration_s": 2}, "ab": {"keepalive": False}},
            **fields,
        )

    return write


def test_no_tool_leaves_a_secret_anywhere(
    cli: Cli, lab: Lab, environment: dict[str, str], scenario: Callable[..., Path], tmp_path: Path
) -> None:
    """Run every tool against a server that logs and echoes the header; publish the run, and report it."""
    tools = [name for name, tool in TOOLS.items() if tool.go_program is not None or shutil.which(tool.binary)]
    path = scenario({"Authorization": {"env": "TOKEN"}}, tools, blocks=1)
    environment["TOKEN"] = VALUE
    with watched_processes() as seen:
        done = cli("-vv", "run", path, "--lab", lab.name, "--json")
    assert done.code == 0, done.err
    run = done.document()["run_id"]
    store, remote, exported = (tmp_path / name for name in ("store", "remote", "exported"))
    trials = pd.concat(map(pd.read_parquet, (store / "tables" / "trials").rglob("*.parquet")))
    assert dict(zip(trials["tool"], trials["non_2xx"].fillna(0), strict=True)) == dict.fromkeys(tools, 0)
    served = dict(zip(trials["tool"], trials["requests"], strict=True))
    assert all(served[tool] > 0 for tool in tools), f"the server refuses requests without the header: {served}"
    assert seen.programs - {"env"} == IN_ARGUMENTS & set(tools), "env becomes siege"
    assert seen.modes == {HEADER_FILES[tool]: 0o600 for tool in tools if tool in HEADER_FILES}
    outputs = [done, cli("results", "push", run, remote.as_uri()), cli("plan", path, "--lab", lab.name, "--json")]
    outputs.append(cli("report", run, "-o", exported))
    assert [each.code for each in outputs] == [0] * len(outputs), outputs
    assert not any(CREDENTIALS in each.out + each.err for each in outputs)
    notes = "\n".join(outputs[2].document()["notices"])
    assert {tool for tool in tools if f"{tool} takes headers only as arguments" in notes} == IN_ARGUMENTS & set(tools)
    logs = [unpacked(path) for path in store.rglob("app.*.log*")]
    assert len(logs) == len(tools)
    assert all(f"authorized by {'*' * len(VALUE)}\n" in log for log in logs)
    assert leaks(CREDENTIALS, store, remote, exported) == []
    for host in lab.hosts:
        kept = f"grep -rl {CREDENTIALS} {host.workdir}; find {host.workdir} -maxdepth 0 -perm /077; true"
        assert on_host(lab, host.name, kept) == ""
    manifest = json.loads((store / "runs" / run / "manifest.json").read_text())
    assert manifest["scenario"]["load"]["headers"] == {"Authorization": {"env": "TOKEN"}}
    private = [each for each in store.rglob("*.json") if each.name in {"manifest.json", "trial.json"}]
    assert {each.stat().st_mode & 0o777 for each in private} == {0o600}


def test_a_resumed_run_reads_a_secret_again(
    cli: Cli, lab: Lab, environment: dict[str, str], scenario: Callable[..., Path], program: list[str]
) -> None:
    environment["TOKEN"] = VALUE
    path = scenario({"Authorization": {"env": "TOKEN"}}, ["openloop"], blocks=3)
    folder = path.parent
    store, printed = folder / "store", folder / "printed.txt"
    with printed.open("wb") as output:
        command = [*program, "run", str(path), "--lab", lab.name]
        run = subprocess.Popen(command, env=environment, stdout=output, stderr=output, umask=0)
        wait_until(lambda: any(store.rglob("trial.json")))
        run.send_signal(signal.SIGINT)
        assert run.wait(120) == 130
    path.unlink()
    assert leaks(CREDENTIALS, folder) == []
    assert not [each for each in store.rglob("*") if each.stat().st_mode & 0o002]
    resume = ("run", "--resume", "latest", "--lab", lab.name)
    del environment["TOKEN"]
    unset = cli(*resume)
    assert (unset.code, "load.headers.Authorization: {env: TOKEN}: this environment" in unset.err) == (2, True)
    environment["TOKEN"] = VALUE
    resumed = cli(*resume)
    assert resumed.code == 0, resumed.err
    assert leaks(CREDENTIALS, folder) == []
