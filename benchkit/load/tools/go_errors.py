"""What failed, by the words of Go's net and net/http, which hey and vegeta pass on."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchkit.models.load_result import Errors

_KINDS = (  # the first whose words occur takes the message
    ("timeout", re.compile(r"timeout|deadline exceeded|timed out", re.IGNORECASE)),
    ("connect", re.compile(r"\bdial |connection refused|no such host|connectex|assign requested address")),
    ("write", re.compile(r"\bwrite |broken pipe|can't write")),
    ("read", re.compile(r"\bread |EOF|connection reset|malformed HTTP|server closed")),
)


def errors_of(messages: Mapping[str, int], others: int = 0) -> Errors:
    """Counts by kind from counts by message, and `others` of which no message is known."""
    counts = {"connect": 0, "read": 0, "write": 0, "timeout": 0, "other": others}
    for message, times in messages.items():
        counts[next((kind for kind, words in _KINDS if words.search(message)), "other")] += times
    return Errors(**counts)
