"""A lab whose hosts have their own namespaces and links to a private switch, as root on Linux."""

from __future__ import annotations

import json
import math
import resource
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from benchkit.errors import HostError
from benchkit.lab import cgroups, limits, openssh
from benchkit.lab.inside.host import writable_sysctls
from benchkit.lab.inside.system import CommandError, is_refusal, run_batch
from benchkit.lab.limits import divide_cpus, usable_cores
from benchkit.lab.openssh import SSH_PORT, login_account, openssh_version, session_environment, write_access
from benchkit.lab.processes import (
    START_DEADLINE_S,
    InitLauncher,
    NotPermittedError,
    find_programs,
    init_command,
    process_mark,
)
from benchkit.lab.spec import LabSpec
from benchkit.lab.state import LabFolder, LabState, StartedHost

BRIDGE = "switch"
UPLINK = "uplink"
PREFIX = 24
CONTROLLER_INDEX = 1
FIRST_HOST_INDEX = 11

POOL = IPv4Network("198.18.0.0/15")
"""Network from which a lab's subnet is chosen: the benchmark block (RFC 2544, appendix C.2.2), which nobody routes."""

TBF_BURST_S = 0.01
"""Size of the bucket as a time: tc-tbf(8) requires at least rate / HZ, and the smallest HZ of kernels is 100."""
TBF_MIN_BURST_BYTES = 1 << 16
"""Smallest bucket: one segmentation-offload packet of up to 64 KiB, which would otherwise be split before sending."""
TBF_LATENCY = "50ms"
"""Longest time that a packet waits for tokens, as in the examples of tc-tbf(8)."""

HOST_NAMESPACES = ("--net", "--pid", "--mount", "--uts", "--ipc", "--propagation", "slave")
"""Options of unshare(1): mount changes of the machine reach a host, but not the reverse."""
WORKDIR = "/run/benchkit"
"""Work directory of a host, in its own /run, which disappears with it."""
_FOLDER = Path("/run/benchkit-lab")
"""Folder of a host's keys and configuration, in its own /run too."""


def choose_subnet(used: Iterable[IPv4Network], seed: int) -> IPv4Network:
    """Return a /24 subnet that overlaps no route or address of this machine; `seed` sets the start of the search."""
    taken = [network for network in used if network.prefixlen > 0]  # without the default route
    candidates = list(POOL.subnets(new_prefix=PREFIX))
    first = seed % len(candidates)
    for candidate in (*candidates[first:], *candidates[:first]):
        if not any(candidate.overlaps(network) for network in taken):
            return candidate
    hint = "take down a VPN or a lab, then `benchkit lab up` again"
    raise HostError("no free network for the lab", why=f"routes of this machine cover {POOL}", hint=hint)


def used_networks(ip: str) -> list[IPv4Network]:
    """Return the destinations of this machine's IPv4 routes in all tables, which include its addresses."""
    completed = subprocess.run(
        [ip, "-json", "-4", "route", "show", "table", "all"], capture_output=True, text=True, check=False
    )
    if completed.returncode != 0:
        raise HostError("cannot list the routes of this machine", why=completed.stderr.strip(), where=ip)
    routes = (route.get("dst") for route in json.loads(completed.stdout or "[]"))
    return [IPv4Network(route, strict=False) for route in routes if route not in (None, "default")]


def cap_discipline(bps: float | None) -> str | None:
    """Return the queueing discipline that limits the rate of a link's sending side; None without a limit."""
    if bps is None:
        return None
    burst = max(math.ceil(bps / 8 * TBF_BURST_S), TBF_MIN_BURST_BYTES)
    return f"root tbf rate {bps:.0f}bit burst {burst}b latency {TBF_LATENCY}"


def uplink_commands(link: str, subnet: IPv4Network, switch_pid: int) -> list[str]:
    """Return the `ip` commands that link this machine to the lab's switch."""
    return [
        f"link add {link} type veth peer name {UPLINK} netns {switch_pid}",
        f"addr add {subnet[CONTROLLER_INDEX]}/{PREFIX} dev {link}",
        f"link set {link} up",
    ]


def required_programs(spec: LabSpec) -> list[str]:
    """Return the programs that this machine must have."""
    capping = ["tc"] if any(host.link_bps for host in spec.hosts) else []
    return ["sshd", "ssh-keygen", "ip", "unshare", "mount", *capping]


