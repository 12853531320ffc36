"""Facts about the machine and its system, from the kernel and the distribution."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import List, Optional, Tuple

from benchkit.agent.common import RefusedError, read_text


def distribution() -> Optional[str]:
    """Return the name of the distribution (os-release(5))."""
    text = read_text("/etc/os-release") or read_text("/usr/lib/os-release") or ""
    named = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return named.get("PRETTY_NAME", named.get("NAME", "")).strip("\"'") or None


def glibc_version() -> Optional[str]:
    """Return the version of the GNU C library; None where there is another one."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")[2] or None
    except (ValueError, OSError):
        return None


def user_name() -> str:
    """Return the login name; the number where it has no name."""
    import pwd  # noqa: PLC0415 - some small systems lack it

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


SERVICE_USERS = ("www-data", "nginx", "http", "www", "nobody")
"""Users that systems have for servers, in the order of preference; "nobody" exists nearly everywhere."""


def service_account() -> Optional[Tuple[str, str]]:
    """Return an unprivileged user of this host for servers that root starts, and its group; None without one."""
    import grp  # noqa: PLC0415 - some small systems lack them
    import pwd  # noqa: PLC0415

    for name in SERVICE_USERS:
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            if user.pw_uid and user.pw_gid:
                return name, grp.getgrgid(user.pw_gid).gr_name
    return None


def user_id(name: str) -> int:
    """Return the number of a user. Raises RefusedError where there is none of this name."""
    import pwd  # noqa: PLC0415 - some small systems lack it

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise RefusedError("not-found", f"there is no user {name}") from None


def cpu_model() -> Optional[str]:
    """Return the model of the CPU; None where the kernel does not name it."""
    for line in (read_text("/proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return None


def physical_cores() -> Optional[int]:
    """Return the number of cores without their hardware threads; None where the kernel does not list them."""
    siblings = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    return len({read_text(str(path)) for path in siblings}) or None


def memory_bytes() -> Optional[int]:
    """Return the memory of the host, from /proc/meminfo."""
    for line in (read_text("/proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def memory_kills() -> Optional[int]:
    """Return the number of processes killed for lack of memory; None where the kernel counts none (< 4.13)."""
    for line in (read_text("/proc/vmstat") or "").splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return None


def governor(cpus: List[int]) -> Optional[str]:
    """Return the frequency governor of these CPUs; None without one, as on most virtual machines."""
    governors = {read_text(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus} - {None}
    return ",".join(sorted(filter(None, governors))) or None


def virtualisation() -> Optional[str]:
    """Return the kind of container, or the vendor of the virtual machine, that the host runs in; None if none shows."""
    container = read_text("/run/systemd/container") or ("docker" if Path("/.dockerenv").exists() else None)
    if container:
        return container
    if "hypervisor" in (read_text("/proc/cpuinfo") or "").split():
        vendor = read_text("/sys/class/dmi/id/sys_vendor")
        return f"virtual machine ({vendor})" if vendor else "virtual machine"
    return None
