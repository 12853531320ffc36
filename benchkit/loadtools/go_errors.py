"""Kinds of failed requests, told from the error messages of Go's net and net/http, which hey and vegeta print."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchkit.models.load_result import Errors

_KINDS = (  # the first pattern that matches decides
    ("timeout", re.compile(r"timeout|deadline exceeded|timed out", re.IGNORECASE)),
    ("connect", re.compile(r"\bdial |connection refused|no such host|connectex|assign requested address")),
    ("write", re.compile(r"\bwrite |broken pipe|can't write")),
    ("read", re.compile(r"\bread |EOF|connection reset|malformed HTTP|server closed")),
)


def errors_of(messages: Mapping[str, int], others: int = 0) -> Errors:
    """Return counts by kind from counts by message; `others` is the number of failures without a message."""
    counts = {"connect": 0, "read": 0, "write": 0, "timeout": 0, "other": others}
    for message, times in messages.items():
        counts[next((kind for kind, pattern in _KINDS if pattern.search(message)), "other")] += times
    return Errors(**counts)
