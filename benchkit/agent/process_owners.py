"""Whose is a process? Descendants belong to what the agent started, and so do orphans that were."""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Optional, Tuple

from benchkit.agent.proc import ProcStat

NOBODYS = 0
"""The number under which orphans stand that descend from the agent, and no more is known of them."""


def members(
    everything: Dict[int, ProcStat],
    by_pid: Dict[int, int],
    by_session: Dict[int, int],
    by_tag: Callable[[int], Optional[int]],
    *,
    subreaper: bool,
) -> Dict[int, List[ProcStat]]:
    """The living processes of each thing started: its number → processes.

    `everything` has all processes of the host. `by_pid` has what runs, `by_session` also what ended: a session outlives its leader. `by_tag` looks a pid up by the
    environment it was started with. As a subreaper the agent is an ancestor of all that it started, for ever; without,
    orphans go to init, and their session is all there is to know them by.
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
            found.setdefault(number or NOBODYS, []).append(process)
    return found


def _climb(
    process: ProcStat, everything: Dict[int, ProcStat], by_pid: Dict[int, int], agent: int
) -> Tuple[Optional[int], ProcStat]:
    """The number of the started process that this one descends from, if any; the last ancestor that was looked at."""
    here = process
    while here.pid not in by_pid:
        parent = everything.get(here.parent)
        if parent is None or here.parent == agent or parent.start > here.start:  # the last: a pid used again
            return None, here
        here = parent
    return by_pid[here.pid], here
