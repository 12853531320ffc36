"""Text of others without the secrets of this process."""

from __future__ import annotations

from benchkit.errors import HostError
from benchkit.safe_text import redact_from_now_on, redacted, redacted_bytes


def test_known_values_and_their_credentials_are_replaced_in_place() -> None:
    redact_from_now_on("Bearer c0ffee-c0ffee")
    redact_from_now_on("short")
    assert redacted("got Bearer c0ffee-c0ffee, short") == f"got {'*' * 20}, short"
    assert redacted_bytes(b"\0token=c0ffee-c0ffee\xff") == b"\0token=" + b"*" * 13 + b"\xff"


def test_messages_quote_no_known_value() -> None:
    redact_from_now_on("Basic dXNlcjpwYXNz")
    error = HostError("h2load failed", why="unknown header dXNlcjpwYXNz")
    assert str(error) == f"h2load failed: unknown header {'*' * 12}"
