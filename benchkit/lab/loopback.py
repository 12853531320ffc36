"""A lab without namespaces: one sshd for each host on loopback addresses, as whoever asks for it."""

from __future__ import annotations

import errno
import itertools
import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import psutil

from benchkit.errors import HostError
from benchkit.lab import limits, openssh
from benchkit.lab.cpus import divide, usable_cores
from benchkit.lab.first_process import START_DEADLINE_S, FirstProcess
from benchkit.lab.processes import mark
from benchkit.lab.programs import openssh_version
from benchkit.lab.spec import LabSpec
from benchkit.lab.ssh_access import login_account, session_environment, write_access
from benchkit.lab.state import HostState, LabFolder, LabState, boot_id

PROGRAMS = ("sshd", "ssh-keygen")
PORTS = range(20000, 32768)
"""Above what services use, below the ports that Linux gives to clients (ip_local_port_range)."""
FIRST_INDEX = 2
_MISSING_FOLDER = re.compile(r"Missing privilege separation directory: (?P<path>/\S+)")


def plan(spec: LabSpec, folder: LabFolder, lab_id: str, now: float, *, reason: str | None = None) -> LabState:
    """The lab as it will be made; `reason` says why it has no namespaces although root asked for it."""
    account = login_account()
    cpus = divide(spec.hosts, usable_cores(), shared=spec.shared)
    hosts = []
    for i, host in enumerate(spec.hosts):
        address = _address(folder.key, i)
        hosts.append(
            HostState(
                name=host.name,
                roles=host.roles,
                address=address,
                port=_free_port(address, folder.key),
                cpus=cpus[host.name],
                link_bps=None,
                workdir=str(folder.path / f"{host.name}.work"),
            )
        )
    capped = [host.name for host in spec.hosts if host.link_bps]
    return LabState(
        lab_id=lab_id,
        boot_id=boot_id(),
        ready=False,
        spec=spec,
        mode="loopback",
        user=account,
        created_at=now,
        hosts=tuple(hosts),
        limits=(
            *([limits.fallback(reason)] if reason else []),
            *limits.LOOPBACK,
            *limits.shared_cpus(hosts),
            *limits.cap_without_namespaces(capped),
            limits.NO_QUOTA,
        ),
    )


def build(state: LabState, folder: LabFolder, found: Mapping[str, str]) -> LabState:
    """Make the lab. Raises HostError where it does not come up."""
    write_access(found["ssh-keygen"], folder, state)
    version = openssh_version(found["sshd"])
    authorized_keys = folder.path / "authorized_keys"
    authorized_keys.write_text(f"{openssh.public_key(folder.identity)}\n")
    servers: list[dict[str, Any]] = []
    for host in state.hosts:
        server_config = folder.path / f"{host.name}.sshd_config"
        server_config.write_text(
            openssh.server_config(
                version=version,
                listen=(host.address, host.port),
                host_key=folder.host_key(host.name),
                authorized_keys=authorized_keys,
                root=os.geteuid() == 0,
                environment=session_environment(folder, state, host),
            )
        )
        servers.append(
            {
                "name": host.name,
                "address": host.address,
                "port": host.port,
                "cpus": host.cpus,
                "log": str(folder.log(host.name)),
                "sshd": [found["sshd"], "-D", "-e", "-f", str(server_config)],
            }
        )
    state = _with_sshd_folder(state, folder, servers[0]["sshd"])
    config = {"kind": "keeper", "deadline_s": START_DEADLINE_S, "hosts": servers}
    with FirstProcess(mark(folder.key, state.lab_id, "keeper"), config, folder.log("keeper")) as keeper:
        for _ in state.hosts:
            keeper.hear()
        keeper.tell({"stay": True})
    return state.model_copy(update={"ready": True})


def take_away(state: LabState | None) -> None:
    """Remove what was made outside the lab's folder, unless another sshd has come to need it."""
    for path in state.made if state else ():
        if path.is_dir() and not serves_here():
            path.rmdir()


def serves_here() -> bool:
    """Whether an SSH server runs that sees this machine's files (one on a host of another lab sees its own /run)."""
    here = Path("/proc/self/ns/mnt").readlink()
    for process in psutil.process_iter(["name"]):
        if (process.info["name"] or "").startswith("sshd"):
            try:
                if Path(f"/proc/{process.pid}/ns/mnt").readlink() == here:
                    return True
            except OSError:  # it has ended meanwhile
                continue
    return False


def _with_sshd_folder(state: LabState, folder: LabFolder, sshd: Sequence[str]) -> LabState:
    """Make the empty folder that an sshd of root insists on, where its service has never run; the state says so."""
    if os.geteuid() != 0:
        return state
    checked = subprocess.run([*sshd, "-t"], capture_output=True, text=True, check=False)
    if checked.returncode == 0:
        return state
    missing = _MISSING_FOLDER.search(checked.stderr)
    if missing is None:
        raise HostError("sshd refuses its configuration", where=sshd[0], why=checked.stderr.strip())
    path = Path(missing["path"])
    state = state.model_copy(update={"made": (path,)})
    folder.write(state)
    path.mkdir(mode=0o755)
    return state


def _address(key: str, index: int) -> str:
    """A loopback address that other labs do not use: all of 127.0.0.0/8 is this machine (RFC 1122, 3.2.1.3)."""
    number = int(key, 16)
    return str(IPv4Address(f"127.{1 + number % 254}.{number // 254 % 256}.{FIRST_INDEX + index}"))


def _free_port(address: str, key: str) -> int:
    """A port of this address that nobody listens on."""
    first = int(key, 16) % len(PORTS)
    for port in itertools.chain(PORTS[first:], PORTS[:first]):
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
                raise HostError("cannot listen on a loopback address", where=address, why=error.strerror) from None
        return port
    raise HostError("no port is free", where=address)
