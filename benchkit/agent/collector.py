"""Samples of a source on the host, and readers of the kernel's files."""

from __future__ import annotations

from typing import Callable, Dict, Optional, Tuple

MetricKey = Tuple[str, Optional[str]]
"""A metric of `benchkit.models.telemetry`, and its instance where it has one."""

Values = Dict[MetricKey, float]
"""One sample of a source, in seconds, bytes or counts."""

Collector = Callable[[], Values]
"""Reads a source. Raises UnavailableError or OSError where it has no data."""


class UnavailableError(Exception):
    """Data that cannot be sampled on this host, with the reason."""


def read_file(path: str) -> bytes:
    """Return the content of a file of the kernel. Raises OSError."""
    with open(path, "rb") as file:  # noqa: PTH123 - for each process and thread, often
        return file.read()


def number_after(content: bytes, word: bytes) -> Optional[int]:
    """Return the number after `word` at the start of a line; None where no line starts with it."""
    start = content.find(b"\n" + word)
    if start < 0:
        return None
    return int(content[start + 1 + len(word) : start + 1 + len(word) + 24].split(None, 1)[0])
