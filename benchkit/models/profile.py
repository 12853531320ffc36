"""Where the time of a program went: samples with their stacks, whichever profiler took them.

One model for pprof's profiles and for perf's. It is made of tables in which equal things stand once: frames, and stacks
of frames; a sample is the number of its stack and its values. 10⁵ samples of a server have some thousand stacks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Literal

Profiler = Literal["pprof", "perf"]

PER_SECOND: Mapping[str, int] = MappingProxyType(
    {"nanoseconds": 10**9, "microseconds": 10**6, "milliseconds": 10**3, "seconds": 1}
)
"""The units of time in which profiles are written, and how many make a second."""

UNKNOWN = "<unknown>"
"""What stands for a function of which nothing is known, as in pprof."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """What one of the values of a sample is: `cpu` in `nanoseconds`, `samples` as a `count`."""

    kind: str
    unit: str

    def seconds(self, value: int) -> float | None:
        """A value in seconds; None where it is no time."""
        per_second = PER_SECOND.get(self.unit)
        return None if per_second is None else value / per_second


@dataclass(frozen=True, slots=True)
class Frame:
    """A function in a stack; calls from different lines of it are the same frame."""

    function: str
    """Its name as the profiler wrote it; empty where it has none."""
    module: str | None = None
    """The executable, library, kernel module or map of compiled code that it is in."""
    file: str | None = None
    """The source file."""
    inlined: bool = False
    """Whether its code stands inside that of its caller, which is the next frame of the stack."""
    kernel: bool = False

    @property
    def label(self) -> str:
        """Its name, or `[module]`, or `<unknown>`: what people are shown, the same as pprof's."""
        if self.function:
            return self.function
        return f"[{PurePosixPath(self.module).name}]" if self.module else UNKNOWN


@dataclass(frozen=True)
class Profile:
    """A profile: tables of frames and stacks, and samples as columns of equal length."""

    profiler: Profiler
    value_types: tuple[ValueType, ...]
    """What the values of a sample are, at least one."""
    default_value: int
    """Which of them is meant unless another is asked for."""
    frames: tuple[Frame, ...]
    stacks: tuple[tuple[int, ...], ...]
    """Each a sequence of indices into `frames`, innermost (the function that ran) first; empty where it is unknown."""
    samples: tuple[int, ...]
    """The stack of each sample, an index into `stacks`."""
    values: tuple[tuple[int, ...], ...]
    """For each value type the value of each sample."""
    started_at: datetime | None = None
    duration_s: float | None = None
    """How long was profiled, by the clock on the wall."""

    def value_index(self, kind: str | None = None) -> int:
        """The index of the value type of that kind, or of the default one. Raises KeyError where there is none."""
        if kind is None:
            return self.default_value
        for i, value_type in enumerate(self.value_types):
            if value_type.kind == kind:
                return i
        raise KeyError(kind)

    def weights(self, value: int | None = None) -> list[int]:
        """For each stack the sum over its samples of the value of that index (the default one)."""
        sums = [0] * len(self.stacks)
        for stack, number in zip(
            self.samples, self.values[self.default_value if value is None else value], strict=True
        ):
            sums[stack] += number
        return sums

    @cached_property
    def has_kernel(self) -> bool:
        """Whether the kernel is seen in it; pprof sees its time under the function that called it.

        A stack walked wrongly ends at any address; the kernel's own functions are in a module that perf names.
        """
        return any(frame.kernel and frame.module is not None for frame in self.frames)
