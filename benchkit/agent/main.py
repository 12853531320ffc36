"""The agent's entry: `python3 agent.pyz [--lease SECONDS] WORKDIR`, with frames on stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import List

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import COMPLAINT
from benchkit.agent.lease import Lease
from benchkit.agent.records import Records
from benchkit.agent.server import Agent
from benchkit.agent.watchdog import guarded
from benchkit.agent.workdir import Workdir


def main(argv: List[str]) -> int:
    """Serve stdin and stdout below a guardian; exit code 3 where the work directory is none, 1 where the agent is killed."""
    lease_s = float(argv[1]) if argv[:1] == ["--lease"] else 0.0
    try:
        workdir = Workdir(argv[-1])
    except RefusedError as error:
        print(": ".join(filter(None, (error.what, error.why))), file=sys.stderr)
        return 3
    return guarded(workdir, lease_s, lambda guard, records: serve(workdir, guard, records))


def serve(workdir: Workdir, guard: Lease, records: Records) -> int:
    """Be the agent, to its end."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # whatever prints must not print among the frames
    os.chdir(str(workdir.root))
    agent = Agent(workdir, records, guard, requests, answers)
    for ending in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(ending, lambda *_: agent.end())
    reason = agent.serve()
    with contextlib.suppress(OSError):  # there may be nobody left to tell
        for failure in agent.close(reason):
            print(f"{COMPLAINT}{failure} ({reason})", file=sys.stderr, flush=True)
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    return 0
