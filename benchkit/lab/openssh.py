"""OpenSSH for a lab: temporary keys, configurations of servers and client, and sessions on the hosts."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

from benchkit.errors import HostError
from benchkit.lab.processes import MARK_VARIABLE, process_mark
from benchkit.lab.state import LabFolder, LabState, StartedHost

KEY_TYPE = "ed25519"
SSH_PORT = 22
_VERSION = re.compile(r"OpenSSH_(\d+)\.(\d+)")
PENALTIES_SINCE = (9, 8)
"""First version whose sshd blocks addresses that connect without a login, as `wait_for_banner` does.

Older versions reject the option that turns the blocking off (release notes of OpenSSH 9.8).
"""


KEYS_ONLY = (
    "PidFile none",
    "AuthenticationMethods publickey",
    "PasswordAuthentication no",
    "KbdInteractiveAuthentication no",
    "UsePAM no",
    "StrictModes no",  # the folder belongs to this user, but its parents may not
    "UseDNS no",
    "PrintMotd no",
    "PrintLastLog no",
    "PermitUserRC no",
    "LoginGraceTime 30",
)
"""Lines of every sshd_config of benchkit's: only keys log in, and sessions start without files of their user."""


def openssh_version(sshd: str) -> tuple[int, int]:
    """Return major and minor version of an OpenSSH server; (0, 0) where it is unknown.

    Servers before 9.2 have no -V, but the error message about it names their version.
    """
    completed = subprocess.run([sshd, "-V"], capture_output=True, text=True, check=False)
    match = _VERSION.search(completed.stderr + completed.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def make_keys(ssh_keygen: str, paths: Iterable[Path]) -> None:
    """Create a key pair without a passphrase at each path (and path.pub). Raises HostError."""
    for path in paths:
        argv = [ssh_keygen, "-q", "-t", KEY_TYPE, "-N", "", "-C", "benchkit lab", "-f", str(path)]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise HostError("cannot create a key for the lab", where=ssh_keygen, why=done.stderr.strip())


def public_key(path: Path) -> str:
    """Return type and public key of the pair at `path`, without its comment."""
    return " ".join(path.with_name(f"{path.name}.pub").read_text().split()[:2])


def server_config(
    *,
    version: tuple[int, int],
    listen: tuple[str, int],
    host_key: Path,
    authorized_keys: Path,
    root: bool,
    environment: Mapping[str, str],
) -> str:
    """Return the sshd_config of a lab host for this version of OpenSSH: only the lab's key can log in.

    Limits of sessions and connections are high: controller, benchmark tools and people may all be logged in at once.
    """
    address, port = listen
    lines = [
        f"ListenAddress {address}:{port}",
        f"HostKey {quoted(host_key)}",
        f"AuthorizedKeysFile {quoted(authorized_keys).replace('%', '%%')}",
        *KEYS_ONLY,
        f"PermitRootLogin {'prohibit-password' if root else 'no'}",
        "X11Forwarding no",
        "AllowAgentForwarding no",
        "AllowTcpForwarding yes",  # a lab host can be a jump host
        "MaxSessions 200",
        "MaxStartups 200",
        "Subsystem sftp internal-sftp",
    ]
    if environment:  # in one line: sshd ignores a second SetEnv
        lines.append(f"SetEnv {' '.join(quoted(f'{name}={value}') for name, value in environment.items())}")
    if version >= PENALTIES_SINCE:
        lines.append("PerSourcePenalties no")
    return "\n".join(lines) + "\n"


def client_config(hosts: Iterable[tuple[str, str, int]], *, user: str, identity: Path, known_hosts: Path) -> str:
    """Return an ssh_config with which `ssh -F FILE NAME` reaches each (name, address, port)."""
    parts = [f"Host {name}\n  HostName {address}\n  Port {port}\n" for name, address, port in hosts]
    common = ["Host *", f"User {user}", *known_client(identity, known_hosts)]
    return "\n".join([*parts, "\n  ".join(common)]) + "\n"


def known_client(identity: PurePath, known_hosts: PurePath) -> list[str]:
    """Return the lines of a client that has one key, trusts these hosts alone, and never asks."""
    return [
        f"IdentityFile {quoted(identity)}",
        "IdentitiesOnly yes",
        f"UserKnownHostsFile {quoted(known_hosts)}",
        "GlobalKnownHostsFile /dev/null",
        "StrictHostKeyChecking yes",
        "BatchMode yes",
    ]


def quoted(text: PurePath | str) -> str:
    """Quote an argument for OpenSSH's configuration files, which split at blanks."""
    return f'"{text}"'


def write_access(ssh_keygen: str, folder: LabFolder, state: LabState) -> None:
    """Create a key pair for the client and one for each host, and write known_hosts and the client's configuration.

    Ports other than 22 are in brackets in known_hosts (sshd(8)).
    """
    make_keys(ssh_keygen, [folder.identity, *(folder.host_key(host.name) for host in state.hosts)])
    known = []
    for host in state.hosts:
        name = host.address if host.port == SSH_PORT else f"[{host.address}]:{host.port}"
        known.append(f"{name} {public_key(folder.host_key(host.name))}\n")
    folder.known_hosts.write_text("".join(known))
    hosts = [(host.name, host.address, host.port) for host in state.hosts]
    text = client_config(hosts, user=state.user, identity=folder.identity, known_hosts=folder.known_hosts)
    folder.ssh_config.write_text(text)


def session_environment(
    folder: LabFolder, state: LabState, host: StartedHost, engine_config: str | None = None
) -> dict[str, str]:
    """Return the environment of every session on a host; `lab down` finds sessions by its mark.

    SHLVL keeps a bash that sshd starts from reading ~/.bashrc, as only the outermost shell does (bash(1)). Start-up
    files may print, wait, and leave processes behind. PATH is passed on without the folder of benchkit's own
    environment.
    """
    mark = process_mark(folder.key, state.lab_id, f"host/{host.name}")
    programs = os.environ.get("PATH", os.defpath).split(os.pathsep)
    own = str(Path(sys.prefix) / "bin") if sys.prefix != sys.base_prefix else None
    path = os.pathsep.join(each for each in programs if each != own)
    engine = {} if engine_config is None else {"CONTAINERS_CONF": engine_config}  # containers.conf(5)
    return {MARK_VARIABLE: mark, "PATH": path, "SHLVL": "1", **engine}


def engine_config(nofile: int, nproc: int, networks: Path, *, has_runc: bool) -> str:
    """Return the text of podman's containers.conf on a host: without systemd, and with the limits of this process.

    `networks`: the host's folder for the bridges that podman creates, which it otherwise keeps in /etc.
    """
    runtime = '\nruntime = "runc"' if has_runc else ""
    return (
        f'[containers]\ndefault_ulimits = ["nofile={nofile}:{nofile}", "nproc={nproc}:{nproc}"]\n'
        f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"{runtime}\n'
        f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{networks}"\n'
    )


def login_account() -> str:
    """Return the account that this process runs as. Raises HostError where it has none."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        raise HostError("cannot log in to this account", why=f"user {number} has no entry in /etc/passwd") from None
