"""The agent's entry: `python3 agent.pyz [--lease SECONDS] WORKDIR`, with frames on stdin and stdout."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import List

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import FAILURE_PREFIX
from benchkit.agent.lease import Lease
from benchkit.agent.records import Records
from benchkit.agent.server import Agent
from benchkit.agent.watchdog import run_under_watchdog
from benchkit.agent.workdir import Workdir


def main(argv: List[str]) -> int:
    """Run the agent under a watchdog; return 3 if the work directory cannot be used, 1 if the agent was killed."""
    lease_s = float(argv[1]) if argv[:1] == ["--lease"] else 0.0
    try:
        workdir = Workdir(argv[-1])
    except RefusedError as error:
        print(": ".join(filter(None, (error.what, error.why))), file=sys.stderr)
        return 3
    return run_under_watchdog(workdir, lease_s, lambda lease, records: serve(workdir, lease, records))


def serve(workdir: Workdir, lease: Lease, records: Records) -> int:
    """Run the agent until it ends."""
    requests, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)  # prints must not get between the frames
    os.chdir(str(workdir.root))
    os.umask(0o022)  # whatever the login has: modes of files and folders are those that the agent states
    agent = Agent(workdir, records, lease, requests, answers)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: agent.end())
    reason = agent.serve()
    with contextlib.suppress(OSError):  # the controller may have disconnected
        for failure in agent.close(reason):
            print(f"{FAILURE_PREFIX}{failure} ({reason})", file=sys.stderr, flush=True)
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    return 0
