"""Programs of this machine that a lab needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping

from benchkit.errors import InputError

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of system programs, which a user's PATH often lacks."""
_VERSION = re.compile(r"OpenSSH_(\d+)\.(\d+)")


def find_programs(names: Iterable[str]) -> dict[str, str]:
    """Return the path of each program.

    Raises InputError naming all missing ones, with the command that installs them.
    """
    search_path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS])
    paths = {name: shutil.which(name, path=search_path) for name in names}
    if missing := [name for name, path in paths.items() if path is None]:
        raise InputError(
            f"missing on this machine: {', '.join(missing)}",
            where="lab",
            hint="run `benchkit lab prepare`, which installs them or prints how",
        )
    return {name: path for name, path in paths.items() if path is not None}


def openssh_version(sshd: str) -> tuple[int, int]:
    """Return major and minor version of an OpenSSH server; (0, 0) where it is unknown.

    Servers before 9.2 have no -V, but print their version with the error message about it.
    """
    completed = subprocess.run([sshd, "-V"], capture_output=True, text=True, check=False)
    match = _VERSION.search(completed.stderr + completed.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a lab's init processes: nothing of the caller's session, and `extra`."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **extra}
