"""Limits of time for load tools: a tool that has not ended by itself at its limit is ended. Pure.

h2load 1.52 has no end of its own where a connection is not established when its window ends: it sends requests on that
connection for ever (read from its source: `stop_all_clients` reaches only clients with a session). This is common with
servers that have a short listen queue, and with those that close connections.
"""

from __future__ import annotations

from benchkit.loadtools.registry import get_tool
from benchkit.models.load import Load

LONGEST_ANSWER_S = 30.0
"""Longest time for the answers to the last requests: the time-out of most load tools."""
SLOWEST_RPS = 100.0
"""Rate below which a generator with a count of requests is considered stuck."""


def grace_s(load: Load) -> float:
    """Return the time after its window in which a load tool may wait for the answers to its last requests, in seconds.

    It is as long as the window: a server that takes longer than that answered nothing within it. Open loops wait for
    as long as any does, since their late answers are a part of what they measure.
    """
    rate = get_tool(load.tool).rate
    is_open = load.rate is not None and rate is not None and rate.is_open
    return LONGEST_ANSWER_S if is_open else min(load.duration_s or LONGEST_ANSWER_S, LONGEST_ANSWER_S)


def time_limit_s(load: Load) -> float:
    """Return the longest time that a generator with this load may take, in seconds."""
    if load.duration_s is not None:
        return load.duration_s + grace_s(load) + get_tool(load.tool).own_s
    slowest_rps = SLOWEST_RPS if load.rate is None else min(load.rate, SLOWEST_RPS)
    return (load.request_count or 0) / slowest_rps + LONGEST_ANSWER_S
