"""A lab without namespaces: one sshd per host on a loopback address, run by the user who starts the lab."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from benchkit.errors import HostError
from benchkit.lab import limits, openssh
from benchkit.lab.limits import divide_cpus, usable_cores
from benchkit.lab.openssh import login_account, openssh_version, session_environment, write_access
from benchkit.lab.processes import START_DEADLINE_S, InitLauncher, init_command, process_mark
from benchkit.lab.spec import LabSpec
from benchkit.lab.state import LabFolder, LabState, StartedHost

PROGRAMS = ("sshd", "ssh-keygen", "setpriv")
PORTS = range(20000, 32768)
"""Ports above those of usual services, and below Linux's range for clients (ip_local_port_range)."""
FIRST_INDEX = 2
SSHD_FOLDER = Path("/run/sshd")
"""Empty folder that root's sshd requires; its package makes it at the start of its service."""


def plan(spec: LabSpec, folder: LabFolder, *, reason: str | None = None) -> LabState:
    """Return the state of the lab to start; `reason` says why it has no namespaces although root starts it."""
    cpus = divide_cpus(spec.hosts, usable_cores(), shared=spec.shared)
    hosts = []
    for i, host in enumerate(spec.hosts):
        address = _address(folder.key, i)
        hosts.append(
            StartedHost(
                name=host.name,
                roles=host.roles,
                address=address,
                port=_free_port(address, folder.key),
                cpus=cpus[host.name],
                workdir=str(folder.path / f"{host.name}.work"),
            )
        )
    return LabState(
        spec=spec,
        mode="loopback",
        user=login_account(),
        hosts=tuple(hosts),
        limits=(
            *([f"The hosts of this lab have no namespaces: {reason}."] if reason else []),
            *limits.LOOPBACK,
            *limits.shared_cpus(hosts),
            limits.NO_QUOTA,
        ),
    )


def start(state: LabState, folder: LabFolder, programs: Mapping[str, str]) -> LabState:
    """Start the lab, and return its final state. Raises HostError where it does not start."""
    write_access(programs["ssh-keygen"], folder, state)
    version = openssh_version(programs["sshd"])
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
                "sshd": [
                    programs["setpriv"],
                    "--pdeathsig",
                    "KILL",
                    programs["sshd"],
                    "-D",
                    "-e",
                    "-f",
                    str(server_config),
                ],
            }
        )
    if os.geteuid() == 0:
        SSHD_FOLDER.mkdir(mode=0o755, exist_ok=True)
    config = {"kind": "supervisor", "deadline_s": START_DEADLINE_S, "hosts": servers}
    command = init_command(process_mark(folder.key, state.lab_id, "supervisor"))
    with InitLauncher(command, config, folder.log("supervisor")) as supervisor:
        for _ in state.hosts:
            supervisor.receive()
        supervisor.send({"stay": True})
    return state.model_copy(update={"ready": True})


def _address(key: str, index: int) -> str:
    """Return a loopback address that other labs do not use: all of 127.0.0.0/8 is this machine (RFC 1122, 3.2.1.3)."""
    number = int(key, 16)
    return str(IPv4Address(f"127.{1 + number % 254}.{number // 254 % 256}.{FIRST_INDEX + index}"))


def _free_port(address: str, key: str) -> int:
    first = int(key, 16) % len(PORTS)
    for port in itertools.chain(PORTS[first:], PORTS[:first]):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((address, port))
            return port
    raise HostError("no free port for a lab host", where=address, why=f"ports {PORTS[0]} to {PORTS[-1]} are all in use")
