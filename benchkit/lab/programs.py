"""The machine's programs that a lab is made with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping

from benchkit.errors import InputError

_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where administrators' programs are; a user's PATH often leaves these out."""
_VERSION = re.compile(r"OpenSSH_(\d+)\.(\d+)")


def find_programs(names: Iterable[str]) -> dict[str, str]:
    """Where each program is. Raises InputError naming all that are missing and the one line that installs them."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS])
    found = {name: shutil.which(name, path=path) for name in names}
    if missing := [name for name, where in found.items() if where is None]:
        raise InputError(
            f"not on this machine: {', '.join(missing)}",
            where="lab",
            hint="run `benchkit lab prepare`, which installs what a lab needs, or says how",
        )
    return {name: where for name, where in found.items() if where is not None}


def openssh_version(sshd: str) -> tuple[int, int]:
    """Major and minor version of an OpenSSH server; (0, 0) where it does not say.

    Servers before 9.2 have no -V, but name their version beside the complaint about it.
    """
    said = subprocess.run([sshd, "-V"], capture_output=True, text=True, check=False)
    match = _VERSION.search(said.stderr + said.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """What the first processes of a lab get as their environment: nothing of the caller's session."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **extra}
