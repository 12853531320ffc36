"""A runner of installation steps on a host."""

from __future__ import annotations

import os

from benchkit.hosts.agent_link import RefusedError
from benchkit.hosts.host import Host
from benchkit.hosts.packages import SBIN
from benchkit.hosts.steps import StepOutcome

STEP_TIMEOUT_S = 1800.0
"""Time for a step: a package manager waits for its lock (DPkg::Lock::Timeout) and downloads over slow links."""
OUTPUT_BYTES = 64 << 10
NOT_FOUND = 127
SYSTEM_PATH = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", *SBIN))
"""PATH of installation steps; dpkg requires the folders of daemons."""


class HostRunner:
    """Runs steps on a host as its login user; their output is returned when they end."""

    def __init__(self, host: Host) -> None:
        """Run steps on this host."""
        self._host = host

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command and wait for its end. Raises HostError where the host is lost."""
        try:
            done = self._host.processes.run(
                argv,
                env={"PATH": SYSTEM_PATH},
                stdin=(stdin or "").encode(),
                timeout_s=STEP_TIMEOUT_S,
                max_bytes=OUTPUT_BYTES,
            )
        except RefusedError as error:
            if error.kind != "not-found":
                raise
            return StepOutcome(NOT_FOUND, f"{argv[0]}: not found")
        code = done.ended.exit_code
        text = (done.stderr or done.stdout).decode(errors="replace") if shown else ""
        return StepOutcome(-(done.ended.signal or 0) if code is None else code, text)
