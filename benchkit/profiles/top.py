"""Flat and cumulative values of each function: the table of `go tool pprof -top`, row for row.

Computed as pprof does it (github.com/google/pprof, internal/report and internal/graph), at the granularity of
functions:

- flat: value of the samples in which the function ran. cum: value of the samples with the function in their stack, once
  each even if it recurs. An inlined function counts as itself. Functions with the same name in several files are one.
- Rows are sorted by flat (or cum) value, then by name.
- Rows whose cum value is below 0.5 % of the sum of all flat values, rounded down, are dropped (`-nodefraction`);
  `least_share=0` keeps them, as `-nodefraction=0` does. At most `most_rows` are kept (`-nodecount`; 0: all).

Values, percentages, running sums, order and names are therefore equal in every row. This holds for every
kind of profile that Go writes, with pprof's defaults and with those options. Not supported are pprof's filters
(`-focus` …), `-mean`, `-diff_base`, other granularities, and symbols that pprof looks up in a binary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from benchkit.models.profile import Profile, ValueType

Order = Literal["flat", "cum"]

LEAST_SHARE = 0.005
"""Share below which rows are dropped: pprof's default for -nodefraction."""

_Node = tuple[str, str]
"""A function by its label, and an unnamed one also by its module."""


@dataclass(frozen=True, slots=True)
class TopRow:
    """One function of a profile."""

    function: str
    flat: int
    """Value in the unit of the profile's value type."""
    cum: int


@dataclass(frozen=True)
class TopTable:
    """The functions of a profile, sorted."""

    value_type: ValueType
    total: int
    """Whole that shares refer to."""
    rows: tuple[TopRow, ...]
    functions: int
    """Number of functions, including functions without a row."""

    def share(self, value: int) -> float:
        """Return a value as a share of the whole; 0 if the whole is empty."""
        return value / self.total if self.total else 0.0

    def running_sums(self) -> Iterator[int]:
        """Iterate over the sum of the flat values down to each row."""
        return accumulate(row.flat for row in self.rows)


def top(profile: Profile, *, order: Order = "flat", least_share: float = LEAST_SHARE, most_rows: int = 0) -> TopTable:
    """Return the table of the functions in a profile."""
    nodes = [(frame.label, "" if frame.function else frame.module or "") for frame in profile.frames]
    flat: Counter[_Node] = Counter()
    cum: Counter[_Node] = Counter()
    for stack, weight in zip(profile.stacks, profile.weights, strict=True):
        if stack and weight:
            flat[nodes[stack[0]]] += weight
            cum.update(dict.fromkeys({nodes[frame] for frame in stack}, weight))
    first, second = (flat, cum) if order == "flat" else (cum, flat)
    least = int(flat.total() * least_share)
    found = [node for node in cum if cum[node] >= least]
    found.sort(key=lambda node: (-first[node], node[0], -second[node], node))
    return TopTable(
        value_type=profile.value_type,
        total=sum(profile.weights),
        rows=tuple(TopRow(node[0], flat[node], cum[node]) for node in (found[:most_rows] if most_rows > 0 else found)),
        functions=len(cum),
    )
