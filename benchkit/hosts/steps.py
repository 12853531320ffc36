"""Installation steps: run on a machine in order, with clean-up steps when one fails or is interrupted."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from benchkit.errors import HostError
from benchkit.hosts.packages import SBIN

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """One command of an installation, as an argument list."""

    argv: tuple[str, ...]
    stdin: str | None = None
    always: bool = False
    """True for a clean-up step, which runs also after an earlier step failed or was interrupted."""
    retry_after: tuple[str, ...] | None = None
    """Command to run where `argv` fails, before `argv` is tried a second time."""


@dataclass(frozen=True)
class StepOutcome:
    """The end of a command."""

    code: int
    text: str = ""
    """Its output, where that was not shown already."""


class Runner(Protocol):
    """The interface of a machine that runs steps: this one, or a host over SSH."""

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command and wait for its end; `shown`: show its output. Code 127: the command does not exist."""
        ...


class LocalRunner:
    """Runs steps on this machine. Their output goes to stderr: stdout is for results."""

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command and wait for it, also when interrupted: a killed package manager leaves a broken machine."""
        sys.stderr.flush()
        path = os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN))  # dpkg requires these folders
        if shutil.which(argv[0], path=path) is None:  # exec may report a folder on the PATH that this user may not read
            return StepOutcome(127, f"{argv[0]}: not found")
        # From a terminal the command received the signal, too, and ends in its own way.
        with _deferred_signals():
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=sys.stderr if shown else subprocess.DEVNULL,
                stderr=None if shown else subprocess.DEVNULL,
                env=os.environ | {"PATH": path},
                text=True,
            )
            process.communicate(stdin)
        return StepOutcome(process.returncode)


@contextmanager
def _deferred_signals() -> Iterator[None]:
    """Give the first signal that arrives meanwhile to its handler at the end.

    An exception raised within `Popen.communicate` may leave its lock taken: the next wait would never end.
    """
    handlers: dict[signal.Signals, Callable[[int, FrameType | None], object]] = {}
    received: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():  # no other thread has signals
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(number)):
                handlers[number] = handler
                signal.signal(number, lambda received_number, _: received.append(signal.Signals(received_number)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        handlers[received[0]](received[0], None)


def run_steps(steps: Iterable[Step], runner: Runner, *, where: str | None = None) -> None:
    """Run steps in order.

    After a step that fails or is interrupted only those marked `always` run. Raises HostError naming the command that
    failed, and the clean-up commands that failed after it.
    """
    remaining = iter(steps)
    try:
        for step in remaining:
            _run_step(step, runner, where)
    except HostError as error:
        failed = tuple(_clean_up(remaining, runner))
        if not failed:
            raise
        raise HostError(error.what, where=where, why=error.why, hint=f"run this by hand: {'; '.join(failed)}") from None
    except BaseException as error:  # mostly an interrupt: what only the installation needs must be removed
        for line in _clean_up(remaining, runner):
            error.add_note(f"not done: {line}")
        raise


def _run_step(step: Step, runner: Runner, where: str | None) -> None:
    logger.info("%s: running %s", where or "here", step.argv[0])
    outcome = runner.run(step.argv, stdin=step.stdin)
    if outcome.code != 0 and step.retry_after is not None:
        runner.run(step.retry_after)
        outcome = runner.run(step.argv, stdin=step.stdin)
    if outcome.code != 0:
        ended = f"exit code {outcome.code}" if outcome.code >= 0 else f"signal {-outcome.code}"
        why = f"{outcome.text.strip()} ({ended})" if outcome.text.strip() else ended
        raise HostError(f"`{shlex.join(step.argv)}` failed", where=where, why=why)


def _clean_up(remaining: Iterator[Step], runner: Runner) -> Iterator[str]:
    """Run the remaining clean-up steps; yield the commands that failed."""
    for step in remaining:
        if step.always and runner.run(step.argv, stdin=step.stdin).code != 0:
            yield shlex.join(step.argv)
