"""The init process of a lab host: it creates and prepares the host's namespaces, and ends with the host's sshd.

An outer process stays in the network namespace of the switch until it has connected the host's link there. A host has
the machine's file system, with private mounts over the folders that hosts must not share. The mounts are in the host's
mount namespace, and disappear with its last process.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.agent.common import parse_mounts
from benchkit.lab.inside.system import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUTS,
    MS_BIND,
    MS_MOVE,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    MS_SLAVE,
    cap_link,
    detach_streams,
    mount,
    open_log,
    run_batch,
    send,
    unmount,
    unshare,
    wait_for_banner,
)

_SAFE = MS_NOSUID | MS_NODEV
_SCRATCH = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - private mounts of the host
_RUN = Path("/run")
_LOGS = Path("/var/log")
_CONTAINERS = Path("/var/lib/containers")
"""Folder of podman's images and containers; hosts cannot share it, because podman's locks are in each host's /run."""
_PROC = Path("/proc")
_SYS = Path("/sys")
_SYSCTLS = _PROC / "sys"
_SYSCTLS_ISOLATED = _SYSCTLS / "net"
_SYSCTLS_PER_LINK = ("conf", "neigh")
_CGROUPS = _SYS / "fs" / "cgroup"
_PROC_READ_ONLY = tuple(_PROC / name for name in ("acpi", "bus", "fs", "irq", "mtrr", "sysrq-trigger"))
"""Parts of /proc that affect the whole machine (the list that container runtimes protect)."""


def run_host(config: Mapping[str, Any]) -> None:
    """Start the host of `config`, and run as its process 1 until its sshd ends."""
    os.dup2(open_log(config["log"]), 2)
    for part in config["cgroups"]:
        (Path(part["source"]) / "cgroup.procs").write_text("0")
    os.sched_setaffinity(0, config["cpus"])
    unshared_read, unshared_write = os.pipe()
    connected_read, connected_write = os.pipe()
    unshare(CLONE_NEWPID, "process ids")
    child = os.fork()
    if child == 0:
        os.close(connected_write)
        _run_as_process_one(config, connected_read, unshared_write)
    else:
        os.close(unshared_write)
        if os.read(unshared_read, 1):
            _connect(config)
            os.write(connected_write, b".")
        os._exit(0)


def _connect(config: Mapping[str, Any]) -> None:
    """Create the link from the switch to the host: `port` here, eth0 in the host's network namespace.

    `ip` runs in the host's PID namespace, so `netns 1` names the host's process 1.
    """
    port = config["port"]
    run_batch(
        config["ip"],
        [
            f"link add {port} type veth peer name eth0 netns 1",
            f"link set {port} master {config['bridge']} up",
        ],
    )
    if config["cap"]:
        cap_link(config["tc"], [f"qdisc add dev {port} {config['cap']}"])


