"""Faults of a few seconds on a host or on this machine during a run, and what must hold after each of them.

Work directories and store are on small disks of their own, so that a full one harms nothing else. A kind of fault is
one line of `KINDS`; whoever adds a cure adds the line.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import benchkit
from benchkit.errors import InputError
from benchkit.lab.lab import Lab
from tests.qualify.chaos.kit import (
    BLOCKS,
    CELLS,
    SCENARIO,
    Bench,
    CommandResult,
    Running,
    diff_snapshots,
    host_command,
    on_host,
)

DISK = "/run/small"
"""Small disk of each host, with its work directory."""
DISK_OPTIONS = "size=96m,nr_inodes=3000"
STORE_OPTIONS = "size=48m,nr_inodes=3000"
LEASE_S = 4
STARTED_SHARE = 0.7
"""Share of the faults that happen after the run's first step, and not while its hosts are connected."""
UPLOAD_S = 1.0
RESUMPTIONS = 3
"""Times that a run may be resumed after its fault; the fault is over by then."""

BLOCKS_FULL = """
timeout {seconds} sh -c 'while :; do cat /dev/zero >> {disk}/fill; sleep 0.02; done' 2> /dev/null
rm -f {disk}/fill
"""
INODES_USED = """
mkdir -p {disk}/fill
timeout {seconds} sh -c 'cd {disk}/fill; while :; do seq 4000 | xargs touch; sleep 0.02; done' 2> /dev/null
rm -rf {disk}/fill
"""
"""Both take at once what a trial frees at its end."""
NO_SPACE = "No space left on device"

LISTEN = """python3 -c '
import socket, time
server, deadline = socket.socket(), time.monotonic() + 30
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while time.monotonic() < deadline:
    try:
        server.bind(("0.0.0.0", 8080))
        server.listen()
        break
    except OSError:
        time.sleep(0.001)
time.sleep({seconds})
'"""

CONNECT = """python3 -c '
import socket, struct, time
server, deadline = socket.create_server(("0.0.0.0", 0)), time.monotonic() + 30
while time.monotonic() < deadline:
    client = socket.socket()
    try:
        client.bind(("0.0.0.0", 8080))
        client.connect(("127.0.0.1", server.getsockname()[1]))
        break
    except OSError:
        client.close()
        time.sleep(0.001)
time.sleep({seconds})
client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
'"""

KILL_WATCHDOG = "pkill -KILL -x benchkit-watchd"
"""A host of the lab has its own processes; this fails where there is no watchdog."""
KILL_AGENT = """
watchdogs=$(pgrep -x benchkit-watchd) || exit
for watchdog in $watchdogs; do kill -KILL $watchdog $(pgrep -P $watchdog) || exit; done
"""
"""Kills watchdog and agent together, the watchdog's only child; fails where there are none."""

INTERRUPTED = ("interrupted: services are stopped and hosts restored", "benchkit run --resume")
"""Statement of a command that was interrupted."""

LINE_WITHOUT_TRIAL = b'{"at":"2026-01-01T00:00:00Z","event":"trial-ended"}\n'


