"""The started process that each process of the host descends from, including orphans."""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Optional, Tuple

from benchkit.agent.proc import ProcStat

UNKNOWN_OWNER = 0
"""Number for orphans that descend from the agent by an unknown process."""


def members(
    everything: Dict[int, ProcStat],
    by_pid: Dict[int, int],
    by_session: Dict[int, int],
    by_tag: Callable[[int], Optional[int]],
    *,
    subreaper: bool,
) -> Dict[int, List[ProcStat]]:
    """Return the live processes of each started process, by its number.

    `everything` has all processes of the host; `by_pid` the running started processes; `by_session` also those that
    ended, as a session can outlive its leader; `by_tag` returns the number in the environment of a pid. A subreaper
    remains an ancestor of everything it started; without one, orphans move to init and are recognised by session or
    tag.
    """
    agent = os.getpid()
    found: Dict[int, List[ProcStat]] = {}
    for process in everything.values():
        if process.state in "ZX":
            continue
        number, top = _climb(process, everything, by_pid, agent)
        is_orphan = number is None and top.parent == agent
        if number is None and (is_orphan or not subreaper):
            number = by_session.get(process.session) or by_tag(top.pid)
        if number is not None or is_orphan:
            found.setdefault(number or UNKNOWN_OWNER, []).append(process)
    return found


def _climb(
    process: ProcStat, everything: Dict[int, ProcStat], by_pid: Dict[int, int], agent: int
) -> Tuple[Optional[int], ProcStat]:
    """Return the number of the started process above this one, if any, and the last ancestor reached."""
    current = process
    while current.pid not in by_pid:
        parent = everything.get(current.parent)
        if parent is None or current.parent == agent or parent.start > current.start:  # the last: the pid was reused
            return None, current
        current = parent
    return by_pid[current.pid], current
