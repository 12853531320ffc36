"""Files for SSH access to a lab's hosts: keys, known_hosts, and a configuration for `ssh` on the command line."""

from __future__ import annotations

import os
import pwd
import sys
from pathlib import Path

from benchkit.errors import HostError
from benchkit.lab import openssh
from benchkit.lab.processes import MARK_VARIABLE, process_mark
from benchkit.lab.state import HostState, LabFolder, LabState

_NO_SHELLS = frozenset({"false", "nologin"})


def write_access(ssh_keygen: str, folder: LabFolder, state: LabState) -> None:
    """Create a key pair for the client and one for each host, and write known_hosts and the client's configuration."""
    openssh.make_keys(ssh_keygen, [folder.identity, *(folder.host_key(host.name) for host in state.hosts)])
    folder.known_hosts.write_text(
        "".join(
            openssh.known_hosts_line(host.address, host.port, openssh.public_key(folder.host_key(host.name)))
            for host in state.hosts
        )
    )
    folder.ssh_config.write_text(
        openssh.client_config(
            [(host.name, host.address, host.port) for host in state.hosts],
            user=state.user,
            identity=folder.identity,
            known_hosts=folder.known_hosts,
        )
    )


def session_environment(folder: LabFolder, state: LabState, host: HostState) -> dict[str, str]:
    """Return the environment of every session on a host; `lab down` finds sessions by its mark.

    A bash that sshd starts reads ~/.bashrc only where it is the outermost shell (bash(1), SHLVL). What start-up files
    of the user print, wait for or leave behind has no place on a lab's hosts; of what they set, PATH is passed on,
    without the programs of benchkit's own environment.
    """
    mark = process_mark(folder.key, state.lab_id, f"host/{host.name}")
    programs = os.environ.get("PATH", os.defpath).split(os.pathsep)
    own = str(Path(sys.prefix) / "bin") if sys.prefix != sys.base_prefix else None
    return {MARK_VARIABLE: mark, "PATH": os.pathsep.join(each for each in programs if each != own), "SHLVL": "1"}


def login_account() -> str:
    """Return the account that this process runs as. Raises HostError where it does not allow logins."""
    number = os.geteuid()
    try:
        account = pwd.getpwuid(number)
    except KeyError:
        raise HostError("cannot log in to this account", why=f"user {number} has no entry in /etc/passwd") from None
    shell = Path(account.pw_shell or "/bin/sh")
    if shell.name in _NO_SHELLS or not os.access(shell, os.X_OK):
        raise HostError(
            f"cannot log in as {account.pw_name}",
            why=f"its shell is {shell}",
            hint="run `benchkit lab up` as a user with a login shell",
        )
    return account.pw_name
