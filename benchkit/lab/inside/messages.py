"""Messages between the processes of a lab: one JSON object per line, over stdin and stdout."""

from __future__ import annotations

import json
import os
from typing import IO, Any


def send(message: dict[str, Any]) -> None:
    """Write one message to stdout with a single system call: several processes may share the pipe."""
    os.write(1, json.dumps(message).encode() + b"\n")


def receive(stream: IO[str]) -> dict[str, Any] | None:
    """Return the next message of a stream; None at its end."""
    line = stream.readline()
    message: dict[str, Any] | None = json.loads(line) if line.endswith("\n") else None
    return message


def detach_streams() -> None:
    """Replace stdin and stdout by /dev/null, after the last message."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
