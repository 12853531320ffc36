"""Termination signals: the first ends a command in order, a second prints a line, a third ends the clean-up."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

STILL_RESTORING = (
    "stopping services and restoring hosts; once more leaves that to the watchdogs on the hosts, within a minute"
)

_AGAIN_S = 0.1
"""Time after which an ignored signal is sent again: the callback that it hit has ended by then."""


@dataclass
class Signals:
    """Termination signals received so far."""

    received: int = 0

    @property
    def abandoned(self) -> bool:
        """True if the user did not wait for the end of the clean-up."""
        return self.received > 2  # noqa: PLR2004 - see `signals_interrupt`


_active: list[Signals] = []
"""The signals of the outermost `signals_interrupt` that is running, if one is."""


@contextmanager
def signals_interrupt() -> Iterator[Signals]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into KeyboardInterrupt, once, so that clean-up is not interrupted in turn.

    A second signal prints that clean-up continues; from the third on each raises KeyboardInterrupt again. Python
    ignores exceptions in callbacks of weak references and in finalizers: a signal that arrives there is sent again.
    """
    if _active:  # nested: the outer block keeps its handlers, and counts signals for both
        yield _active[-1]
        return
    signals = Signals()

    def interrupt(_number: int, _frame: object) -> None:
        signals.received += 1
        if signals.received == 2:  # noqa: PLR2004 - the second signal
            print(STILL_RESTORING, file=sys.stderr, flush=True)
        else:
            raise KeyboardInterrupt

    def repeat(ignored: sys.UnraisableHookArgs) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            report_ignored(ignored)
            return
        signals.received -= 1
        again = threading.Timer(_AGAIN_S, os.kill, [os.getpid(), signal.SIGINT])
        again.daemon = True
        again.start()

    _active.append(signals)
    former = [signal.signal(number, interrupt) for number in HANDLED]
    report_ignored, sys.unraisablehook = sys.unraisablehook, repeat
    try:
        yield signals
    finally:
        _active.clear()
        sys.unraisablehook = report_ignored
        for number, handler in zip(HANDLED, former, strict=True):
            signal.signal(number, handler)