def plan(spec: LabSpec, folder: LabFolder, programs: Mapping[str, str]) -> LabState:
    """Return the state of the lab to start, with everything that `down` needs to remove it."""
    subnet = choose_subnet(used_networks(programs["ip"]), int(folder.key, 16))
    cpus = divide_cpus(spec.hosts, usable_cores(), shared=spec.shared)
    return LabState(
        spec=spec,
        mode="namespaces",
        user=login_account(),
        subnet=str(subnet),
        hosts=tuple(
            StartedHost(
                name=host.name,
                roles=host.roles,
                address=str(subnet[FIRST_HOST_INDEX + i]),
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
    """Start the lab, and return its final state with the limits found during the start.

    Raises NotPermittedError where this kernel or container allows no namespaces, HostError for other failures.
    """
    write_access(programs["ssh-keygen"], folder, state)
    config = {
        "kind": "switch",
        "ip": programs["ip"],
        "tc": programs.get("tc"),
        "bridge": BRIDGE,
        "uplink": UPLINK,
        "hosts": _host_configs(state, folder, programs),
    }
    command = init_command(process_mark(folder.key, state.lab_id, "switch"), "--net", "--pid")
    with InitLauncher(command, config, folder.log("switch")) as switch:
        pid = switch.receive()["pid"]
        try:
            run_batch(programs["ip"], uplink_commands(folder.link, IPv4Network(state.subnet), pid))
        except CommandError as error:
            kind = NotPermittedError if is_refusal(str(error)) else HostError
            raise kind("the lab did not start", where="this machine", why=str(error)) from None
        switch.send({"uplink": folder.link})
        answers = [switch.receive() for _ in state.hosts]
        switch.send({"stay": True})
    sharing = limits.shared_cpus(state.hosts)
    found = (
        limits.ONE_KERNEL,
        *(sharing or ([limits.SENDERS_CPU] if len(state.hosts) > 1 else [])),
        *([] if state.cgroups else [limits.NO_QUOTA]),
    )
    not_isolated = _not_isolated(answers[0]["writable"])
    return state.model_copy(update={"ready": True, "limits": found, "not_isolated": not_isolated})


def clean_up(state: LabState | None, folder: LabFolder) -> None:
    """Remove the link on this machine and the control groups, which do not end with the processes."""
    link = Path("/sys/class/net", folder.link)
    if link.exists():
        ip = find_programs(["ip"])["ip"]
        completed = subprocess.run([ip, "link", "delete", folder.link], capture_output=True, text=True, check=False)
        if link.exists():  # `ip` also fails where the kernel has removed the link with the switch
            raise HostError("cannot remove the lab's link", where=folder.link, why=completed.stderr.strip())
    recorded = state.cgroups if state else ()
    cgroups.remove({*recorded, *cgroups.lab_folders(cgroups.usable_hierarchies(), folder.key)})


def _host_configs(state: LabState, folder: LabFolder, programs: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return for each host the command of its init process, and its configuration."""
    version = openssh_version(programs["sshd"])
    trees = cgroups.usable_hierarchies()
    client = openssh.public_key(folder.identity)
    names = f"{IPv4Network(state.subnet)[CONTROLLER_INDEX]} controller\n"
    names += "".join(f"{host.address} {host.name}\n" for host in state.hosts)
    hosts = []
    for i, host in enumerate(state.hosts):
        config = {
            "kind": "host",
            "name": host.name,
            "ip": programs["ip"],
            "tc": programs.get("tc"),
            "address": host.address,
            "prefix": PREFIX,
            "ssh_port": host.port,
            "deadline_s": START_DEADLINE_S,
            "cap": cap_discipline(host.link_bps),
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
                    environment=session_environment(folder, state, host, str(_FOLDER / "containers.conf")),
                ),
                "containers.conf": openssh.engine_config(
                    nofile=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
                    nproc=resource.getrlimit(resource.RLIMIT_NPROC)[1],
                    networks=_FOLDER / "networks",
                    has_runc=shutil.which("runc") is not None,
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
                "port": f"port{i}",
                "cap": config["cap"],
                "command": init_command(process_mark(folder.key, state.lab_id, f"host/{host.name}"), *HOST_NAMESPACES),
                "config": json.dumps(config),
            }
        )
    return hosts


def _not_isolated(writable: Sequence[str]) -> tuple[str, ...]:
    """Return the sysctls of this machine that a host cannot write, named as in sysctl(8)."""
    return tuple(
        path.replace(".", "\0").replace("/", ".").replace("\0", "/")
        for path in writable_sysctls()
        if path not in set(writable)
    )