@dataclass(frozen=True)
class Target:
    """A run that a fault is to happen to."""

    bench: Bench
    running: Running
    seconds: float
    """Length of the fault."""

    def on(self, host: str, script: str) -> subprocess.Popen[str]:
        """Start a script on a host, with the disk and the length of the fault filled in."""
        text = script.replace("{disk}", DISK).replace("{seconds}", f"{self.seconds:.3f}")
        return subprocess.Popen([*host_command(self.bench.lab, host), "sh", "-c", text], text=True)

    def here(self, script: str) -> subprocess.Popen[str]:
        """Start a script on this machine, likewise; its disk is the store's."""
        text = script.replace("{disk}", str(self.bench.store)).replace("{seconds}", f"{self.seconds:.3f}")
        return subprocess.Popen(["sh", "-c", text], text=True)


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault, and the words that a message about it must have."""

    name: str
    words: tuple[str, ...]
    """Host, and cause; what an interrupted command states; empty where the command is killed or has to end well."""
    start: Callable[[Target], subprocess.Popen[str] | None] = lambda _target: None
    prepare: Callable[[Bench], None] = lambda _bench: None
    """Bring the hosts into the state that the fault needs, before the run."""
    within_s: float | None = None
    """Seconds after the run's first step in which the fault happens; None: at any moment of the command."""
    keeps_run: bool = True
    """False where the fault destroys what is stored, so that nothing can be resumed."""
    never_fails: bool = False
    """True where the command itself has to end well."""
    read_lines: Callable[[random.Random], int | None] = lambda _rng: None
    """Return the lines of output that the command's reader waits for; None: all."""
    examine_hosts: Callable[[Bench, dict[str, str]], list[str]] = lambda _bench, _before: []
    """Return what is wrong on the hosts after the command has ended, given their state before."""
    examine_store: Callable[[Bench, random.Random], list[str]] = lambda _bench, _rng: []
    """Damage the store of the finished run, and return what is wrong with the commands that read it."""


def remove_programs(bench: Bench) -> None:
    """Remove the deployed programs from the hosts, so that the next run uploads them."""
    for host in bench.lab.hosts:
        on_host(bench.lab, host.name, f"find {DISK}/work -type f -size +1M -delete")


def interrupt(target: Target, signum: signal.Signals) -> None:
    """Interrupt the command as Ctrl-C or a service manager does."""
    assert target.running.is_alive(), "it ended before it could be interrupted"
    os.kill(target.running.pid, signum)


def kill_all(target: Target) -> None:
    """Kill the command, and on every host the agent with its watchdog, so that nobody is left to restore anything.

    The command is stopped first: it notices no lost agent, and no agent that it has ended.
    """
    assert target.running.is_alive(), "it ended before it could be killed"
    os.kill(target.running.pid, signal.SIGSTOP)
    kills = [target.on(host.name, KILL_AGENT) for host in target.bench.lab.hosts]
    assert [kill.wait() for kill in kills] == [0] * len(kills), "not every agent was there to be killed"
    target.running.kill()


def restore_by_command(bench: Bench, before: dict[str, str]) -> list[str]:
    """Have `hosts check` find and `hosts restore` undo what is left; return what they did not."""
    inventory = ("-i", str(bench.inventory), "--json")
    problems = []
    left = {host for host, text in bench.snapshot().items() if text != before[host]}
    checked = bench.cli("hosts", "check", *inventory)
    found = {host["host"] for host in json.loads(checked.out)["hosts"] if host["records"]}
    if left - found:
        problems.append(f"`hosts check` does not see what is left on {', '.join(left - found)}: {checked.out}")
    restored = bench.cli("hosts", "restore", *inventory)
    if restored.code != 0:
        problems.append(f"`hosts restore`: {restored.err}")
    if difference := diff_snapshots(before, bench.snapshot()):
        problems.append(f"after `hosts restore`: {difference}")
    return problems


def damage_table(bench: Bench, rng: random.Random) -> list[str]:
    """Truncate or overwrite a table."""
    table = rng.choice(["trials", "factors", "verdicts"])
    path = rng.choice(sorted((bench.store / "tables" / table).rglob("*.parquet")))
    content = path.read_bytes()
    part = content[: rng.randrange(len(content) - 1)]
    path.write_bytes(rng.choice([part, part.ljust(len(content), b"\0"), rng.randbytes(len(content))]))
    problems = []
    try:
        benchkit.load(table, store=bench.store)
    except InputError as error:
        if str(path) not in str(error):
            problems.append(f"load: {error}")
    else:
        problems.append(f"load reads {path} although it is damaged")
    compacted = bench.cli("results", "compact")
    if compacted.code != 1 or str(path) not in compacted.err:
        problems.append(f"results compact: {compacted}")
    return problems + _commands_read(bench, path, names_file=table == "trials") + _repair(bench, path)


