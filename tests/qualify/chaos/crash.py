"""Commands whose process kills itself by SIGKILL at a chosen point, or runs other commands there.

This program imports everything once and forks for each line on its stdin (JSON, see `CommandServer.start`). It answers
with the pid and, when asked for that pid, with its status as wait(2) gives it.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn


class CrashPoint(NamedTuple):
    """A point in a process: before or after the nth call of a function, or some time into it."""

    where: str
    """`module:function` or `module:Class.method`."""
    when: float | str = "after"
    word: str | None = None
    """Argument, or name of the event, that a call must have to count."""
    nth: int = 1


JOURNAL = "benchkit.store.journal:Journal.append"

POINTS = {
    "held": CrashPoint("benchkit.hosts.connections:Hosts.lock"),
    "created": CrashPoint("benchkit.store.store:Store.create"),
    "tuned": CrashPoint(JOURNAL, word="tuned"),
    "switched": CrashPoint(JOURNAL, word="tuning-switched"),
    "deployed": CrashPoint(JOURNAL, word="deployed"),
    "services-up": CrashPoint("benchkit.services.deploy:start"),
    "under-load": CrashPoint("benchkit.run.steps.load:run_slices", when=0.1),
    "in-slices": CrashPoint("benchkit.run.steps.load:run_slices", when=0.4),
    "raw-half-written": CrashPoint("benchkit.store.run_folder:write_synced", nth=4),
    "raw-whole": CrashPoint("benchkit.store.run_folder:RunFolder.commit_trial"),
    "rows-half-written": CrashPoint("benchkit.store.tables:RunTables.add", word="latency"),
    "rows-written": CrashPoint(JOURNAL, when="before", word="trial-ended", nth=2),
    "journal-half-written": CrashPoint("benchkit.store.journal:os.fsync", when="before", nth=4),
    "ended": CrashPoint(JOURNAL, word="trial-ended"),
    "cut-block-noted": CrashPoint(JOURNAL, word="block-split"),
    "tables-rebuilt": CrashPoint("benchkit.run.resume:rebuild_tables"),
    "restored": CrashPoint(JOURNAL, word="restored"),
    "tables-half-merged": CrashPoint("benchkit.store.tables:write_parquet", nth=3),
    "manifest-half-written": CrashPoint("benchkit.store.durable_files:Path.replace", when="before", nth=3),
    "finished": CrashPoint("benchkit.store.run_folder:RunFolder.finish"),
}

MOMENTS = {"trials-over": CrashPoint("benchkit.run.testbed:Testbed._restore", when="before")}
"""Moments at which commands are run on the hosts: after the last trial, before anything is restored."""


def crash() -> NoReturn:
    """Die as in a power cut: nothing is closed, nothing flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    raise AssertionError


def arm(point: CrashPoint, act: Callable[[], object] = crash) -> None:
    """Make the process crash, or do something else, at a point."""
    module, _, path = point.where.partition(":")
    owner: Any = importlib.import_module(module)
    *between, name = path.split(".")
    for part in between:
        owner = getattr(owner, part)
    function: Callable[..., Any] = getattr(owner, name)
    calls = itertools.count(1)

    def wrapped(*args: object, **kwargs: object) -> object:
        counts = point.word is None or any(getattr(arg, "event", arg) == point.word for arg in args)
        if not (counts and next(calls) == point.nth):
            return function(*args, **kwargs)
        if point.when == "before":
            act()
        if isinstance(point.when, float):
            threading.Timer(point.when, act).start()
        result = function(*args, **kwargs)
        if point.when == "after":
            act()
        return result

    setattr(owner, name, wrapped)


def run_all(commands: list[list[str]]) -> None:
    """Run commands, one after the other."""
    for command in commands:
        subprocess.run(command, check=True)


def serve(main: Callable[[], NoReturn]) -> None:
    """Fork for each line of stdin."""
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, int):
            answer(os.waitpid(order, 0)[1])
        elif pid := os.fork():
            answer(pid)
        else:
            execute_command(order, main)


def answer(number: int) -> None:
    """Write a number to stdout."""
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def execute_command(order: dict[str, Any], main: Callable[[], NoReturn]) -> NoReturn:
    """Turn this process into a benchkit command."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, path in ((0, None), (1, order["out"]), (2, order["err"])):
        os.dup2(nothing if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    if order["lines_read"] is not None:  # as by `2>&1 | head`
        head = ["head", "-n", str(order["lines_read"])]
        pipe = subprocess.Popen(head, stdin=subprocess.PIPE).stdin
        assert pipe is not None
        os.dup2(pipe.fileno(), 1)
        os.dup2(pipe.fileno(), 2)
        pipe.close()
    os.environ.clear()
    os.environ.update(order["environment"])
    if order["point"] is not None:
        arm(POINTS[order["point"]])
    for moment, commands in order["meanwhile"].items():
        arm(MOMENTS[moment], partial(run_all, commands))
    for place, value in order["constants"].items():
        module, _, name = place.partition(":")
        setattr(importlib.import_module(module), name, value)
    sys.argv[:] = ["benchkit", *order["arguments"]]
    try:
        main()
    except SystemExit as ending:
        sys.stdout.flush()
        sys.stderr.flush()
        code = 0 if ending.code is None else ending.code
        os._exit(code if isinstance(code, int) else 1)  # a normal exit of a fork takes a while


if __name__ == "__main__":
    from benchkit.cli.app import main

    used = (
        "run.run",
        "cli.display",
        "hosts.ssh",
        "lab.lab",
        "plan.planner",
        "comparison.claims",
        "report.report_files",
    )
    for module in used:
        importlib.import_module(f"benchkit.{module}")
    gc.collect()
    gc.freeze()  # the garbage collector of a fork need not scan what all forks share
    serve(main)
