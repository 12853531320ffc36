"""What the time of a server is told apart into, and the functions by which study 4 told it."""

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
"""The headline: what Go's scheduler takes, its waiting for the network (netpoll under findRunnable) with it."""

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
"""The functions whose cumulative shares study 4 printed, under all the names that they had; a profile has one of each.

perf does not see EpollWait from Go 1.21 on, because it is inlined into netpoll.
"""
