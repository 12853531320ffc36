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

import benchkit
from benchkit.lab.lab import Lab
from benchkit.lab.processes import marked
from benchkit.results.progress import Progress, progress_of
from benchkit.results.schema import TABLES

HERE = Path(__file__).parent
SCENARIO = HERE / "scenario.yaml"
CELLS, BLOCKS = 2, 3
LOOK = """
ps -eo args= | grep -v -e '^ps ' -e '^sshd: ' -e 'ps -eo' -e '^grep ' -e '^sort' | sort
echo ---; ss -Hlntx | awk '$1 == "tcp" || $1 == "LISTEN" || $5 !~ /\\*/ {print $1, $2, $5}' | sort
echo ---; cat /proc/sys/net/ipv4/* /proc/sys/net/core/* 2>/dev/null
echo ---; find WORKDIR -mindepth 1 ! -path '*/records/report-*' ! -path '*/home/*' ! -path '*/stack/*/proxy*' | sort
echo ---; find /tmp /var/tmp /dev/shm | sort
"""


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended: its exit code, or less than 0 for a signal."""

    code: int
    out: str
    err: str


class Zygote:
    """A process that has imported everything, and forks command lines; see `crash.py`."""

    def __init__(self) -> None:
        self._count = 0
        self._running: set[int] = set()
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "crash.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, bench: Bench, arguments: list[str], crash: str | None) -> Running:
        """Start a command line."""
        self._count += 1
        out, err = (bench.store.parent / f"{bench.store.name}-{self._count}.{name}" for name in ("out", "err"))
        order = {
            "arguments": arguments,
            "environment": bench.environment,
            "out": str(out),
            "err": str(err),
            "constants": bench.constants,
            "point": crash,
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

    zygote: Zygote
    bench: Bench
    pid: int
    out: Path
    err: Path
    known: frozenset[Path]

    def journal(self, within_s: float = 60) -> Path:
        """The journal of the run that it began, once there is one."""
        deadline = time.monotonic() + within_s
        while True:
            for run in self.bench.runs():
                if run not in self.known and (run / "journal.jsonl").exists():
                    return run / "journal.jsonl"
            assert time.monotonic() < deadline, self.err.read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Said:
        """Wait for its end."""
        code = os.waitstatus_to_exitcode(self.zygote.status(self.pid))
        said = Said(code, self.out.read_text(), self.err.read_text())
        assert "Traceback" not in said.err, said.err
        return said


@dataclass(frozen=True)
class Bench:
    """The command line with a store of its own, on the hosts of a lab."""

    lab: Lab
    store: Path
    inventory: Path
    zygote: Zygote
    constants: dict[str, object] = field(default_factory=dict)
    """Times of benchkit's own, `module:NAME`, set to others than the usual."""
    secrets: dict[str, str] = field(default_factory=dict)
    """What is in the environment beside."""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BENCHKIT_")}
        return kept | {"BENCHKIT_STORE": str(self.store), "BENCHKIT_LAB": "none", "COLUMNS": "200"} | self.secrets

    def start(self, *arguments: str, crash: str | None = None) -> Running:
        """Start `benchkit run`, which ends itself at the point `crash`."""
        return self.zygote.start(self, ["run", *arguments, "-i", str(self.inventory)], crash)

    def run(self, *arguments: str, crash: str | None = None) -> Said:
        """Run to the end; what it said."""
        return self.start(*arguments, crash=crash).wait()

    def cli(self, *arguments: str) -> Said:
        """Another command."""
        return self.zygote.start(self, list(arguments), None).wait()

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
        return progress_of(self.events())

    def look(self) -> dict[str, str]:
        """Processes, ports, sysctls and files of every host, seen over plain SSH; reports of guardians left out."""
        found = {}
        for host in self.lab.hosts:
            command = [*self.lab.ssh_command(host.name), LOOK.replace("WORKDIR", host.workdir)]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
            found[host.name] = done.stdout
        return found


IMPATIENT: dict[str, object] = {
    "benchkit.hosts.link:PATIENCE_S": 2.0,
    "benchkit.hosts.link:SIGN_S": 1.0,
    "benchkit.hosts.link:SILENCE_S": 5.0,
    "benchkit.hosts.ssh:SILENCE_S": 1.0,
    "benchkit.hosts.ssh:CONNECT_S": 5,
    "benchkit.hosts.connect:PAUSES_S": (0.1, 0.5),
}
"""What takes tens of seconds on slow networks, so that tests need not wait for it."""


def plug(lab: Lab, host: str, *, plugged: bool) -> None:
    """Cut a host of the lab off from everybody, or connect it again; returns when that is so."""
    (switch,) = (one.process.pid for one in marked(lab.folder.key) if one.part == "switch")
    port = f"port{[each.name for each in lab.hosts].index(host)}"
    command = ["nsenter", "-t", str(switch), "-n", "ip", "link", "set", port, "up" if plugged else "down"]
    subprocess.run(command, check=True)


def wait_for(path: Path, text: str, times: int = 1, within_s: float = 60) -> None:
    """Wait until a file of a running command has a text so often."""
    deadline = time.monotonic() + within_s
    while not (path.exists() and path.read_text().count(text) >= times):
        assert time.monotonic() < deadline, f"no {text!r} in {path}"
        time.sleep(0.02)


def difference(before: dict[str, str], now: dict[str, str]) -> str:
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


def judge(bench: Bench, over: set[str]) -> None:
    """Hold a run that came to its end to what an undisturbed one comes to; `over` had ended before it was disturbed last."""
    events, progress = bench.events(), bench.progress()
    ended = Counter(event["trial_id"] for event in events if event["event"] == "trial-ended")
    assert max(ended.values()) == 1, "no trial ended twice"
    assert over <= ended.keys(), "none is lost"
    trials = benchkit.load("trials", store=bench.store)
    assert set(trials["trial_id"]) == set(ended), "a row for each, and only for those"
    assert trials["trial_id"].is_unique
    assert set(trials.loc[trials["kind"] == "split", "trial_id"]) == progress.split & set(ended)
    counting = trials[trials["kind"] == "measure"]
    places = Counter(zip(counting["block"], counting["cell_id"], strict=True))
    assert len(places) == CELLS * BLOCKS
    assert set(places.values()) == {1}, "every cell once in every block"
    for block, rounds in counting.groupby("block")["trial_id"]:
        assert len({trial.split(".")[1] for trial in rounds}) == 1, f"block {block} is of one round"
    before = tables(bench.store)
    again = bench.cli("results", "reparse", "latest")
    assert again.code == 0, again.err
    after = tables(bench.store)
    for table, frame in before.items():
        pd.testing.assert_frame_equal(frame, after[table], obj=table)
    assert [path.name for path in (bench.store / "tmp").iterdir() if path.name != ".lock"] == []
