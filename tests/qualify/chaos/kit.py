"""Tools for tests that disturb runs: the command line, snapshots of hosts, and the checks of a finished run."""

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
from benchkit.lab.processes import find_init_processes
from benchkit.models.rows import TABLES
from benchkit.store.journal import RunProgress, read_progress
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store

HERE = Path(__file__).parent
SCENARIO = HERE / "scenario.yaml"
CELLS, BLOCKS = 2, 3
SOON_S = 50.0
"""A limit below the usual lease that holds on a busy machine too; `make chaos` holds hosts to the lease and 5 s."""
SNAPSHOT = """
ps -eo args= | grep -v -e '^ps ' -e '^sshd: ' -e 'sh -s' -e '^grep ' -e '^sort' -e '^\\[[gps]' | sort
echo ---; ss -Hlntx | awk '$1 == "tcp" || $1 == "LISTEN" || $5 !~ /\\*/ {print $1, $2, $5}' | sort
echo ---; cat /proc/sys/net/ipv4/* /proc/sys/net/core/* 2>/dev/null
echo ---; find WORKDIR -mindepth 1 ! -path '*/records/report-*' ! -path '*/home/*' ! -path '*/stack/*/proxy*' | sort
echo ---; find /tmp /var/tmp /dev/shm | sort
"""


@dataclass(frozen=True)
class CommandResult:
    """Output and exit code of a command; the code is negative for a signal."""

    code: int
    out: str
    err: str


class CommandServer:
    """A process that has imported everything and forks commands; see `crash.py`."""

    def __init__(self) -> None:
        self._count = 0
        self._running: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "crash.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, bench: Bench, arguments: list[str], crash: str | None) -> Running:
        """Start a command with arguments, environment and output files, with a crash point or other interference."""
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
            "lines_read": bench.lines_read,
        }
        known = frozenset(bench.runs())
        pid = self._ask(order)
        self._running.add(pid)
        return Running(self, bench, pid, out, err, known)

    def status(self, pid: int) -> int:
        """Wait for the end of a command and return its status."""
        self._running.discard(pid)
        return self._ask(pid)

    def end_all(self) -> None:
        """Kill what a failed test has left running."""
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
        """End the process."""
        self._process.communicate(timeout=30)


@dataclass(frozen=True)
class Running:
    """A command that runs."""

    command_server: CommandServer
    bench: Bench
    pid: int
    out: Path
    err: Path
    known: frozenset[Path]

    def journal(self, timeout_s: float = 180) -> Path:
        """Wait for the journal of the run that the command starts, and return its path."""
        deadline = time.monotonic() + timeout_s
        while True:
            for run in self.bench.runs():
                if run not in self.known and (run / "journal.jsonl").exists():
                    return run / "journal.jsonl"
            assert self.is_alive(), self.err.read_text()
            assert time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.02)

    def is_alive(self) -> bool:
        """Return whether the command still runs."""
        return psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE

    def kill(self) -> None:
        """Kill it, as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> CommandResult:
        """Wait for its end."""
        code = os.waitstatus_to_exitcode(self.command_server.status(self.pid))
        result = CommandResult(code, self.out.read_text(), self.err.read_text())
        assert "Traceback" not in result.err, result.err
        return result


@dataclass(frozen=True)
class Bench:
    """A test bench: the command line, a store of its own, and the hosts of a lab."""

    lab: Lab
    store: Path
    inventory: Path
    command_server: CommandServer
    constants: dict[str, object] = field(default_factory=dict)
    """Constants of benchkit, `module:NAME`, with the values that they have here."""
    secrets: dict[str, str] = field(default_factory=dict)
    """Further environment variables."""
    meanwhile: dict[str, list[list[str]]] = field(default_factory=dict)
    """Commands to run at a moment of the run; see `crash.MOMENTS`."""
    lines_read: int | None = None
    """Lines of the command's output after which its reader closes the pipe; None: the output goes to files."""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BENCHKIT_")}
        return kept | {"BENCHKIT_STORE": str(self.store), "BENCHKIT_LAB": "none", "COLUMNS": "200"} | self.secrets

    def start(self, *arguments: str, crash: str | None = None) -> Running:
        """Start `benchkit run`, with a crash point if one is named."""
        return self.command_server.start(self, ["run", *arguments, "-i", str(self.inventory)], crash)

    def run(self, *arguments: str, crash: str | None = None) -> CommandResult:
        """Run `benchkit run` to its end."""
        return self.start(*arguments, crash=crash).wait()

    def cli(self, *arguments: str) -> CommandResult:
        """Run another command to its end."""
        return self.command_server.start(self, list(arguments), None).wait()

    def runs(self) -> list[Path]:
        """Return the runs of the store."""
        return list((self.store / "runs").glob("*"))

    def folder(self) -> Path:
        """Return the folder of the only run of the store."""
        (folder,) = self.runs()
        return folder

    def stored_run(self) -> RunFolder:
        """Return the only run of the store, as benchkit reads it."""
        return Store(self.store).folder(self.folder().name)

    def events(self) -> list[dict[str, Any]]:
        """Return the lines of its journal, without an incomplete last one."""
        lines = (self.folder() / "journal.jsonl").read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def progress(self) -> RunProgress:
        """Return its progress."""
        return read_progress(self.stored_run().history())

    def snapshot(self) -> dict[str, str]:
        """Return processes, ports, sysctls and files of every host, without the reports of watchdogs."""
        hosts = json.loads(self.inventory.read_text())["hosts"]
        return {
            host.name: on_host(
                self.lab, host.name, SNAPSHOT.replace("WORKDIR", hosts[host.name].get("workdir") or host.workdir)
            )
            for host in self.lab.hosts
        }

    def restored_changes(self) -> list[str]:
        """Return what `hosts check` reports as restored, of all hosts together."""
        result = self.cli("hosts", "check", "-i", str(self.inventory), "--json")
        return [text for host in json.loads(result.out)["hosts"] for text in host["restored"]]

    def wait_until_like(self, before: dict[str, str], timeout_s: float = SOON_S) -> None:
        """Wait until the hosts are as in a snapshot."""
        deadline = time.monotonic() + timeout_s
        while left := diff_snapshots(before, self.snapshot()):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


