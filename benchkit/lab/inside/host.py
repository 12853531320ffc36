"""The init process of a lab host: it prepares the host's namespaces, and ends with the host's sshd.

It is started in the namespaces of the host; the switch connects the host's link there. A host has the machine's file
system, with private mounts over the folders that hosts must not share. The mounts are in the host's mount namespace,
and disappear with its last process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchkit.lab.inside.system import (
    detach_streams,
    open_log,
    receive,
    run,
    run_batch,
    send,
    wait_for_banner,
)

_SAFE = "nosuid,nodev"
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
    prepare_mounts(config)
    socket.sethostname(config["name"])
    send({"prepared": config["name"]})
    if receive(sys.stdin) is None:
        os._exit(1)  # the switch could not connect this host
    run_batch(
        config["ip"],
        ["link set lo up", f"addr add {config['address']}/{config['prefix']} dev eth0", "link set eth0 up"],
    )
    if config["cap"]:
        run_batch(config["tc"], [f"qdisc add dev eth0 {config['cap']}"])
    sshd = subprocess.Popen(config["sshd"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for_banner(config["address"], config["ssh_port"], sshd, config["deadline_s"], 2)
    send({"ready": config["name"], "writable": writable_sysctls()})
    detach_streams()
    while True:
        pid, status = os.wait()  # a process 1 also reaps the orphans of its host
        if pid == sshd.pid:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def prepare_mounts(config: Mapping[str, Any]) -> None:
    """Mount the host's own /run, /var/log, files of /etc, /proc, /sys and cgroups; with several hosts also /tmp."""
    _private_run(config, _shadow_with_key_login(Path("/etc/shadow")))
    if config["own_tmp"]:
        for folder in _SCRATCH:
            if folder.is_dir():
                _mount("tmpfs", folder, f"{_SAFE},mode=1777")
    _private_logs()
    if _CONTAINERS.is_dir():
        _mount("tmpfs", _CONTAINERS, "nosuid,mode=700")
    cgroups = _collect_cgroups(config)
    if _SYS.is_mount():  # runc looks for control groups in all mounts, those that another covers too
        run("umount", "--recursive", "--lazy", str(_SYS))
    _private_proc()
    _mount("sysfs", _SYS, f"{_SAFE},noexec,ro")
    if _CGROUPS.is_dir():  # writable mounts on a read-only /sys
        run("mount", "--move", str(cgroups), str(_CGROUPS))


def _mount(kind: str, target: Path, options: str) -> None:
    run("mount", "-t", kind, "-o", options, kind, str(target))


def _bind(source: str | Path, target: Path) -> None:
    run("mount", "--rbind", str(source), str(target))


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
    _mount("tmpfs", _RUN, f"{_SAFE},mode=755")
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
            _bind(path, target)


def _private_logs() -> None:
    """Mount an empty /var/log with the folders that daemons expect."""
    folders = [(path, path.stat()) for path in sorted(_LOGS.iterdir()) if path.is_dir()]
    _mount("tmpfs", _LOGS, f"{_SAFE},mode=755")
    for folder, facts in folders:
        folder.mkdir()
        os.chown(folder, facts.st_uid, facts.st_gid)
        folder.chmod(facts.st_mode & 0o7777)


def _private_proc() -> None:
    """Mount a /proc with the host's own processes; only sysctls isolated by its network namespace are writable."""
    _mount("proc", _PROC, f"{_SAFE},noexec")
    _bind(_SYSCTLS_ISOLATED, _SYSCTLS_ISOLATED)
    for path in (_SYSCTLS, *(path for path in _PROC_READ_ONLY if path.exists())):
        _bind(path, path)
        run("mount", "-o", f"remount,bind,ro,{_SAFE},noexec", str(path))


def _collect_cgroups(config: Mapping[str, Any]) -> Path:
    """Mount the host's cgroups in one folder, while the machine's /sys is still visible, and return the folder."""
    folder = Path(config["folder"]) / "cgroup"
    folder.mkdir()
    _mount("tmpfs", folder, f"{_SAFE},noexec,mode=755")
    for part in config["cgroups"]:
        target = folder / part["name"]
        target.mkdir(exist_ok=True)
        _bind(part["source"], target)
    return folder


def _shadow_with_key_login(path: Path) -> str | None:
    """Return the shadow file with root unlocked and without expiry: sshd without PAM refuses locked accounts."""
    if not path.is_file():
        return None
    lines = path.read_text().splitlines()
    return "".join(f"{'root:*:19000:0:99999:7:::' if line.startswith('root:') else line}\n" for line in lines)


def _write(path: Path, text: str, mode: int) -> None:
    path.write_text(text)
    path.chmod(mode)
