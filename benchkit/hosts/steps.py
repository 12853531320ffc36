"""Carrying out installation steps on a machine, and leaving nothing half done when one fails or is interrupted."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from benchkit.errors import HostError
from benchkit.hosts.packages import SBIN


@dataclass(frozen=True)
class Step:
    """One command of an installation, as an argument list."""

    argv: tuple[str, ...]
    stdin: str | None = None
    always: bool = False
    """Carried out also after a step before it failed or was interrupted: it takes back what must not stay."""
    retry_after: tuple[str, ...] | None = None
    """Where `argv` fails, this is run, and then `argv` once more."""


@dataclass(frozen=True)
class StepOutcome:
    """How a command ended."""

    code: int
    text: str = ""
    """What it printed, where that has not been shown already."""


class Runner(Protocol):
    """Where steps are carried out: this machine, or a host over SSH."""

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command to its end; `shown` where people may want to see what it prints. Code 127: there is no such command."""
        ...


class LocalRunner:
    """This machine. What commands print goes to stderr, for stdout is for results."""

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command to its end, through interrupts: a package manager killed half-way leaves a broken machine."""
        sys.stderr.flush()
        path = os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN))  # dpkg refuses to work without them
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=sys.stderr if shown else subprocess.DEVNULL,
                stderr=None if shown else subprocess.DEVNULL,
                env=os.environ | {"PATH": path},
                text=True,
            )
        except FileNotFoundError:
            return StepOutcome(127, f"{argv[0]}: not found")
        interrupted = False
        pending = stdin
        while True:
            try:
                process.communicate(pending)
            except KeyboardInterrupt:  # from a terminal the command got it too, and ends as it sees fit
                interrupted = True
                pending = None
            else:
                break
        if interrupted:
            raise KeyboardInterrupt
        return StepOutcome(process.returncode)


def carry_out(steps: Iterable[Step], runner: Runner, *, where: str | None = None) -> None:
    """Carry out steps in order.

    After a step that fails or is interrupted only those marked `always` are carried out. Raises HostError naming the
    command that failed, and those of the clearing up that failed after it.
    """
    remaining = iter(steps)
    try:
        for step in remaining:
            _take(step, runner, where)
    except HostError as error:
        undone = tuple(_clear_up(remaining, runner))
        if not undone:
            raise
        raise HostError(error.what, where=where, why=error.why, hint=f"not done either: {'; '.join(undone)}") from None
    except BaseException as error:  # an interrupt, above all: nothing may stay that only the installation needed
        for line in _clear_up(remaining, runner):
            error.add_note(f"not done: {line}")
        raise


def _take(step: Step, runner: Runner, where: str | None) -> None:
    outcome = runner.run(step.argv, stdin=step.stdin)
    if outcome.code != 0 and step.retry_after is not None:
        runner.run(step.retry_after)
        outcome = runner.run(step.argv, stdin=step.stdin)
    if outcome.code != 0:
        ended = f"exit code {outcome.code}" if outcome.code >= 0 else f"signal {-outcome.code}"
        why = f"{outcome.text.strip()} ({ended})" if outcome.text.strip() else ended
        raise HostError(f"`{shlex.join(step.argv)}` failed", where=where, why=why)


def _clear_up(remaining: Iterator[Step], runner: Runner) -> Iterator[str]:
    """Carry out what must be done after a failure; the commands that failed."""
    for step in remaining:
        if step.always and runner.run(step.argv, stdin=step.stdin).code != 0:
            yield shlex.join(step.argv)
