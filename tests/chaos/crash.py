"""Command lines, each with a point at which its process ends itself by SIGKILL.

A program that has imported everything, and forks for each line on its stdin (JSON: arguments, environment, files for
what is printed, constants to be set, the point or null): it answers with the pid, and when that has ended with the status of wait(2).
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn


class Point(NamedTuple):
    """Where a process ends: before or after the nth call of a function, or a while into it."""

    where: str
    """`module:function` or `module:Class.method`."""
    when: float | str = "after"
    word: str | None = None
    """Only calls that have this among their arguments count."""
    nth: int = 1


JOURNAL = "benchkit.results.journal:Journal.append"

POINTS = {
    "held": Point("benchkit.hosts.connect:Hosts.hold"),
    "created": Point("benchkit.results.store:Store.create"),
    "tuned": Point(JOURNAL, word="tuned"),
    "deployed": Point(JOURNAL, word="deployed"),
    "services-up": Point("benchkit.stack.deploy:start"),
    "under-load": Point("benchkit.trial.drive:drive", when=0.1),
    "raw-half-written": Point("benchkit.results.store:write_synced", nth=4),
    "raw-whole": Point("benchkit.results.store:RunFolder.commit_trial"),
    "rows-half-written": Point("benchkit.results.tables:_write", nth=5),
    "rows-written": Point(JOURNAL, when="before", word="trial-ended", nth=2),
    "journal-half-written": Point("benchkit.results.journal:os.fsync", when="before", nth=4),
    "ended": Point(JOURNAL, word="trial-ended"),
    "cut-block-noted": Point(JOURNAL, word="block-split"),
    "tables-rebuilt": Point("benchkit.results.tables:RunTables.apart"),
    "restored": Point(JOURNAL, word="restored"),
    "tables-half-joined": Point("benchkit.results.scratch:exchange", nth=3),
    "manifest-half-written": Point("benchkit.results.durable:Path.replace", when="before", nth=3),
    "finished": Point("benchkit.results.store:RunFolder.finish"),
}


def end() -> NoReturn:
    """Die as by a power cut: nothing is closed, nothing flushed."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    raise AssertionError


def arm(point: Point) -> None:
    """Have the process end there."""
    module, _, path = point.where.partition(":")
    owner: Any = importlib.import_module(module)
    *between, name = path.split(".")
    for part in between:
        owner = getattr(owner, part)
    function: Callable[..., Any] = getattr(owner, name)
    calls = itertools.count(1)

    def wrapped(*args: object, **kwargs: object) -> object:
        counts = point.word is None or point.word in args
        if not (counts and next(calls) == point.nth):
            return function(*args, **kwargs)
        if point.when == "before":
            end()
        if isinstance(point.when, float):
            threading.Timer(point.when, end).start()
        result = function(*args, **kwargs)
        if point.when == "after":
            end()
        return result

    setattr(owner, name, wrapped)


def serve(main: Callable[[], NoReturn]) -> None:
    """Fork for each line."""
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, int):
            say(os.waitpid(order, 0)[1])
        elif pid := os.fork():
            say(pid)
        else:
            carry_out(order, main)


def say(number: int) -> None:
    """Answer."""
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def carry_out(order: dict[str, Any], main: Callable[[], NoReturn]) -> NoReturn:
    """Be the command line."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, path in ((0, None), (1, order["out"]), (2, order["err"])):
        os.dup2(nothing if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    os.environ.clear()
    os.environ.update(order["environment"])
    if order["point"] is not None:
        arm(POINTS[order["point"]])
    for place, value in order["constants"].items():
        module, _, name = place.partition(":")
        setattr(importlib.import_module(module), name, value)
    sys.argv[:] = ["benchkit", *order["arguments"]]
    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    from benchkit.cli.app import main

    for module in ("execute", "cli.live", "hosts.ssh", "lab.lab", "planning.make", "run.resume", "analysis.claims"):
        importlib.import_module(f"benchkit.{module}")
    serve(main)
