"""Facts about the host from its kernel and distribution; the controller plans with them."""

from __future__ import annotations

import array
import contextlib
import fcntl
import grp
import os
import platform
import pwd
import resource
import shutil
import socket
import struct
import sys
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from benchkit.agent.cgroups import writable_parent
from benchkit.agent.common import OperationError, Workdir, number_after, parse_cpu_list, read_bytes, read_text
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import ProcessSpec, operation
from benchkit.agent.processes import ProcessTable
from benchkit.agent.settings import Sysctls

SIOCGIFCONF = 0x8912
"""Request that lists the IPv4 addresses of all interfaces, aliases included (netdevice(7))."""
REQUEST_BYTES = 40 if struct.calcsize("P") > 4 else 32  # noqa: PLR2004 - struct ifreq of 64-bit and 32-bit systems
NAME_BYTES = 16
IPV4 = slice(NAME_BYTES + 4, NAME_BYTES + 8)
"""Place of the address in struct ifreq: after the name, the family and the port."""
LAB_LINKS = "bk-"
"""Prefix of the names of links to labs of this machine, which belong to the lab's hosts."""
BUFFER_BYTES = 1024 * REQUEST_BYTES

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/local/go/bin")
"""Folders of programs that are often missing in the PATH of an ordinary user, or of a shell without a login."""

CPU_FOLDER = Path("/sys/devices/system/cpu")


def interfaces() -> List[JsonObject]:
    """Return the network interfaces: name, MTU, rate in bits per second where known, up or not, addresses.

    Links to labs of this machine are left out. `virtual`: no device is behind the interface, so the stated rate does
    not limit it.
    """
    addresses: Dict[str, List[str]] = {}
    for name, address in (*_ipv4_addresses(), *_ipv6_addresses()):
        addresses.setdefault(name, []).append(address)
    found = []
    for _, name in socket.if_nameindex():
        if name.startswith(LAB_LINKS):
            continue
        speed = read_text(f"/sys/class/net/{name}/speed") or ""
        mtu = read_text(f"/sys/class/net/{name}/mtu")
        state = read_text(f"/sys/class/net/{name}/operstate")
        found.append(
            {
                "name": name,
                "mtu": int(mtu) if mtu else None,
                "speed_bps": int(speed) * 1e6 if speed.isdigit() and int(speed) else None,
                "virtual": not Path(f"/sys/class/net/{name}/device").exists(),
                "up": None if state is None else state in ("up", "unknown"),
                "addresses": addresses.get(name, []),
            }
        )
    return found


def _ipv4_addresses() -> Iterator[Tuple[str, str]]:
    buffer = array.array("B", bytes(BUFFER_BYTES))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        answer = fcntl.ioctl(query, SIOCGIFCONF, struct.pack("iP", BUFFER_BYTES, buffer.buffer_info()[0]))
    (size, _) = struct.unpack("iP", answer)
    requests = buffer.tobytes()[:size]
    for start in range(0, size, REQUEST_BYTES):
        request = requests[start : start + REQUEST_BYTES]
        name = request[:NAME_BYTES].split(b"\0", 1)[0].decode()
        yield name.partition(":")[0], socket.inet_ntoa(request[IPV4])


def _ipv6_addresses() -> Iterator[Tuple[str, str]]:
    for line in (read_text("/proc/net/if_inet6") or "").splitlines():
        field = line.split()
        yield field[-1], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(field[0]))


def distribution() -> Optional[str]:
    """Return the name of the distribution (os-release(5))."""
    text = read_text("/etc/os-release") or read_text("/usr/lib/os-release") or ""
    named = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return named.get("PRETTY_NAME", named.get("NAME", "")).strip("\"'") or None


def user_name() -> str:
    """Return the login name; the user's number where it has no name."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


SERVICE_USERS = ("www-data", "nginx", "http", "www", "nobody")
"""Users that distributions create for servers, in order of preference; "nobody" exists nearly everywhere."""


def service_account() -> Optional[Tuple[str, str]]:
    """Return an unprivileged user for servers that root starts, and the user's group; None where the host has none."""
    for name in SERVICE_USERS:
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            if user.pw_uid and user.pw_gid:
                return name, grp.getgrgid(user.pw_gid).gr_name
    return None


