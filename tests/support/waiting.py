"""Waiting, within bounds, for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(is_so: Callable[[], bool], timeout_s: float = 180) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)
