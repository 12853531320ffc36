"""Facts about the host, which the controller plans with."""

from __future__ import annotations

import os
import resource
import shutil
import sys
import threading
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from benchkit.agent.cgroups import writable_parent
from benchkit.agent.common import RefusedError, describe_full_disk, read_text
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
    service_account,
    user_name,
    virtualisation,
)
from benchkit.agent.processes import Processes
from benchkit.agent.sysctls import Sysctls
from benchkit.agent.workdir import Workdir

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/go/bin")
"""Folders of programs that are often missing in the PATH of an ordinary user, or of a shell without a login."""


class Facts:
    """Gathers the facts about the host."""

    VERSION_TIMEOUT_S = 5.0

    def __init__(self, workdir: Workdir, processes: Processes, sysctls: Sysctls) -> None:
        self._workdir = workdir
        self._processes = processes
        self._sysctls = sysctls
        self._versions: Dict[Tuple[str, ...], Tuple[int, Optional[str]]] = {}

    def facts(
        self, *, tools: Dict[str, List[str]], sysctls: List[str], sudo: bool = False, files: Sequence[str] = ()
    ) -> Json:
        """Return all facts. `tools`: name → command that prints the version (one word: only search for the program).

        `files`: paths whose size and time of change are returned. `full_disk` describes the disk of the work directory
        where it is full.
        """
        programs: Dict[str, Json] = {}
        threads = [
            threading.Thread(target=self._find_program, args=(name, argv, programs), daemon=True)
            for name, argv in tools.items()
        ]
        for thread in threads:
            thread.start()
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
            "cpus": cpus,
            "cpu_model": cpu_model(),
            "cores": physical_cores(),
            "memory_bytes": memory_bytes(),
            "user": user_name(),
            "uid": os.geteuid(),
            "service_account": service_account() if os.geteuid() == 0 else None,
            "can_sudo": self._can_sudo() if sudo else None,
            "cpu_groups": writable_parent() is not None,
            "nofile_soft": None if soft == resource.RLIM_INFINITY else soft,
            "nofile_hard": None if hard == resource.RLIM_INFINITY else hard,
            "boot_id": read_text("/proc/sys/kernel/random/boot_id"),
            "interfaces": interfaces(),
            "governor": governor(cpus),
            "virtualisation": virtualisation(),
            "sysctls": self._sysctls.read(keys=sysctls)["sysctls"],
            "workdir": str(self._workdir.root),
            "controller_address": os.environ.get("SSH_CONNECTION", "").partition(" ")[0] or None,
        }
        for thread in threads:
            thread.join()
        return {
            "facts": {**facts, "tools": programs},
            "files": {path: _file(path) for path in files},
            "full_disk": describe_full_disk(self._workdir.root),
        }

    def _find_program(self, name: str, argv: List[str], programs: Dict[str, Json]) -> None:
        folders = os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN))
        path = shutil.which(argv[0], path=folders)
        if path is not None:
            programs[name] = {"path": path, "text": self._version(path, argv[1:])}

    def _version(self, path: str, options: List[str]) -> Optional[str]:
        """Return what a program prints with these options; run again only after the file has changed."""
        if not options:
            return None
        key, changed = (path, *options), Path(path).stat().st_mtime_ns
        if key not in self._versions or self._versions[key][0] != changed:
            # HOME: siege writes a configuration there. GOTOOLCHAIN: go must not download another release to print its
            # version.
            env: Dict[str, Optional[str]] = {
                "HOME": str(self._workdir.root / "home"),
                "LC_ALL": "C",
                "GOTOOLCHAIN": "local",
                "GOFLAGS": None,
            }
            try:
                _, text = self._processes.run_for_agent(Command([path, *options], env), self.VERSION_TIMEOUT_S)
            except RefusedError:
                return None
            self._versions[key] = (changed, text)
        return self._versions[key][1]

    def _can_sudo(self) -> bool:
        try:
            exit_code, _ = self._processes.run_for_agent(Command(["sudo", "-n", "--", "true"]), self.VERSION_TIMEOUT_S)
        except RefusedError:
            return False
        return exit_code == 0


def _file(path: str) -> Optional[Json]:
    """Return size and time of change of a file, after following links; None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a path from a message
    except OSError:
        return None
    return {"bytes": status.st_size, "changed_s": status.st_mtime}
