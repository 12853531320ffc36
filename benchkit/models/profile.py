"""A CPU profile from pprof or perf: stacks with their samples, the categories of CPU time, and the metrics of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final, Literal, get_args

from benchkit import units
from benchkit.models.columns import Metric

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

WAITING: frozenset[Category] = frozenset({"scheduler", "netpoll", "epoll"})
"""The headline share, finding and waiting for work, alike for every kind of server.

In Go it is the scheduler with its polling of the network (netpoll under findRunnable, which contains epoll_wait). In an
event loop, nginx and Node it is their own epoll, with its timers. Without it, an event loop would look free of charge.
"""

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


Profiler = Literal["pprof", "perf"]

PER_SECOND: Mapping[str, int] = MappingProxyType(
    {"nanoseconds": 10**9, "microseconds": 10**6, "milliseconds": 10**3, "seconds": 1}
)
"""Units of time in profiles, and the number of each in a second."""

UNKNOWN = "<unknown>"
"""Name of a function without any information, as in pprof."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a sample's value: `cpu` in `nanoseconds`, `samples` as a `count`."""

    kind: str
    unit: str

    def seconds(self, value: int) -> float | None:
        """Return a value in seconds; None if it is not a time."""
        per_second = PER_SECOND.get(self.unit)
        return None if per_second is None else value / per_second

    def shown(self, value: int) -> str:
        """Return a value as text: a time, a size, or a number of what is counted."""
        time_s = self.seconds(value)
        if time_s is not None:
            return units.seconds(time_s)
        return units.size(value) if self.unit == "bytes" else units.count(value)


@dataclass(frozen=True, slots=True)
class Frame:
    """A function in a stack; calls from different lines of it are the same frame."""

    function: str
    """Its name as the profiler wrote it; empty if unknown."""
    module: str | None = None
    """Executable, library, kernel module or map of compiled code that contains it."""
    file: str | None = None
    """Source file."""
    kernel: bool = False

    @property
    def label(self) -> str:
        """Its name, or `[module]`, or `<unknown>`: the label that pprof shows."""
        if self.function:
            return self.function
        return f"[{PurePosixPath(self.module).name}]" if self.module else UNKNOWN


@dataclass(frozen=True)
class Profile:
    """A profile: frames, and stacks with the sums of their samples."""

    profiler: Profiler
    value_type: ValueType
    """Type of its values: of several in its file, the default one."""
    frames: tuple[Frame, ...]
    stacks: tuple[tuple[int, ...], ...]
    """Stacks as indices into `frames`, innermost (the function that ran) first; an unknown stack is empty."""
    weights: tuple[int, ...]
    """Sum of the samples of each stack."""
    started_at: datetime | None = None
    duration_s: float | None = None
    """Wall-clock duration of the profile."""

    @cached_property
    def has_kernel(self) -> bool:
        """True if kernel functions were recorded; pprof counts kernel time under the function that called the kernel.

        Only frames with a module count: a wrongly unwound stack may end at any address.
        """
        return any(frame.kernel and frame.module is not None for frame in self.frames)


SHARE: Final = "profile_share/"
"""Prefix of the share of a category, or of `waiting`: categories are disjoint, and add up to 1."""
CUMULATIVE: Final = "profile_cumulative/"
"""Prefix of the cumulative share of a scheduler function with all that it calls, as study 4 printed it."""
HEADLINE = "waiting"
"""Finding and waiting for work: the categories of `WAITING` together."""


def _metric(name: str, title: str) -> Metric:
    return Metric(name=name, description=title, unit="share", title=title, better=None, format=units.share)


PROFILE_METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            _metric(f"{SHARE}{HEADLINE}", "CPU share of finding and waiting for work"),
            *(_metric(f"{SHARE}{category}", f"CPU share of {category}") for category in CATEGORIES),
            *(_metric(f"{CUMULATIVE}{function}", f"cumulative CPU share of {function}") for function in STUDIED),
        )
    }
)
"""All profile metrics, by name: `profile_share/waiting`, `profile_share/gc`, `profile_cumulative/mcall`."""
