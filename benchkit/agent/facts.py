"""What the controller wants to know of a host before it plans."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from benchkit.agent.cgroups import where
from benchkit.agent.common import RefusedError, read_text
from benchkit.agent.frames import Json
from benchkit.agent.interfaces import interfaces
from benchkit.agent.launch import Command
from benchkit.agent.machine import (
    cpu_model,
    distribution,
    glibc_version,
    governor,
    memory_bytes,
    physical_cores,
    user_name,
    virtualisation,
)
from benchkit.agent.proc import TICKS
from benchkit.agent.processes import Processes
from benchkit.agent.psutil_copy import Psutil
from benchkit.agent.sysctls import Sysctls
from benchkit.agent.workdir import Workdir

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/go/bin")
"""Where programs are that the PATH of an ordinary user, or of a shell without a login, often lacks."""


class Facts:
    """What the controller wants to know before it plans."""

    ASK_S = 5.0

    def __init__(self, workdir: Workdir, processes: Processes, sysctls: Sysctls, psutil: Psutil) -> None:
        self._workdir = workdir
        self._processes = processes
        self._sysctls = sysctls
        self._psutil = psutil
        self._answers: Dict[Tuple[str, ...], Tuple[int, Optional[str]]] = {}

    def facts(
        self, *, tools: Dict[str, List[str]], sysctls: List[str], sudo: bool = False, files: Sequence[str] = ()
    ) -> Json:
        """All of it. `tools`: name → command that prints the version (one word: there is none, only look for it).

        `files`: paths of which only the size and the time of their last change are asked.
        """
        found: Dict[str, Json] = {}
        asking = [
            threading.Thread(target=self._look_for, args=(name, argv, found), daemon=True)
            for name, argv in tools.items()
        ]
        for thread in asking:
            thread.start()
        psutil = self._psutil.module()
        uname = os.uname()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        cpus = sorted(os.sched_getaffinity(0))
        facts = {
            "hostname": uname.nodename,
            "system": uname.sysname,
            "kernel": uname.release,
            "machine": uname.machine,
            "distribution": distribution(),
            "glibc": glibc_version(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "psutil": self._psutil.version(),
            "psutil_source": self._psutil.source,
            "cpus": cpus,
            "cpu_model": cpu_model(),
            "cores": physical_cores(psutil),
            "memory_bytes": psutil.virtual_memory().total if psutil else memory_bytes(),
            "user": user_name(),
            "uid": os.geteuid(),
            "can_sudo": self._can_sudo() if sudo else None,
            "cpu_groups": where() is not None,
            "nofile_soft": None if soft == resource.RLIM_INFINITY else soft,
            "nofile_hard": None if hard == resource.RLIM_INFINITY else hard,
            "boot_id": read_text("/proc/sys/kernel/random/boot_id"),
            "interfaces": interfaces(psutil),
            "governor": governor(cpus),
            "virtualisation": virtualisation(),
            "sysctls": self._sysctls.read(keys=sysctls)["sysctls"],
            "workdir": str(self._workdir.root),
        }
        for thread in asking:
            thread.join()
        return {"facts": {**facts, "tools": found}, "files": {path: _file(path) for path in files}}

    def cores(self) -> Json:
        """CPU time of each core so far, in seconds by kind."""
        kinds = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
        found = {}
        for line in (read_text("/proc/stat") or "").splitlines():
            name, *ticks = line.split()
            if name.startswith("cpu") and name != "cpu":
                found[name[3:]] = {kind: int(value) / TICKS for kind, value in zip(kinds, ticks)}  # noqa: B905 - new kinds may follow; Python 3.8 has no strict
        return {"cores": found, "monotonic_ns": time.monotonic_ns()}

    def _look_for(self, name: str, argv: List[str], found: Dict[str, Json]) -> None:
        folders = os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN))
        path = shutil.which(argv[0], path=folders)
        if path is not None:
            found[name] = {"path": path, "text": self._ask(path, argv[1:])}

    def _ask(self, path: str, options: List[str]) -> Optional[str]:
        """What a program says of itself; asked once, as long as it stays the same file."""
        if not options:
            return None
        key, changed = (path, *options), Path(path).stat().st_mtime_ns
        if key not in self._answers or self._answers[key][0] != changed:
            # HOME: siege writes a configuration there. GOTOOLCHAIN: go must not fetch another release to say its own.
            env: Dict[str, Optional[str]] = {
                "HOME": str(self._workdir.root / "home"),
                "LC_ALL": "C",
                "GOTOOLCHAIN": "local",
                "GOFLAGS": None,
            }
            try:
                _, text = self._processes.ask(Command([path, *options], env), self.ASK_S)
            except RefusedError:
                return None
            self._answers[key] = (changed, text)
        return self._answers[key][1]

    def _can_sudo(self) -> bool:
        try:
            exit_code, _ = self._processes.ask(Command(["sudo", "-n", "--", "true"]), self.ASK_S)
        except RefusedError:
            return False
        return exit_code == 0


def _file(path: str) -> Optional[Json]:
    """The size of a file and when it was changed; of what a link leads to; None where there is nothing."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a path as it came
    except OSError:
        return None
    return {"bytes": found.st_size, "changed_s": found.st_mtime}
