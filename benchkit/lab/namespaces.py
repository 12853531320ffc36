"""A lab of hosts with namespaces of their own, as root on Linux."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from benchkit.errors import HostError
from benchkit.lab import cgroups, limits, network, openssh
from benchkit.lab.cpus import divide, usable_cores
from benchkit.lab.first_process import START_DEADLINE_S, FirstProcess, NotPermittedError, command
from benchkit.lab.inside.messages import CommandError, batch
from benchkit.lab.inside.mounts import writable_sysctls
from benchkit.lab.processes import mark
from benchkit.lab.programs import find_programs, openssh_version
from benchkit.lab.spec import LabSpec
from benchkit.lab.ssh_access import login_account, session_environment, write_access
from benchkit.lab.state import HostState, LabFolder, LabState, boot_id

SSH_PORT = 22
WORKDIR = "/run/benchkit"
"""In the host's own /run, which is gone with it."""
_FOLDER = Path("/run/benchkit-lab")
"""Where a host has its key and configuration, in its own /run too."""


def programs(spec: LabSpec) -> list[str]:
    """What the machine must have."""
    return ["sshd", "ssh-keygen", "ip", *(["tc"] if any(host.link_bps for host in spec.hosts) else [])]


def plan(spec: LabSpec, folder: LabFolder, lab_id: str, found: Mapping[str, str], now: float) -> LabState:
    """The lab as it will be made: everything that `down` must know to take it away again."""
    subnet = network.choose_subnet(network.used_networks(found["ip"]), int(folder.key, 16))
    cpus = divide(spec.hosts, usable_cores(), shared=spec.shared)
    return LabState(
        lab_id=lab_id,
        boot_id=boot_id(),
        ready=False,
        spec=spec,
        mode="namespaces",
        user=login_account(),
        created_at=now,
        subnet=str(subnet),
        hosts=tuple(
            HostState(
                name=host.name,
                roles=host.roles,
                address=str(subnet[network.FIRST_HOST_INDEX + i]),
                port=SSH_PORT,
                cpus=cpus[host.name],
                link_bps=host.link_bps,
                workdir=WORKDIR,
            )
            for i, host in enumerate(spec.hosts)
        ),
        cgroups=tuple(cgroups.lab_folders(cgroups.usable_hierarchies(), folder.key)),
    )


def build(state: LabState, folder: LabFolder, found: Mapping[str, str]) -> LabState:
    """Make the lab; returns it with what turned out not to be possible.

    Raises NotPermittedError where this kernel or this container allows no namespaces, HostError for other failures.
    """
    write_access(found["ssh-keygen"], folder, state)
    config = {
        "kind": "switch",
        "ip": found["ip"],
        "bridge": network.BRIDGE,
        "uplink": network.UPLINK,
        "hosts": _hosts(state, folder, found),
    }
    with FirstProcess(mark(folder.key, state.lab_id, "switch"), config, folder.log("switch")) as switch:
        pid = switch.hear()["pid"]
        try:
            batch(found["ip"], network.uplink_commands(folder.link, IPv4Network(state.subnet), pid))
        except CommandError as error:
            kind = NotPermittedError if error.refused else HostError
            raise kind("the lab did not start", where="this machine", why=str(error)) from None
        switch.tell({"uplink": folder.link})
        answers = [switch.hear() for _ in state.hosts]
        switch.tell({"stay": True})
    uncapped = [
        host.name for host, answer in zip(state.hosts, answers, strict=True) if host.link_bps and not answer["capped"]
    ]
    return state.model_copy(
        update={
            "ready": True,
            "hosts": tuple(
                host.model_copy(update={"link_bps": None}) if host.name in uncapped else host for host in state.hosts
            ),
            "limits": _limits(state, uncapped),
            "not_isolated": _not_isolated(answers[0]["writable"]),
        }
    )


def take_away(state: LabState | None, folder: LabFolder) -> None:
    """Remove what outlives the processes: the link on this machine, and control groups."""
    link = Path("/sys/class/net", folder.link)
    if link.exists():
        ip = find_programs(["ip"])["ip"]
        done = subprocess.run([ip, "link", "delete", folder.link], capture_output=True, text=True, check=False)
        if link.exists():  # or it went by itself in between, with the switch
            raise HostError("cannot remove the lab's link", where=folder.link, why=done.stderr.strip())
    recorded = state.cgroups if state else ()
    cgroups.remove({*recorded, *cgroups.lab_folders(cgroups.usable_hierarchies(), folder.key)})


def _hosts(state: LabState, folder: LabFolder, found: Mapping[str, str]) -> list[dict[str, Any]]:
    """For each host, how its first process is started and what it is told."""
    version = openssh_version(found["sshd"])
    trees = cgroups.usable_hierarchies()
    client = openssh.public_key(folder.identity)
    names = _names(state)
    hosts = []
    for i, host in enumerate(state.hosts):
        config = {
            "kind": "host",
            "name": host.name,
            "ip": found["ip"],
            "tc": found.get("tc"),
            "port": f"port{i}",
            "bridge": network.BRIDGE,
            "address": host.address,
            "prefix": network.PREFIX,
            "ssh_port": host.port,
            "deadline_s": START_DEADLINE_S,
            "cap": network.cap(host.link_bps),
            "cpus": host.cpus,
            "cgroups": cgroups.make(trees, folder.key, host.name),
            "log": str(folder.log(host.name)),
            "folder": str(_FOLDER),
            "files": {
                "host_key": folder.host_key(host.name).read_text(),
                "authorized_keys": f"{client}\n",
                "sshd_config": openssh.server_config(
                    version=version,
                    listen=(host.address, host.port),
                    host_key=_FOLDER / "host_key",
                    authorized_keys=_FOLDER / "authorized_keys",
                    root=True,
                    environment=session_environment(folder, state, host),
                ),
            },
            "etc": {
                "hosts": f"127.0.0.1 localhost\n::1 localhost ip6-localhost\n{names}",
                "hostname": f"{host.name}\n",
            },
            "sshd": [found["sshd"], "-D", "-e", "-f", str(_FOLDER / "sshd_config")],
        }
        hosts.append(
            {
                "name": host.name,
                "command": command(mark(folder.key, state.lab_id, f"host/{host.name}")),
                "config": json.dumps(config),
            }
        )
    return hosts


def _names(state: LabState) -> str:
    controller = IPv4Network(state.subnet)[network.CONTROLLER_INDEX]
    return "".join([f"{controller} controller\n", *(f"{host.address} {host.name}\n" for host in state.hosts)])


def _limits(state: LabState, uncapped: Sequence[str]) -> tuple[str, ...]:
    apart = limits.disjoint(state.hosts)
    return (
        limits.ONE_KERNEL,
        *([limits.SENDERS_CPU] if apart and len(state.hosts) > 1 else []),
        *limits.shared_cpus(state.hosts),
        *limits.uncapped(uncapped),
        *([] if state.cgroups else [limits.NO_QUOTA]),
    )


def _not_isolated(writable: Sequence[str]) -> tuple[str, ...]:
    """The sysctls that the machine has and a host must leave alone, named as sysctl(8) names them."""
    return tuple(
        path.replace(".", "\0").replace("/", ".").replace("\0", "/")
        for path in writable_sysctls()
        if path not in set(writable)
    )
