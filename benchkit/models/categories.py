"""Categories of a server's CPU time, and the scheduler functions that study 4 measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

Category = Literal[
    "scheduler",
    "netpoll",
    "epoll",
    "read/write",
    "accept/close",
    "gc",
    "allocation",
    "channel/lock",
    "http",
    "handler",
    "fastcgi",
    "kernel network",
    "other",
]
CATEGORIES: tuple[Category, ...] = get_args(Category)

SCHEDULING: frozenset[Category] = frozenset({"scheduler", "netpoll"})
"""The headline share: Go's scheduler and its polling of the network (netpoll under findRunnable)."""

STUDIED: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        name: re.compile(rf"(?:{function})(?:\.abi0)?$")
        for name, function in {
            "mcall": r"runtime\.mcall",
            "schedule": r"runtime\.schedule",
            "findrunnable": r"runtime\.find[rR]unnable",
            "netpoll": r"runtime\.netpoll",
            "epollwait": r"runtime\.epollwait|(?:runtime/internal|internal/runtime)/syscall(?:/linux)?\.EpollWait",
        }.items()
    }
)
"""Functions whose cumulative shares study 4 printed, under all their names over time; a profile has one name of each.

From Go 1.21 on, EpollWait is inlined into netpoll, and perf does not show it.
"""
