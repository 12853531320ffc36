"""Workers: the testbeds of a run at the same time, one thread for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

WAKE_S = 0.2
"""Time in which an interruption is noticed. A wait without an end may sleep on through a signal: libraries can have
signals restart system calls (SA_RESTART in sigaction(2))."""


def run_concurrently(
    works: Sequence[Callable[[], None]], *, stop: Callable[[], None], abort: Callable[[], None]
) -> None:
    """Do all of these works at the same time, and return when all have ended; a single one in this thread.

    After an error of one, `stop` has the others end after their present trial; the first error is raised then. At an
    interruption, which reaches this thread alone, `abort` makes the others fail at once.
    """
    if len(works) == 1:
        works[0]()
        return
    pool = ThreadPoolExecutor(len(works), thread_name_prefix="testbed")
    try:
        futures = [pool.submit(work) for work in works]
        try:
            _wait_for_error(futures)
            stop()
            wait(futures)
        except KeyboardInterrupt:
            stop()
            abort()
            wait(futures)
            raise
        for future in futures:
            future.result()
    finally:
        pool.shutdown(wait=False)


def _wait_for_error(futures: Sequence[Future[None]]) -> None:
    """Wait until one has failed, or all have ended."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=WAKE_S, return_when=FIRST_EXCEPTION)
        if any(future.exception() is not None for future in done):
            return