def damage_journal(bench: Bench, rng: random.Random) -> list[str]:
    """Put a line without its fields, or one that is no JSON, into the journal."""
    path = bench.folder() / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(rng.randrange(1, len(lines)), rng.choice([LINE_WITHOUT_TRIAL, b'{"at":\n', rng.randbytes(40) + b"\n"]))
    path.write_bytes(b"".join(lines))
    resumed = bench.run("--resume", "latest")
    problems = [] if resumed.code == 2 and str(path) in resumed.err else [f"run --resume: {resumed}"]
    return problems + _commands_read(bench, path, names_file=False) + _repair(bench, path)


def _commands_read(bench: Bench, path: Path, *, names_file: bool) -> list[str]:
    """Return what is wrong with commands that have to do their work although a file is damaged."""
    commands = (("results", "list"), ("plan", str(SCENARIO), "-i", str(bench.inventory)))
    results = {command[0]: bench.cli(*command) for command in commands}
    problems = [f"{name}: {result}" for name, result in results.items() if result.code != 0]
    if names_file and str(path) not in results["plan"].err:
        problems.append(f"plan does not name {path}: {results['plan']}")
    return problems


def _repair(bench: Bench, path: Path) -> list[str]:
    """Have `results check` name the damaged file and repair it; return what it did not."""
    checked = bench.cli("results", "check")
    problems = [] if checked.code == 1 and path.name in checked.out + checked.err else [f"results check: {checked}"]
    repaired = bench.cli("results", "check", "--repair")
    if repaired.code != 0 or len(benchkit.load("trials", store=bench.store)) < CELLS * BLOCKS:
        problems.append(f"results check --repair: {repaired}")
    return problems


KINDS: tuple[FaultKind, ...] = (
    FaultKind("server's disk full", ("sut", NO_SPACE), lambda target: target.on("sut", BLOCKS_FULL)),
    FaultKind("server's inodes used up", ("sut", NO_SPACE), lambda target: target.on("sut", INODES_USED)),
    FaultKind("load host's disk full", ("load", NO_SPACE), lambda target: target.on("load", BLOCKS_FULL)),
    FaultKind("load host's inodes used up", ("load", NO_SPACE), lambda target: target.on("load", INODES_USED)),
    FaultKind("store's disk full", ("cannot write", NO_SPACE), lambda target: target.here(BLOCKS_FULL)),
    FaultKind("store's inodes used up", ("cannot write", NO_SPACE), lambda target: target.here(INODES_USED)),
    FaultKind("port taken by a server", ("sut", "port 8080 by python3"), lambda target: target.on("sut", LISTEN)),
    FaultKind("port taken by a connection", ("sut", "port 8080 by python3"), lambda target: target.on("sut", CONNECT)),
    FaultKind(
        "Ctrl-C in an upload", INTERRUPTED, lambda target: interrupt(target, signal.SIGINT), remove_programs, UPLOAD_S
    ),
    FaultKind(
        "SIGTERM in an upload", INTERRUPTED, lambda target: interrupt(target, signal.SIGTERM), remove_programs, UPLOAD_S
    ),
    FaultKind("watchdog killed", ("sut",), lambda target: target.on("sut", KILL_WATCHDOG), within_s=3.0),
    FaultKind("agent and watchdog killed", ("sut",), lambda target: target.on("sut", KILL_AGENT), within_s=3.0),
    FaultKind("command, agents and watchdogs killed", (), kill_all, within_s=3.0, examine_hosts=restore_by_command),
    FaultKind("output's reader gone", (), never_fails=True, read_lines=lambda rng: rng.randrange(6)),
    FaultKind("table damaged", (), never_fails=True, examine_store=damage_table),
    FaultKind("journal damaged", (), never_fails=True, examine_store=damage_journal),
    FaultKind(
        "store deleted",
        ("was deleted or moved",),
        lambda target: target.here("rm -rf {disk}/runs/* {disk}/tables; true"),
        within_s=3.0,
        keeps_run=False,
    ),
)
"""All kinds of faults that `make chaos` draws from."""


