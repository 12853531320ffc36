"""The file system of a lab host: the machine's, with what a host does not share with others mounted over it.

All mounts are made in a mount namespace of the host's own and end with its last process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchkit.lab.inside.kernel import (
    MS_BIND,
    MS_MOVE,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    MS_SLAVE,
    mount,
    unmount,
)

_OCTAL = re.compile(r"\\([0-7]{3})")
_SAFE = MS_NOSUID | MS_NODEV
_SCRATCH = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - a host's own, made by it
_RUN = Path("/run")
_LOGS = Path("/var/log")
_PROC = Path("/proc")
_SYS = Path("/sys")
_SYSCTLS = _PROC / "sys"
_SYSCTLS_ISOLATED = _SYSCTLS / "net"
_SYSCTLS_PER_LINK = ("conf", "neigh")
_CGROUPS = _SYS / "fs" / "cgroup"
_PROC_READ_ONLY = tuple(_PROC / name for name in ("acpi", "bus", "fs", "irq", "mtrr", "sysrq-trigger"))
"""What of /proc acts on the whole machine (the list that container runtimes protect)."""


def prepare(config: Mapping[str, Any]) -> None:
    """Give the host its own /run, /tmp, /var/log, /etc files, /proc, /sys and cgroups."""
    log_folders = list(_folders(_LOGS))
    shadow = _shadow_with_key_login(Path("/etc/shadow"))
    mount("none", "/", None, MS_REC | MS_SLAVE)  # what the machine unmounts goes here too, nothing goes back
    below = _mount_points()
    _let_go_of(below, _RUN)
    _private_run(config, shadow)
    _let_go_of(below, *_SCRATCH, _LOGS)
    for folder in _SCRATCH:
        if folder.is_dir():
            mount("tmpfs", folder, "tmpfs", _SAFE, "mode=1777")
    _private_logs(log_folders)
    cgroups = _gather_cgroups(config)
    _let_go_of(below, _SYS, _PROC)
    _private_proc()
    _private_sys(cgroups)


def writable_sysctls() -> list[str]:
    """The sysctls that this process may write, as paths below /proc/sys, less those of single network links."""
    found = []
    for folder, _, files in os.walk(_SYSCTLS):
        place = Path(folder)
        if place.parent.name in _SYSCTLS_PER_LINK and place.name not in ("all", "default"):
            continue
        for name in files:
            path = place / name
            if os.access(path, os.W_OK):
                found.append(str(path.relative_to(_SYSCTLS)))
    return sorted(found)


def unescape(text: str) -> str:
    """A path as mountinfo has it, blanks and the like as three octal digits (proc(5))."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def _private_run(config: Mapping[str, Any], shadow: str | None) -> None:
    """A /run with what sshd needs, and the host's files of /etc laid over the machine's."""
    mount("tmpfs", _RUN, "tmpfs", _SAFE, "mode=755")
    for name, mode in (("lock", 0o1777), ("sshd", 0o755)):
        folder = _RUN / name
        folder.mkdir()
        folder.chmod(mode)
    own = Path(config["folder"])
    own.mkdir(mode=0o700)
    for name, text in config["files"].items():
        _write(own / name, text, 0o600)
    etc = dict(config["etc"])
    if shadow is not None:
        etc["shadow"] = shadow
    for name, text in etc.items():
        path, target = own / f"etc-{name}", Path("/etc") / name
        _write(path, text, 0o640 if name == "shadow" else 0o644)
        if target.exists():  # a file that the machine does not have cannot be laid over
            mount(str(path), target, None, MS_BIND)


def _private_logs(folders: Sequence[tuple[str, os.stat_result]]) -> None:
    """An empty /var/log with the folders that daemons expect."""
    if not folders:
        return
    mount("tmpfs", _LOGS, "tmpfs", _SAFE, "mode=755")
    for name, facts in folders:
        folder = _LOGS / name
        folder.mkdir(exist_ok=True)
        os.chown(folder, facts.st_uid, facts.st_gid)
        folder.chmod(facts.st_mode & 0o7777)


def _private_proc() -> None:
    """The host's own processes, and of the sysctls only those writable that a network namespace isolates."""
    mount("proc", _PROC, "proc", _SAFE | MS_NOEXEC)
    mount(str(_SYSCTLS_ISOLATED), _SYSCTLS_ISOLATED, None, MS_BIND)
    mount(str(_SYSCTLS), _SYSCTLS, None, MS_BIND | MS_REC)
    for path in (_SYSCTLS, *(path for path in _PROC_READ_ONLY if path.exists())):
        if path is not _SYSCTLS:
            mount(str(path), path, None, MS_BIND)
        mount("none", path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | _SAFE | MS_NOEXEC)


def _gather_cgroups(config: Mapping[str, Any]) -> Path:
    """The host's cgroups in a folder of their own, while the machine's /sys is still in sight."""
    gathered = Path(config["folder"]) / "cgroup"
    gathered.mkdir()
    mount("tmpfs", gathered, "tmpfs", _SAFE | MS_NOEXEC, "mode=755")
    for part in config["cgroups"]:
        target = gathered / part["name"]
        target.mkdir(exist_ok=True)
        mount(part["source"], target, None, MS_BIND)
    return gathered


def _private_sys(cgroups: Path) -> None:
    """A read-only /sys that shows the host's own network links, with its own cgroups writable in it."""
    mount("sysfs", _SYS, "sysfs", _SAFE | MS_NOEXEC | MS_RDONLY)
    if _CGROUPS.is_dir():
        mount(str(cgroups), _CGROUPS, None, MS_MOVE)


def _mount_points() -> list[Path]:
    """Where something is mounted, in the order it was."""
    text = (_PROC / "self" / "mountinfo").read_text(errors="surrogateescape")
    return [Path(unescape(line.split()[4])) for line in text.splitlines()]


def _let_go_of(points: Sequence[Path], *folders: Path) -> None:
    """Unmount what the machine has mounted in folders that are about to be covered.

    Else a disk that the machine unmounts would stay busy here, out of everybody's sight.
    """
    for point in reversed(points):
        if any(point.is_relative_to(folder) for folder in folders):
            unmount(point)


def _folders(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The folders below `root`, outer before inner."""
    for folder, _, _ in os.walk(root):
        yield os.path.relpath(folder, root), os.stat(folder)  # noqa: PTH116 - os.walk gives text


def _shadow_with_key_login(path: Path) -> str | None:
    """The shadow file with root's entry free of lock and expiry: sshd without PAM refuses a locked account its key."""
    if not path.is_file():
        return None
    lines = path.read_text().splitlines()
    return "".join(f"{'root:*:19000:0:99999:7:::' if line.startswith('root:') else line}\n" for line in lines)


def _write(path: Path, text: str, mode: int) -> None:
    path.write_text(text)
    path.chmod(mode)
