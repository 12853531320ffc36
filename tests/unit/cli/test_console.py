"""Termination signals that arrive where Python ignores the exception of their handler."""

from __future__ import annotations

import signal
import sys
import time
import weakref

import pytest

from benchkit.cli import console
from benchkit.cli.console import signals_interrupt


class Garbage:
    """An object that weak references can refer to."""


def test_a_signal_in_a_callback_of_a_weak_reference_interrupts_a_moment_later(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_AGAIN_S", 0.5)  # so that a busy machine gets beyond the callback before
    garbage = Garbage()
    reference = weakref.ref(garbage, lambda _: signal.raise_signal(signal.SIGTERM))
    reached = []
    with signals_interrupt() as signals:
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the signal may arrive anywhere behind the callback
            del garbage
            reached.append(reference())
            time.sleep(30)
        assert (reached, signals.received, signals.abandoned) == ([None], 1, False)
    assert capsys.readouterr().err == ""


def test_other_exceptions_in_such_a_callback_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[type[BaseException]] = []

    def report(ignored: sys.UnraisableHookArgs) -> None:
        reported.append(ignored.exc_type)

    monkeypatch.setattr(sys, "unraisablehook", report)
    garbage = Garbage()
    reference = weakref.ref(garbage, lambda _: 1 / 0)
    with signals_interrupt() as signals:
        del garbage
        assert reference() is None
    assert (reported, signals.received) == ([ZeroDivisionError], 0)
    assert sys.unraisablehook is report