@dataclass(frozen=True)
class FaultOutcome:
    """The outcome of a run with one fault."""

    results: tuple[CommandResult, ...]
    """The run, then each resumption."""
    lost: int
    """Trials that could be repeated and have not ended."""
    retried: int
    left: str
    """Differences of the hosts from before; empty: none."""
    bad_messages: tuple[str, ...]
    """Messages that do not name host and cause."""
    problems: tuple[str, ...]
    """Other requirements of the kind that do not hold."""


@contextmanager
def small_disks(lab: Lab, bench: Bench) -> Iterator[Bench]:
    """Give each host's work directory and the store a small disk of their own; give a bench that uses them."""
    for host in lab.hosts:
        on_host(lab, host.name, f"mkdir -p {DISK} && mount -t tmpfs -o {DISK_OPTIONS} tmpfs {DISK}")
    inventory = json.loads(bench.inventory.read_text())
    for fields in inventory["hosts"].values():
        fields["workdir"] = f"{DISK}/work"
    bench.inventory.write_text(json.dumps(inventory))
    bench.store.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", STORE_OPTIONS, "tmpfs", str(bench.store)], check=True)
    try:
        yield bench
    finally:
        subprocess.run(["umount", "-l", str(bench.store)], check=True)
        for host in lab.hosts:
            on_host(lab, host.name, f"umount -l {DISK} && rmdir {DISK}")


def empty_store(bench: Bench) -> None:
    """Remove the runs of a bench, so that the next fault starts with none."""
    subprocess.run(["find", str(bench.store), "-mindepth", "1", "-delete"], check=True)


def run_with_fault(kind: FaultKind, bench: Bench, rng: random.Random, within_s: float) -> FaultOutcome:
    """Run the scenario with one fault at a random moment, resume it until it is finished, and check what is left."""
    empty_store(bench)
    before = bench.snapshot()
    kind.prepare(bench)
    piped = replace(bench, lines_read=kind.read_lines(rng))
    running = piped.start(
        str(SCENARIO), *(() if piped.lines_read is not None else ("--json",)), "--lease", str(LEASE_S)
    )
    if kind.within_s is not None or rng.random() < STARTED_SHARE:
        running.journal()
    time.sleep(rng.uniform(0, kind.within_s or within_s))
    fault = kind.start(Target(bench, running, rng.uniform(0.1, 5)))
    results = [running.wait()]
    problems = kind.examine_hosts(bench, before)
    if fault is not None and fault.wait() != 0:
        problems.append(f"the fault did not happen: its script ended with {fault.returncode}")
    if kind.never_fails and results[0].code != 0:
        problems.append(f"ended with {results[0]}")
    for _ in range(RESUMPTIONS):
        if not kind.keeps_run or results[-1].code == 0 or "nothing is left to do" in results[-1].err:
            break
        has_run = any((run / "manifest.json").exists() for run in bench.runs())
        arguments = ("--resume", "latest", "--retry-failed") if has_run else (str(SCENARIO),)
        results.append(bench.run(*arguments, "--json", "--lease", str(LEASE_S)))
    if not kind.keeps_run:  # a new run takes its place, and what it needs is on the hosts again
        empty_store(bench)
        assert bench.run(str(SCENARIO), "--json").code == 0
    progress = bench.progress()
    problems += kind.examine_store(bench, rng)
    failed = [result for result in results if result.code not in (0, -signal.SIGKILL)]
    texts = [result.err + result.out for result in failed if "nothing is left to do" not in result.err]
    return FaultOutcome(
        results=tuple(results),
        lost=CELLS * BLOCKS - len(progress.ended.keys() - progress.interrupted),
        retried=len(progress.retries),
        left=_wait_until_like(bench, before),
        bad_messages=tuple(text for text in texts if not all(word in text for word in kind.words)),
        problems=tuple(problems),
    )


def _wait_until_like(bench: Bench, before: dict[str, str]) -> str:
    """Wait until the hosts are as before, for the lease and some seconds; return the differences that stay."""
    try:
        bench.wait_until_like(before, LEASE_S + 10)
    except AssertionError as left:
        return str(left)
    return ""
