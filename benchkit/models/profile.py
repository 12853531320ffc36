"""A CPU profile: samples with their stacks, from any profiler.

The model serves pprof and perf. Equal frames and equal stacks are stored once, and a sample refers to its stack: 10⁵
samples of a server have some thousand stacks.
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


@dataclass(frozen=True, slots=True)
class Frame:
    """A function in a stack; calls from different lines of it are the same frame."""

    function: str
    """Its name as the profiler wrote it; empty if unknown."""
    module: str | None = None
    """Executable, library, kernel module or map of compiled code that contains it."""
    file: str | None = None
    """Source file."""
    inlined: bool = False
    """True if the compiler inlined it into its caller, the next frame of the stack."""
    kernel: bool = False

    @property
    def label(self) -> str:
        """Its name, or `[module]`, or `<unknown>`: the label that pprof shows."""
        if self.function:
            return self.function
        return f"[{PurePosixPath(self.module).name}]" if self.module else UNKNOWN


@dataclass(frozen=True)
class Profile:
    """A profile: tables of frames and stacks, and samples as columns of equal length."""

    profiler: Profiler
    value_types: tuple[ValueType, ...]
    """Types of the values of a sample, at least one."""
    default_value: int
    """Index of the value type that is used by default."""
    frames: tuple[Frame, ...]
    stacks: tuple[tuple[int, ...], ...]
    """Stacks as indices into `frames`, innermost (the function that ran) first; an unknown stack is empty."""
    samples: tuple[int, ...]
    """Stack of each sample, an index into `stacks`."""
    values: tuple[tuple[int, ...], ...]
    """Value of each sample, for each value type."""
    started_at: datetime | None = None
    duration_s: float | None = None
    """Wall-clock duration of the profile."""

    def value_index(self, kind: str | None = None) -> int:
        """Return the index of the value type of that kind, or of the default one.

        Raises KeyError for an unknown kind.
        """
        if kind is None:
            return self.default_value
        for i, value_type in enumerate(self.value_types):
            if value_type.kind == kind:
                return i
        raise KeyError(kind)

    def weights(self, value: int | None = None) -> list[int]:
        """Return for each stack the sum of the values of its samples, by the index of a value type (or the default)."""
        sums = [0] * len(self.stacks)
        for stack, number in zip(
            self.samples, self.values[self.default_value if value is None else value], strict=True
        ):
            sums[stack] += number
        return sums

    @cached_property
    def has_kernel(self) -> bool:
        """True if kernel functions were recorded; pprof counts kernel time under the function that called the kernel.

        A stack that was unwound wrongly ends at any address; the kernel's own functions are in a module that perf
        names.
        """
        return any(frame.kernel and frame.module is not None for frame in self.frames)