def cpu_model() -> Optional[str]:
    """Return the model of the CPU; None where the kernel does not name it."""
    for line in (read_text("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return None


def shared_cores(folder: Path = CPU_FOLDER) -> List[List[int]]:
    """Return the CPUs of each core that has several hardware threads (SMT)."""
    return sorted(cpus for cpus in map(parse_cpu_list, _sibling_lists(folder)) if len(cpus) > 1)


def _sibling_lists(folder: Path) -> Set[str]:
    return {read_text(str(path)) or "" for path in folder.glob("cpu[0-9]*/topology/thread_siblings_list")}


def turbo(folder: Path = CPU_FOLDER) -> Optional[bool]:
    """Return True where cores may run above their base clock rate; None where the kernel does not say."""
    disabled, boost = (read_text(str(folder / name)) for name in ("intel_pstate/no_turbo", "cpufreq/boost"))
    if disabled is not None:
        return disabled == "0"
    return None if boost is None else boost == "1"


def virtualisation() -> Optional[str]:
    """Return the kind of container, or the virtual machine's vendor, that the host runs in; None if not detected."""
    container = read_text("/run/systemd/container") or ("docker" if Path("/.dockerenv").exists() else None)
    if container:
        return container
    if "hypervisor" in (read_text("/proc/cpuinfo") or "").split():
        vendor = read_text("/sys/class/dmi/id/sys_vendor")
        return f"virtual machine ({vendor})" if vendor else "virtual machine"
    return None


class FactsReader:
    """Reader of the facts about the host."""

    VERSION_TIMEOUT_S = 20.0

    def __init__(self, workdir: Workdir, processes: ProcessTable, sysctls: Sysctls) -> None:
        self._workdir = workdir
        self._processes = processes
        self._sysctls = sysctls
        self._versions: Dict[Tuple[str, ...], Tuple[int, Optional[str]]] = {}

    @operation(within_s=60.0)
    def gather(
        self,
        tools: Mapping[str, Sequence[str]],
        sysctls: Sequence[str],
        sudo: bool = False,  # noqa: FBT001, FBT002 - as JSON
        files: Sequence[str] = (),
    ) -> JsonObject:
        """Return all facts.

        `tools`: name → command that prints the version; a single word only searches for the program. `sudo`: check that
        sudo needs no password. `files`: absolute paths of files of which size and time of change are wanted.
        """
        programs: Dict[str, JsonObject] = {}
        threads = [
            threading.Thread(target=self._find_program, args=(name, argv, programs), daemon=True)
            for name, argv in tools.items()
        ]
        for thread in threads:
            thread.start()
        uname = os.uname()
        memory_kib = number_after(b"\n" + (read_bytes("/proc/meminfo") or b""), b"MemTotal:")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        cpus = sorted(os.sched_getaffinity(0))
        governors = {read_text(str(CPU_FOLDER / f"cpu{cpu}/cpufreq/scaling_governor")) for cpu in cpus}
        facts = {
            "hostname": uname.nodename,
            "system": uname.sysname,
            "kernel": uname.release,
            "machine": uname.machine,
            "distribution": distribution(),
            "glibc": platform.libc_ver()[1] or None,
            "python": ".".join(map(str, sys.version_info[:3])),
            "cpus": cpus,
            "cpu_model": cpu_model(),
            "cores": len(_sibling_lists(CPU_FOLDER)) or None,
            "memory_bytes": None if memory_kib is None else memory_kib * 1024,
            "user": user_name(),
            "uid": os.geteuid(),
            "service_account": service_account() if os.geteuid() == 0 else None,
            "can_sudo": self._can_sudo() if sudo else None,
            "cpu_groups": writable_parent() is not None,
            "nofile_soft": None if soft == resource.RLIM_INFINITY else soft,
            "nofile_hard": None if hard == resource.RLIM_INFINITY else hard,
            "boot_id": read_text("/proc/sys/kernel/random/boot_id"),
            "interfaces": interfaces(),
            "governor": ",".join(sorted(filter(None, governors))) or None,
            "shared_cores": shared_cores(),
            "turbo": turbo(),
            "virtualisation": virtualisation(),
            "sysctls": self._sysctls.read(sysctls),
            "workdir": str(self._workdir.root),
            "controller_address": os.environ.get("SSH_CONNECTION", "").partition(" ")[0] or None,
        }
        for thread in threads:
            thread.join()
        return {**facts, "tools": programs, "files": {path: _file_version(path) for path in files}}

    def _find_program(self, name: str, argv: Sequence[str], programs: Dict[str, JsonObject]) -> None:
        folders = os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN, *self._versioned()))
        path = shutil.which(argv[0], path=folders)
        if path is not None:
            programs[name] = {"path": path, "text": self._version(path, argv[1:])}

    @staticmethod
    def _versioned() -> List[str]:
        versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()]
        return [str(path) for path in sorted(versions, key=lambda path: int(path.parent.name), reverse=True)]

    def _version(self, path: str, options: Sequence[str]) -> Optional[str]:
        """Return the output of a program with these options; run it again only after its file has changed."""
        if not options:
            return None
        key, changed = (path, *options), Path(path).stat().st_mtime_ns
        if key not in self._versions or self._versions[key][0] != changed:
            # HOME: siege writes a configuration there. GOTOOLCHAIN: `go version` must not download another release.
            env: Dict[str, Optional[str]] = {
                "HOME": str(self._workdir.root / "home"),
                "LC_ALL": "C",
                "GOTOOLCHAIN": "local",
                "GOFLAGS": None,
            }
            try:
                _, text = self._processes.run_for_agent(ProcessSpec([path, *options], env), self.VERSION_TIMEOUT_S)
            except OperationError:
                return None
            self._versions[key] = (changed, text)
        return self._versions[key][1]

    def _can_sudo(self) -> bool:
        try:
            exit_code, _ = self._processes.run_for_agent(
                ProcessSpec(["sudo", "-n", "--", "true"]), self.VERSION_TIMEOUT_S
            )
        except OperationError:
            return False
        return exit_code == 0


def _file_version(path: str) -> Optional[str]:
    try:
        status = os.stat(path)  # noqa: PTH116 - a path from a message
    except OSError:
        return None
    return f"{status.st_size} bytes of {datetime.fromtimestamp(status.st_mtime, timezone.utc):%Y-%m-%d %H:%M:%S.%f}"
