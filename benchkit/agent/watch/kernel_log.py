"""Warnings of the kernel's log about a service: `Possible SYN flooding on port …`.

The kernel writes it once for each listening socket, when the queue of its half-open connections is full
(`tcp_syn_flood_action` in net/ipv4/tcp_input.c), and not at all while many other messages of the network are written.
"""

from __future__ import annotations

import os
import re
from typing import Optional, Tuple

from benchkit.agent.watch.collector import Collector, Values

PATH = "/dev/kmsg"
RECORD_BYTES = 8192
"""The longest record of the log: a read with less room fails (Documentation/ABI/testing/dev-kmsg)."""

_RECORD = re.compile(rb"([0-9]+),[^;]*;[^\n]*Possible SYN flooding on port (?:([^ ]+):)?([0-9]+)\. ")
_FACILITY_BITS = 3
"""The first number of a record has its severity in this many bits, and above them its facility: 0 for the kernel."""
_ANY_ADDRESS = (None, "0.0.0.0", "[::]")  # noqa: S104 - compared, not bound
"""Addresses of the warning that may be any of the host's; older kernels print none."""


class SynFloodWarnings(Collector):
    """Number of warnings about a service's port since the collector was created.

    A host that does not show its log to the login user (`kernel.dmesg_restrict`) has no samples, and none is missed:
    the kernel's counters say the same with numbers.
    """

    def __init__(self, address: str, port: int) -> None:
        """Read from the end of the log on: earlier warnings are of earlier services."""
        self._address, self._port = address, port
        self._warnings = 0
        self._fd = _open_log()

    def sample(self) -> Values:
        """Read all new records of the log; return nothing where it cannot be read."""
        if self._fd is None:
            return {}
        while True:
            try:
                record = os.read(self._fd, RECORD_BYTES)
            except BlockingIOError:
                return {("syn_flood_warnings_total", None): self._warnings}
            except BrokenPipeError:  # the oldest unread records were overwritten: the next read goes on after them
                continue
            self._warnings += self._is_about_service(warned_socket(record))

    def close(self) -> None:
        """Close the log."""
        if self._fd is not None:
            os.close(self._fd)

    def _is_about_service(self, socket: Optional[Tuple[Optional[str], int]]) -> bool:
        return socket is not None and socket[1] == self._port and socket[0] in (*_ANY_ADDRESS, self._address)


def warned_socket(record: bytes) -> Optional[Tuple[Optional[str], int]]:
    """Return address (None: not printed) and port of a warning of SYN flooding; None for any other record."""
    found = _RECORD.match(record)
    if found is None or int(found[1]) >> _FACILITY_BITS:
        return None
    return found[2].decode() if found[2] is not None else None, int(found[3])


def _open_log() -> Optional[int]:
    """Open the log at its end; None where there is none, or it is not shown to this user."""
    try:
        fd = os.open(PATH, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    os.lseek(fd, 0, os.SEEK_END)
    return fd
