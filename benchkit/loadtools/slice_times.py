"""The time of a slice beyond its window: its lead, in which the load tool opens connections, and a margin. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

from benchkit.loadtools.registry import get_tool
from benchkit.models.load import Load

LEAST_LEAD_S = 0.02
"""Time from the start of a load tool to its first requests, on a busy core: h2load took 10 ms to its end with one
request on each of 16 connections, and 20 to 30 ms on 100."""
CONNECT_S = 0.0003
"""Time to open a connection, where one core connects and another accepts: the last of 1,000 connections had its first
answer 0.12 s (h2load) and 0.21 s (openloop) after the start of the tool, of 4,000 after 0.37 and 0.69 s (medians of
five). On a machine that others kept busy it took h2load 0.27 to 0.40 s for 1,000."""
HANDSHAKE_S = 0.0007
"""The same for a full handshake of TLS: nginx took 0.68 ms of CPU time for one with RSA-2048, 0.47 ms with ECDSA."""
MARGIN_S = 0.01
"""Time from the end of a window to the next start: the start of a tool, by which its measured time ends later."""


class Pauses(NamedTuple):
    """The time of a slice before and after its window, in seconds."""

    lead_s: float
    margin_s: float


def pauses(load: Load, *, has_tls: bool = False) -> Pauses:
    """Return the lead of a slice, and the margin in which its load tools end before the next ones start."""
    return Pauses(lead_s(load, has_tls=has_tls), round(MARGIN_S + get_tool(load.tool).overrun_s, 3))


def lead_s(load: Load, *, has_tls: bool = False) -> float:
    """Return the time from the start of the load tools of a slice to its window, in seconds; whole milliseconds.

    It grows with the connections of all generators together, as the servers accept all of them. A tool that opens them
    within its measured time needs no more than its start.
    """
    if get_tool(load.tool).lead is None:
        return LEAST_LEAD_S
    return max(LEAST_LEAD_S, math.ceil(round(connect_s(load, has_tls=has_tls) * 1000, 6)) / 1000)


def connect_s(load: Load, *, has_tls: bool = False) -> float:
    """Return the time to open all connections of a load, in seconds."""
    return load.connections * (CONNECT_S + has_tls * HANDSHAKE_S)


def turn_s(pauses: Pauses, slice_s: float) -> float:
    """Return the time that a slice takes with its lead and margin, in seconds."""
    return pauses.lead_s + slice_s + pauses.margin_s
