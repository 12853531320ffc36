"""Flat and cumulative values of each function: the table of `go tool pprof -top`, row for row.

Computed as pprof does it (github.com/google/pprof, internal/report and internal/graph), at the granularity of
functions:

- flat: value of the samples in which the function ran. cum: value of the samples with the function in their stack, once
  each even if it recurs. An inlined function counts as itself. Functions with the same name in several files are one.
- Shares are relative to the sum of all samples' absolute values.
- Rows are sorted by flat (or cum) value, then by name; both by absolute value.
- Rows whose cum value is below 0.5 % of the sum of all flat values, rounded down, are dropped (`-nodefraction`);
  `least_share=0` keeps them, as `-nodefraction=0` does. At most `most_rows` are kept (`-nodecount`; 0: all).

Values, percentages, running sums, order and names are therefore equal in every row. This holds for every
sample type of every kind of profile that Go writes, with pprof's defaults and with those options. Not supported are
pprof's filters (`-focus` …), `-mean`, `-diff_base`, other granularities, and symbols that pprof looks up in a binary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from benchkit.models.profile import Frame, Profile, ValueType

Order = Literal["flat", "cum"]

LEAST_SHARE = 0.005
"""Share below which rows are dropped: pprof's default for -nodefraction."""

_Node = tuple[str, str]
"""A function by its name, and an unnamed one also by its module."""


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


def top(
    profile: Profile,
    *,
    value: int | None = None,
    order: Order = "flat",
    least_share: float = LEAST_SHARE,
    most_rows: int = 0,
) -> TopTable:
    """Return the table of the functions in a profile, by the value type of that index (the default one)."""
    value = profile.default_value if value is None else value
    nodes = [_node(frame) for frame in profile.frames]
    weighted = [(stack, weight) for stack, weight in zip(profile.stacks, profile.weights(value), strict=True) if weight]
    flat: dict[_Node, int] = {}
    cum: dict[_Node, int] = {}
    for stack, weight in weighted:
        if stack:
            flat[nodes[stack[0]]] = flat.get(nodes[stack[0]], 0) + weight
        for node in {nodes[frame] for frame in stack}:
            cum[node] = cum.get(node, 0) + weight
    least = int(sum(flat.values()) * least_share)
    found = [node for node in cum if (cum[node] or flat.get(node)) and abs(cum[node]) >= least]
    found.sort(key=_sort_key(flat, cum, order))
    kept = found[:most_rows] if most_rows > 0 else found
    labels = {node: frame.label for node, frame in zip(nodes, profile.frames, strict=True)}
    return TopTable(
        value_type=profile.value_types[value],
        total=sum(map(abs, profile.values[value])),
        rows=tuple(TopRow(labels[node], flat.get(node, 0), cum[node]) for node in kept),
        functions=len(cum),
    )


def _node(frame: Frame) -> _Node:
    return (frame.function, "" if frame.function else frame.module or "")


def _sort_key(
    flat: Mapping[_Node, int], cum: Mapping[_Node, int], order: Order
) -> Callable[[_Node], tuple[object, ...]]:
    first, second = (flat, cum) if order == "flat" else (cum, flat)
    return lambda node: (-abs(first.get(node, 0)), Frame(*node).label, -abs(second.get(node, 0)), node)