def _run_as_process_one(config: Mapping[str, Any], connected_read: int, unshared_write: int) -> None:
    unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC, "network, mounts, name and IPC")
    os.write(unshared_write, b".")
    os.close(unshared_write)
    os.chdir("/")
    prepare_mounts(config)
    socket.sethostname(config["name"])
    if not os.read(connected_read, 1):
        os._exit(1)  # the outer process has sent the reason
    os.close(connected_read)
    run_batch(
        config["ip"],
        ["link set lo up", f"addr add {config['address']}/{config['prefix']} dev eth0", "link set eth0 up"],
    )
    capped = bool(config["cap"]) and cap_link(config["tc"], [f"qdisc add dev eth0 {config['cap']}"])
    sshd = subprocess.Popen(config["sshd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for_banner(config["address"], config["ssh_port"], sshd, config["deadline_s"], 2)
    send({"ready": config["name"], "capped": capped, "writable": writable_sysctls()})
    detach_streams()
    while True:
        pid, status = os.wait()  # a process 1 also reaps the orphans of its host
        if pid == sshd.pid:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def prepare_mounts(config: Mapping[str, Any]) -> None:
    """Mount the host's own /run, /var/log, files of /etc, /proc, /sys and cgroups; with several hosts also /tmp."""
    log_folders = list(_folders(_LOGS))
    shadow = _shadow_with_key_login(Path("/etc/shadow"))
    # Mount changes of the machine reach this namespace, but not the reverse.
    mount("none", "/", None, MS_REC | MS_SLAVE)
    mountinfo = (_PROC / "self" / "mountinfo").read_text(errors="surrogateescape")
    mount_points = [each.point for each in parse_mounts(mountinfo)]
    _unmount_below(mount_points, _RUN)
    _private_run(config, shadow)
    if config["own_tmp"]:
        _unmount_below(mount_points, *_SCRATCH)
        for folder in _SCRATCH:
            if folder.is_dir():
                mount("tmpfs", folder, "tmpfs", _SAFE, "mode=1777")
    _unmount_below(mount_points, _LOGS)
    _private_logs(log_folders)
    if _CONTAINERS.is_dir():
        _unmount_below(mount_points, _CONTAINERS)
        mount("tmpfs", _CONTAINERS, "tmpfs", _SAFE & ~MS_NODEV, "mode=700")
    cgroups = _collect_cgroups(config)
    _unmount_below(mount_points, _SYS, _PROC)
    _private_proc()
    mount("sysfs", _SYS, "sysfs", _SAFE | MS_NOEXEC | MS_RDONLY)
    if _CGROUPS.is_dir():  # writable mounts on a read-only /sys
        mount(str(cgroups), _CGROUPS, None, MS_MOVE)


def writable_sysctls() -> list[str]:
    """Return the paths below /proc/sys of the sysctls that this process may write, except settings of single links."""
    writable = []
    for folder, _, files in os.walk(_SYSCTLS):
        parent = Path(folder)
        if parent.parent.name in _SYSCTLS_PER_LINK and parent.name not in ("all", "default"):
            continue
        for name in files:
            path = parent / name
            if os.access(path, os.W_OK):
                writable.append(str(path.relative_to(_SYSCTLS)))
    return sorted(writable)


def _private_run(config: Mapping[str, Any], shadow: str | None) -> None:
    """Mount a /run with the files that sshd needs, and the host's /etc files over the machine's."""
    mount("tmpfs", _RUN, "tmpfs", _SAFE, "mode=755")
    for name, mode in (("lock", 0o1777), ("sshd", 0o755)):
        folder = _RUN / name
        folder.mkdir()
        folder.chmod(mode)
    host_folder = Path(config["folder"])
    host_folder.mkdir(mode=0o700)
    for name, text in config["files"].items():
        _write(host_folder / name, text, 0o600)
    etc = dict(config["etc"])
    if shadow is not None:
        etc["shadow"] = shadow
    for name, text in etc.items():
        path, target = host_folder / f"etc-{name}", Path("/etc") / name
        _write(path, text, 0o640 if name == "shadow" else 0o644)
        if target.exists():  # a bind mount needs an existing file
            mount(str(path), target, None, MS_BIND)


def _private_logs(folders: Sequence[tuple[str, os.stat_result]]) -> None:
    """Mount an empty /var/log with the folders that daemons expect."""
    if not folders:
        return
    mount("tmpfs", _LOGS, "tmpfs", _SAFE, "mode=755")
    for name, facts in folders:
        folder = _LOGS / name
        folder.mkdir(exist_ok=True)
        os.chown(folder, facts.st_uid, facts.st_gid)
        folder.chmod(facts.st_mode & 0o7777)


def _private_proc() -> None:
    """Mount a /proc with the host's own processes; only sysctls isolated by its network namespace are writable."""
    mount("proc", _PROC, "proc", _SAFE | MS_NOEXEC)
    mount(str(_SYSCTLS_ISOLATED), _SYSCTLS_ISOLATED, None, MS_BIND)
    mount(str(_SYSCTLS), _SYSCTLS, None, MS_BIND | MS_REC)
    for path in (_SYSCTLS, *(path for path in _PROC_READ_ONLY if path.exists())):
        if path is not _SYSCTLS:
            mount(str(path), path, None, MS_BIND)
        mount("none", path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | _SAFE | MS_NOEXEC)


def _collect_cgroups(config: Mapping[str, Any]) -> Path:
    """Mount the host's cgroups in one folder, while the machine's /sys is still visible, and return the folder."""
    folder = Path(config["folder"]) / "cgroup"
    folder.mkdir()
    mount("tmpfs", folder, "tmpfs", _SAFE | MS_NOEXEC, "mode=755")
    for part in config["cgroups"]:
        target = folder / part["name"]
        target.mkdir(exist_ok=True)
        mount(part["source"], target, None, MS_BIND)
    return folder


def _unmount_below(points: Sequence[Path], *folders: Path) -> None:
    """Unmount the mount points in folders that are about to be covered.

    Otherwise this namespace would keep a disk busy after the machine unmounts it, and no user could see why.
    """
    for point in reversed(points):
        if any(point.is_relative_to(folder) for folder in folders):
            unmount(point)


def _folders(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the folders below `root`, parents before children."""
    for folder, _, _ in os.walk(root):
        yield os.path.relpath(folder, root), os.stat(folder)  # noqa: PTH116 - os.walk gives text


def _shadow_with_key_login(path: Path) -> str | None:
    """Return the shadow file with root unlocked and without expiry: sshd without PAM refuses locked accounts."""
    if not path.is_file():
        return None
    lines = path.read_text().splitlines()
    return "".join(f"{'root:*:19000:0:99999:7:::' if line.startswith('root:') else line}\n" for line in lines)


def _write(path: Path, text: str, mode: int) -> None:
    path.write_text(text)
    path.chmod(mode)
