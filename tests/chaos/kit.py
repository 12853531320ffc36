"""What disturbed runs are made and judged with: the command line, hosts as OpenSSH sees them, and what must hold."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import psutil

import benchkit
from benchkit.lab.lab import Lab
from benchkit.lab.processes import marked
from benchkit.models.rows import TABLES
from benchkit.results.progress import Progress, read_progress
from benchkit.results.store import RunFolder

HERE = Path(__file__).parent
SCENARIO = HERE / "scenario.yaml"
CELLS, BLOCKS = 2, 3
SOON_S = 30.0
"""However busy the machine is; `make chaos` holds hosts to the lease and 5 s."""
SNAPSHOT = """
ps -eo args= | grep -v -e '^ps ' -e '^sshd: ' -e 'sh -s' -e '^grep ' -e '^sort' | sort
echo ---; ss -Hlntx | awk '$1 == "tcp" || $1 == "LISTEN" || $5 !~ /\\*/ {print $1, $2, $5}' | sort
echo ---; cat /proc/sys/net/ipv4/* /proc/sys/net/core/* 2>/dev/null
echo ---; find WORKDIR -mindepth 1 ! -path '*/records/report-*' ! -path '*/home/*' ! -path '*/stack/*/proxy*' | sort
echo ---; find /tmp /var/tmp /dev/shm | sort
"""


@dataclass(frozen=True)
class CommandResult:
    """What a command said, and how it ended: its exit code, or less than 0 for a signal."""

    code: int
    out: str
    err: str


class CommandServer:
    """A process that has imported everything, and forks command lines; see `crash.py`."""

    def __init__(self) -> None:
        self._count = 0
        self._running: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "crash.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, bench: Bench, arguments: list[str], crash: str | None) -> Running:
        """Start a command line: arguments, environment, files for what it prints; and what is done to it."""
        self._count += 1
        out, err = (bench.store.parent / f"{bench.store.name}-{self._count}.{name}" for name in ("out", "err"))
        order = {
            "arguments": arguments,
            "environment": bench.environment,
            "out": str(out),
            "err": str(err),
            "constants": bench.constants,
            "point": crash,
            "meanwhile": bench.meanwhile,
            "clock": None if bench.clock is None else str(bench.clock),
        }
        known = frozenset(bench.runs())
        pid = self._ask(order)
        self._running.add(pid)
        return Running(self, bench, pid, out, err, known)

    def status(self, pid: int) -> int:
        """Wait for the end of a command line; its status."""
        self._running.discard(pid)
        return self._ask(pid)

    def end_all(self) -> None:
        """End what a test that failed has left running."""
        for pid in tuple(self._running):
            os.kill(pid, signal.SIGKILL)
            self.status(pid)

    def _ask(self, order: object) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """Have it end."""
        self._process.communicate(timeout=30)


@dataclass(frozen=True)
class Running:
    """A command line that runs."""

    command_server: CommandServer
    bench: Bench
    pid: int
    out: Path
    err: Path
    known: frozenset[Path]

    def journal(self, timeout_s: float = 60) -> Path:
        """The journal of the run that it began, once there is one."""
        deadline = time.monotonic() + timeout_s
        while True:
            for run in self.bench.runs():
                if run not in self.known and (run / "journal.jsonl").exists():
                    return run / "journal.jsonl"
            assert self.is_alive(), self.err.read_text()
            assert time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.02)

    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE

    def kill(self) -> None:
        """End it as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> CommandResult:
        """Wait for its end."""
        code = os.waitstatus_to_exitcode(self.command_server.status(self.pid))
        result = CommandResult(code, self.out.read_text(), self.err.read_text())
        assert "Traceback" not in result.err, result.err
        return result


@dataclass(frozen=True)
class Bench:
    """The command line with a store of its own, on the hosts of a lab."""

    lab: Lab
    store: Path
    inventory: Path
    command_server: CommandServer
    constants: dict[str, object] = field(default_factory=dict)
    """Times and sizes of benchkit's own, `module:NAME`, set to others than the usual."""
    secrets: dict[str, str] = field(default_factory=dict)
    """What is in the environment beside."""
    meanwhile: dict[str, list[list[str]]] = field(default_factory=dict)
    """Commands that are run at a moment of it; see `crash.MOMENTS`."""
    clock: Path | None = None
    """A file that says by how many seconds its wall clock is off."""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BENCHKIT_")}
        return kept | {"BENCHKIT_STORE": str(self.store), "BENCHKIT_LAB": "none", "COLUMNS": "200"} | self.secrets

    def start(self, *arguments: str, crash: str | None = None) -> Running:
        """Start `benchkit run`, which ends itself at the point `crash`."""
        return self.command_server.start(self, ["run", *arguments, "-i", str(self.inventory)], crash)

    def run(self, *arguments: str, crash: str | None = None) -> CommandResult:
        """Run to the end; what it said."""
        return self.start(*arguments, crash=crash).wait()

    def cli(self, *arguments: str) -> CommandResult:
        """Another command."""
        return self.command_server.start(self, list(arguments), None).wait()

    def runs(self) -> list[Path]:
        """The runs of the store."""
        return list((self.store / "runs").glob("*"))

    def folder(self) -> Path:
        """The only run of the store."""
        (folder,) = self.runs()
        return folder

    def events(self) -> list[dict[str, Any]]:
        """Its journal, less a line that was cut."""
        lines = (self.folder() / "journal.jsonl").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def progress(self) -> Progress:
        """How far it is."""
        return read_progress(RunFolder(self.folder()).history())

    def snapshot(self) -> dict[str, str]:
        """Processes, ports, sysctls and files of every host; reports of guardians left out."""
        return {
            host.name: on_host(self.lab, host.name, SNAPSHOT.replace("WORKDIR", host.workdir))
            for host in self.lab.hosts
        }

    def restored_changes(self) -> list[str]:
        """What `hosts check` says was put back, all hosts together."""
        result = self.cli("hosts", "check", "-i", str(self.inventory), "--json")
        return [text for host in json.loads(result.out)["hosts"] for text in host["put_back"]]

    def wait_until_like(self, before: dict[str, str], timeout_s: float = SOON_S) -> None:
        """Wait until the hosts are as they were before."""
        deadline = time.monotonic() + timeout_s
        while left := diff_snapshots(before, self.snapshot()):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


SHORT_TIMEOUTS: dict[str, object] = {
    "benchkit.hosts.agent_link:PATIENCE_S": 3.0,
    "benchkit.hosts.agent_link:SIGN_S": 1.0,
    "benchkit.hosts.agent_link:SILENCE_S": 3.0,
    "benchkit.hosts.connections:PAUSES_S": (0.1, 0.5),
}
"""What takes tens of seconds on slow networks, so that tests need not wait for it. A host that starts its agent is given
all the time there is, for that is slow on busy machines."""


def host_command(lab: Lab, host: str) -> list[str]:
    """How something is run on a host from within, whatever becomes of its link; over SSH where hosts have no such inside."""
    if lab.state.mode != "namespaces":
        return lab.ssh_command(host)
    return ["nsenter", "-t", str(first_pid(lab, f"host/{host}")), "-a"]


def on_host(lab: Lab, host: str, script: str) -> str:
    """Run a shell script on a host."""
    command = [*host_command(lab, host), "sh", "-s"]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=True, timeout=60).stdout


def first_pid(lab: Lab, part: str) -> int:
    """The first process of a part of a lab: `switch`, `host/NAME`."""
    return next(one.process.pid for one in marked(lab.folder.key) if one.part == part)


def link_command(lab: Lab, host: str, *, up: bool) -> list[str]:
    """The command by which a host is cut off from everybody, or connected again; that is so when it returns."""
    port = f"port{[each.name for each in lab.hosts].index(host)}"
    switch = str(first_pid(lab, "switch"))
    return ["nsenter", "-t", switch, "-n", "ip", "link", "set", port, "up" if up else "down"]


def set_link(lab: Lab, host: str, *, up: bool) -> None:
    """Cut a host of the lab off from everybody, or connect it again."""
    subprocess.run(link_command(lab, host, up=up), check=True)


def wait_for(path: Path, text: str, times: int = 1, timeout_s: float = 60) -> None:
    """Wait until a file of a running command has a text so often."""
    deadline = time.monotonic() + timeout_s
    while not (path.exists() and path.read_text().count(text) >= times):
        assert time.monotonic() < deadline, f"no {text!r} in {path}"
        time.sleep(0.02)


def diff_snapshots(before: dict[str, str], now: dict[str, str]) -> str:
    """The lines that differ."""
    lines = []
    for host, text in now.items():
        was, is_ = set(before[host].splitlines()), set(text.splitlines())
        lines += [f"{host}: - {line}" for line in sorted(was - is_)] + [
            f"{host}: + {line}" for line in sorted(is_ - was)
        ]
    return "\n".join(lines)


def tables(store: Path) -> dict[str, pd.DataFrame]:
    """All tables, their rows in an order that does not depend on files."""
    found = {}
    for table in TABLES:
        frame = benchkit.load(table, store=store)
        rows = [repr(row) for row in frame.itertuples(index=False)]
        found[table] = frame.iloc[sorted(range(len(rows)), key=rows.__getitem__)].reset_index(drop=True)
    return found


def tables_summary(store: Path) -> dict[str, object]:
    """What the tables of a run have in common with those of another of the same scenario: columns, and counts."""
    frames = {table: benchkit.load(table, store=store) for table in TABLES}
    trials = frames["trials"]
    measured = trials[trials["kind"] == "measure"]
    hosts = frames["hosts"][~frames["hosts"]["at"].isin(["restored", "end"])]  # one that was killed is put back unseen
    counting = frames["latency"][frames["latency"]["trial_id"].isin(measured["trial_id"])]
    return {
        "columns": {
            table: list(zip(frame.columns, map(str, frame.dtypes), strict=True)) for table, frame in frames.items()
        },
        "trials": Counter(zip(measured["cell_id"], measured["block"], strict=True)),
        "factors": Counter(frames["factors"][["cell_id", "factor", "level"]].itertuples(index=False, name=None)),
        "hosts": set(hosts[["host", "role", "at", "fact"]].itertuples(index=False, name=None)),
        "series": Counter(counting.groupby("trial_id")["series"].unique().map(tuple)),
        "requests": Counter(measured["requests"]),
    }


def check_finished_run(bench: Bench, over: set[str], undisturbed: dict[str, object]) -> None:
    """Hold a run that came to its end to the shape of an undisturbed one; `over` had ended before it was disturbed last."""
    events, progress = bench.events(), bench.progress()
    ended = Counter(event["trial_id"] for event in events if event["event"] == "trial-ended")
    assert max(ended.values()) == 1, "no trial ended twice"
    assert over <= ended.keys(), "none is lost"
    trials = benchkit.load("trials", store=bench.store)
    assert set(trials["trial_id"]) == set(ended), "a row for each, and only for those"
    assert trials["trial_id"].is_unique
    assert set(trials.loc[trials["kind"] == "split", "trial_id"]) == progress.interrupted & set(ended)
    counting = trials[trials["kind"] == "measure"]
    value_paths = Counter(zip(counting["block"], counting["cell_id"], strict=True))
    assert len(value_paths) == CELLS * BLOCKS
    assert set(value_paths.values()) == {1}, "every cell once in every block"
    for block, rounds in counting.groupby("block")["trial_id"]:
        assert len({trial.split(".")[1] for trial in rounds}) == 1, f"block {block} is of one round"
    found = tables_summary(bench.store)
    for what, was in undisturbed.items():
        assert found[what] == was, what
    before = tables(bench.store)
    again = bench.cli("results", "reparse", "latest")
    assert again.code == 0, again.err
    after = tables(bench.store)
    for table, frame in before.items():
        pd.testing.assert_frame_equal(frame, after[table], obj=table)
    assert list((bench.store / "tables").rglob(".*")) == []
