"""Ends asked for by signal clear up as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDINGS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Turn a closed terminal or a stopped job into KeyboardInterrupt, so that nothing is left half done."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    former = [signal.signal(number, interrupt) for number in ENDINGS]
    try:
        yield
    finally:
        for number, handler in zip(ENDINGS, former, strict=True):
            signal.signal(number, handler)
