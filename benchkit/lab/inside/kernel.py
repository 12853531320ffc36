"""System calls for namespaces that Python 3.11 has no functions for (`os.unshare` came with 3.12)."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
from pathlib import Path

# Values of linux/sched.h, sys/mount.h and linux/prctl.h; they are part of the kernel's stable interface.
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_MOVE = 0x2000
MS_SLAVE = 0x80000
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


class RefusedError(OSError):
    """The kernel refused a system call that a lab with namespaces needs."""


def unshare(flags: int, what: str) -> None:
    """Move this process to new namespaces of the kinds in `flags`. Raises RefusedError naming `what`."""
    if _libc.unshare(ctypes.c_int(flags)) != 0:
        _refused(f"cannot create namespaces for {what}")


def mount(source: str, target: str | Path, kind: str | None, flags: int = 0, options: str = "") -> None:
    """Mount a file system or a part of one. Raises RefusedError naming the target."""
    encoded_kind = None if kind is None else kind.encode()
    if _libc.mount(os.fsencode(source), os.fsencode(target), encoded_kind, flags, options.encode() or None) != 0:
        _refused(f"cannot mount {target}")


def unmount(target: str | Path) -> None:
    """Unmount a mount point and all below it in this namespace, if it exists. Raises RefusedError naming the target."""
    if _libc.umount2(os.fsencode(target), _MNT_DETACH) != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.ENOENT):
        _refused(f"cannot unmount {target}")


def become_subreaper() -> None:
    """Make this process the parent of orphans below it, so that they are still found as its descendants."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        _refused("cannot adopt orphans")


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    if _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        _refused("cannot bind a process to its parent")
    if os.getppid() != parent:  # the parent ended before the call
        os._exit(1)


def _refused(what: str) -> None:
    number = ctypes.get_errno()
    raise RefusedError(number, f"{what}: {os.strerror(number)}")
