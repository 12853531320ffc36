"""Termination signals handled as Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDINGS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt, so that clean-up happens."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    former = [signal.signal(number, interrupt) for number in ENDINGS]
    try:
        yield
    finally:
        for number, handler in zip(ENDINGS, former, strict=True):
            signal.signal(number, handler)