SHORT_TIMEOUTS: dict[str, object] = {
    "benchkit.hosts.agent_link:ANSWER_TIMEOUT_S": 3.0,
    "benchkit.hosts.agent_link:HEARTBEAT_S": 1.0,
    "benchkit.hosts.agent_link:HEARTBEAT_TIMEOUT_S": 3.0,
    "benchkit.hosts.connections:RECONNECT_PAUSES_S": (0.1, 0.5),
}
"""Times that are tens of seconds for slow networks, shortened. The start of an agent keeps its full time: it is slow on
busy machines.
"""


def host_command(lab: Lab, host: str) -> list[str]:
    """Return the command that runs something inside a host, apart from its link if hosts are namespaces; else SSH."""
    if lab.state.mode != "namespaces":
        return lab.ssh_command(host)
    return ["nsenter", "-t", str(first_pid(lab, f"host/{host}")), "-a"]


def on_host(lab: Lab, host: str, script: str) -> str:
    """Run a shell script on a host."""
    command = [*host_command(lab, host), "sh", "-s"]
    return subprocess.run(command, input=script, capture_output=True, text=True, check=True, timeout=60).stdout


def first_pid(lab: Lab, part: str) -> int:
    """Return the first process of a part of a lab: `switch`, `host/NAME`."""
    inits = (one.process for one in find_init_processes(lab.folder.key) if one.part == part)
    # unshare(1), the parent, is outside of the namespaces that it made.
    return next(each.pid for each in inits if Path(each.info["cmdline"][0]).name != "unshare")


def link_command(lab: Lab, host: str, *, up: bool) -> list[str]:
    """Return the command that disconnects a host from all others, or connects it again."""
    port = f"port{[each.name for each in lab.hosts].index(host)}"
    switch = str(first_pid(lab, "switch"))
    return ["nsenter", "-t", switch, "-n", "ip", "link", "set", port, "up" if up else "down"]


def set_link(lab: Lab, host: str, *, up: bool) -> None:
    """Disconnect a host of the lab from all others, or connect it again."""
    subprocess.run(link_command(lab, host, up=up), check=True)


def wait_for(path: Path, text: str, times: int = 1, timeout_s: float = 180) -> None:
    """Wait until a file of a running command contains a text `times` times."""
    deadline = time.monotonic() + timeout_s
    while not (path.exists() and path.read_text().count(text) >= times):
        assert time.monotonic() < deadline, f"no {text!r} in {path}"
        time.sleep(0.02)


def diff_snapshots(before: dict[str, str], now: dict[str, str]) -> str:
    """Return the lines that differ."""
    lines = []
    for host, text in now.items():
        was, is_ = set(before[host].splitlines()), set(text.splitlines())
        lines += [f"{host}: - {line}" for line in sorted(was - is_)] + [
            f"{host}: + {line}" for line in sorted(is_ - was)
        ]
    return "\n".join(lines)


def sorted_tables(store: Path) -> dict[str, pd.DataFrame]:
    """Return all tables, their rows in an order that does not depend on files."""
    found = {}
    for table in TABLES:
        frame = benchkit.load(table, store=store)
        rows = [repr(row) for row in frame.itertuples(index=False)]
        found[table] = frame.iloc[sorted(range(len(rows)), key=rows.__getitem__)].reset_index(drop=True)
    return found


def tables_summary(store: Path) -> dict[str, object]:
    """Return what the tables of all runs of a scenario have in common: columns and counts."""
    frames = {table: benchkit.load(table, store=store) for table in TABLES}
    trials = frames["trials"]
    measured = trials[trials["kind"] == "measure"]
    hosts = frames["hosts"][~frames["hosts"]["at"].isin(["restored", "end"])]  # absent where the run was killed
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
    """Check a finished run against the tables of an undisturbed one; `over` had ended before the last disturbance."""
    events, progress = bench.events(), bench.progress()
    ended = Counter(event["trial_id"] for event in events if event["event"] == "trial-ended")
    assert max(ended.values()) == 1, "no trial ended twice"
    assert over <= ended.keys(), "no trial is lost"
    trials = benchkit.load("trials", store=bench.store)
    assert set(trials["trial_id"]) == set(ended), "a row for each, and only for those"
    assert trials["trial_id"].is_unique
    assert set(trials.loc[trials["kind"] == "split", "trial_id"]) == progress.interrupted & set(ended)
    counting = trials[trials["kind"] == "measure"]
    counts = Counter(zip(counting["block"], counting["cell_id"], strict=True))
    assert len(counts) == CELLS * BLOCKS
    assert set(counts.values()) == {1}, "every cell once in every block"
    for block, rounds in counting.groupby("block")["trial_id"]:
        assert len({trial.split(".")[1] for trial in rounds}) == 1, f"block {block} has trials of one round only"
    found = tables_summary(bench.store)
    for what, was in undisturbed.items():
        assert found[what] == was, what
    before = sorted_tables(bench.store)
    second_resume = bench.cli("results", "reparse", "latest")
    assert second_resume.code == 0, second_resume.err
    after = sorted_tables(bench.store)
    for table, frame in before.items():
        pd.testing.assert_frame_equal(frame, after[table], obj=table)
    assert list((bench.store / "tables").rglob(".*")) == []
