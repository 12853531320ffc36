"""A lab whose hosts have their own namespaces, as root on Linux."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from benchkit.errors import HostError
from benchkit.lab import cgroups, limits, network, openssh
from benchkit.lab.cpus import divide_cpus, usable_cores
from benchkit.lab.init_launcher import START_DEADLINE_S, InitLauncher, NotPermittedError, init_command
from benchkit.lab.inside.commands import CommandError, run_batch
from benchkit.lab.inside.mounts import writable_sysctls
from benchkit.lab.processes import process_mark
from benchkit.lab.programs import find_programs, openssh_version
from benchkit.lab.spec import LabSpec
from benchkit.lab.ssh_access import login_account, session_environment, write_access
from benchkit.lab.state import HostState, LabFolder, LabState, boot_id

SSH_PORT = 22
WORKDIR = "/run/benchkit"
"""Work directory, in the host's own /run, which ends with the host."""
_FOLDER = Path("/run/benchkit-lab")
"""Folder of a host's keys and configuration, in its own /run too."""


def required_programs(spec: LabSpec) -> list[str]:
    """Return the programs that this machine must have."""
    return ["sshd", "ssh-keygen", "ip", *(["tc"] if any(host.link_bps for host in spec.hosts) else [])]


def plan(spec: LabSpec, folder: LabFolder, lab_id: str, programs: Mapping[str, str], now: float) -> LabState:
    """Return the lab as it will be started, with everything that `down` needs to remove it."""
    subnet = network.choose_subnet(network.used_networks(programs["ip"]), int(folder.key, 16))
    cpus = divide_cpus(spec.hosts, usable_cores(), shared=spec.shared)
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
                testbed=host.testbed,
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


def start(state: LabState, folder: LabFolder, programs: Mapping[str, str]) -> LabState:
    """Start the lab, and return its final state with the limits that were found.

    Raises NotPermittedError where this kernel or container allows no namespaces, HostError for other failures.
    """
    write_access(programs["ssh-keygen"], folder, state)
    config = {
        "kind": "switch",
        "ip": programs["ip"],
        "bridge": network.BRIDGE,
        "uplink": network.UPLINK,
        "hosts": _host_configs(state, folder, programs),
    }
    with InitLauncher(process_mark(folder.key, state.lab_id, "switch"), config, folder.log("switch")) as switch:
        pid = switch.receive()["pid"]
        try:
            run_batch(programs["ip"], network.uplink_commands(folder.link, IPv4Network(state.subnet), pid))
        except CommandError as error:
            kind = NotPermittedError if error.refused else HostError
            raise kind("the lab did not start", where="this machine", why=str(error)) from None
        switch.send({"uplink": folder.link})
        answers = [switch.receive() for _ in state.hosts]
        switch.send({"stay": True})
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


def clean_up(state: LabState | None, folder: LabFolder) -> None:
    """Remove the link on this machine and the control groups, which do not end with the processes."""
    link = Path("/sys/class/net", folder.link)
    if link.exists():
        ip = find_programs(["ip"])["ip"]
        completed = subprocess.run([ip, "link", "delete", folder.link], capture_output=True, text=True, check=False)
        if link.exists():  # deleting fails too where the kernel has removed it meanwhile, with the switch
            raise HostError("cannot remove the lab's link", where=folder.link, why=completed.stderr.strip())
    recorded = state.cgroups if state else ()
    cgroups.remove({*recorded, *cgroups.lab_folders(cgroups.usable_hierarchies(), folder.key)})


def _host_configs(state: LabState, folder: LabFolder, programs: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return for each host the command of its init process, and its configuration."""
    version = openssh_version(programs["sshd"])
    trees = cgroups.usable_hierarchies()
    client = openssh.public_key(folder.identity)
    names = _hosts_file_lines(state)
    hosts = []
    for i, host in enumerate(state.hosts):
        config = {
            "kind": "host",
            "name": host.name,
            "ip": programs["ip"],
            "tc": programs.get("tc"),
            "port": f"port{i}",
            "bridge": network.BRIDGE,
            "address": host.address,
            "prefix": network.PREFIX,
            "ssh_port": host.port,
            "deadline_s": START_DEADLINE_S,
            "cap": network.cap_discipline(host.link_bps),
            "cpus": host.cpus,
            "own_tmp": len(state.hosts) > 1,
            "cgroups": cgroups.create(trees, folder.key, host.name),
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
            "sshd": [programs["sshd"], "-D", "-e", "-f", str(_FOLDER / "sshd_config")],
        }
        hosts.append(
            {
                "name": host.name,
                "command": init_command(process_mark(folder.key, state.lab_id, f"host/{host.name}")),
                "config": json.dumps(config),
            }
        )
    return hosts


def _hosts_file_lines(state: LabState) -> str:
    controller = IPv4Network(state.subnet)[network.CONTROLLER_INDEX]
    return "".join([f"{controller} controller\n", *(f"{host.address} {host.name}\n" for host in state.hosts)])


def _limits(state: LabState, uncapped: Sequence[str]) -> tuple[str, ...]:
    return (
        limits.ONE_KERNEL,
        *([limits.SENDERS_CPU] if len(state.hosts) > 1 and limits.have_separate_cpus(state.hosts) else []),
        *limits.shared_cpus(state.hosts),
        *limits.uncapped_links(uncapped),
        *([] if state.cgroups else [limits.NO_QUOTA]),
    )


def _not_isolated(writable: Sequence[str]) -> tuple[str, ...]:
    """Return the sysctls of this machine that a host cannot write, with the names of sysctl(8)."""
    return tuple(
        path.replace(".", "\0").replace("/", ".").replace("\0", "/")
        for path in writable_sysctls()
        if path not in set(writable)
    )
