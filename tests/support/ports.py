"""Ports for servers of tests on this machine."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from itertools import islice
from pathlib import Path


def free_ports(number: int) -> list[int]:
    """Return TCP ports on which nothing listens, and which the kernel gives to no connection of another test."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    drawn = random.sample(range(first // 2, first), 100)
    found = list(islice((port for port in drawn if _is_free(port)), number))
    assert len(found) == number, "a hundred ports are taken"
    return found


def free_port() -> int:
    """Return one such port."""
    return free_ports(1)[0]


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.socket() as made:
        made.bind(("127.0.0.1", port))
        return True
    return False
