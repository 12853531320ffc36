"""Latency histograms: how many requests took how long, mergeable where percentiles are not.

Buckets are those of HdrHistogram (https://hdrhistogram.org) in units of a microsecond: with d significant digits, values
below 2^k, where k = ⌈log2(2 · 10^d)⌉, have a bucket each, and every doubling beyond that has 2^(k-1) of them, so that a
bucket is never wider than 10^-d of its values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]

NS_PER_UNIT = 1000
NS_PER_S = 1_000_000_000
_UNITS_PER_S = NS_PER_S // NS_PER_UNIT

MIN_DIGITS, MAX_DIGITS = 1, 5
MAX_VALUE = 1 << 52
"""Microseconds: 142 years. Up to here a double tells integers apart, which finds the bucket."""

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
"""Those that the tables and reports have."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """How many requests took how long: the buckets that have a count, and exactly the extremes and the sum.

    `indexes` are HdrHistogram's, ascending; `counts` (above zero) stand beside them. Nothing of it can be changed.
    """

    indexes: Integers
    counts: Integers
    digits: int
    """Significant digits to which values are told apart."""
    min_ns: int | None
    max_ns: int | None
    sum_ns: int | None
    """The sum of all values, where it is known."""

    def __post_init__(self) -> None:
        """Refuse what is no histogram, and make the arrays read-only."""
        if not MIN_DIGITS <= self.digits <= MAX_DIGITS:
            raise ValueError(f"{self.digits} significant digits: {MIN_DIGITS} to {MAX_DIGITS}")
        if self.indexes.shape != self.counts.shape or self.indexes.ndim != 1:
            raise ValueError(f"{self.indexes.shape} buckets with {self.counts.shape} counts")
        if self.total and (self.indexes[0] < 0 or np.any(np.diff(self.indexes) <= 0) or np.any(self.counts <= 0)):
            raise ValueError("buckets must ascend, and have counts above zero")
        if (self.min_ns is None) != (not self.total) or (self.max_ns is None) != (not self.total):
            raise ValueError("a histogram has extremes unless it is empty")
        for array in (self.indexes, self.counts):
            array.setflags(write=False)

    @classmethod
    def from_microseconds(cls, values: Integers, counts: Integers, *, digits: int) -> Histogram:
        """The histogram of whole microseconds, ascending, each with its count (above zero).

        Raises ValueError where they do not ascend, are negative, or lie beyond `MAX_VALUE`.
        """
        if not len(values):
            return cls(_integers(), _integers(), digits, None, None, 0)
        if np.any(np.diff(values) <= 0) or values[0] < 0 or values[-1] > MAX_VALUE:
            raise ValueError("values must ascend from zero up")
        low, high = int(values[0]), int(values[-1])
        # numpy's product and sum wrap around in silence; where they could, Python's integers take their place.
        safe = high * int(counts.sum(dtype=np.float64)) < 1 << 62
        whole = int(values @ counts) if safe else sum(map(int.__mul__, values.tolist(), counts.tolist()))
        indexes, counts = _joined(_indexes_of(values, digits), counts)
        return cls(indexes, counts, digits, low * NS_PER_UNIT, high * NS_PER_UNIT, whole * NS_PER_UNIT)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same counts in the same buckets, the same extremes and the same sum."""
        if not isinstance(other, Histogram):
            return NotImplemented
        mine, theirs = ((h.digits, h.min_ns, h.max_ns, h.sum_ns) for h in (self, other))
        return (
            mine == theirs and np.array_equal(self.indexes, other.indexes) and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment] # compared by its arrays

    @cached_property
    def total(self) -> int:
        """How many requests were counted."""
        return int(self.counts.sum())

    @property
    def min_s(self) -> float | None:
        """The shortest time, in seconds."""
        return _seconds(self.min_ns)

    @property
    def max_s(self) -> float | None:
        """The longest time, in seconds."""
        return _seconds(self.max_ns)

    @property
    def mean_s(self) -> float | None:
        """The mean in seconds; None where it is empty, or the sum is not known."""
        return self.sum_ns / (self.total * NS_PER_S) if self.total and self.sum_ns is not None else None

    @cached_property
    def lowest(self) -> Integers:
        """The lowest value that each bucket counts, in microseconds."""
        return _lowest_of(self.indexes, self.digits)

    @cached_property
    def highest(self) -> Integers:
        """The highest value that each bucket counts, in microseconds."""
        return _lowest_of(self.indexes + 1, self.digits) - 1

    @cached_property
    def _cumulative(self) -> Integers:
        return np.cumsum(self.counts)

    def percentile(self, percent: float) -> float | None:
        """The time in seconds that `percent` (0 to 100) of the requests did not exceed; None where there are none.

        As HdrHistogram defines it (Java: AbstractHistogram.getValueAtPercentile): the highest value of the bucket that
        has the ⌈percent · n / 100⌉-th request in order. Here it is never above the longest time, which is known
        exactly; 0 is the shortest.
        """
        if self.min_ns is None or self.max_ns is None:
            return None
        if percent <= 0:
            return self.min_s
        # One step down first, as HdrHistogram does: 99.9 % of 1000 is 999, and not 999.0000000000001 rounded up.
        share = math.nextafter(min(percent, 100.0), 0.0)
        rank = max(1, math.ceil(share * self.total / 100))
        bucket = int(np.searchsorted(self._cumulative, rank))
        return _seconds(min(int(self.highest[bucket]) * NS_PER_UNIT, self.max_ns))

    def percentiles(self, percents: Sequence[float] = PERCENTILES) -> Mapping[str, float]:
        """Percentiles in seconds by name: "50", "99.9".

        Those are left out that so few requests cannot tell from the longest time: fewer than 1 / (1 - p).
        """
        told = [p for p in percents if round(self.total * (100 - p), 6) >= 100]  # noqa: PLR2004 - per cent
        found = {f"{percent:g}": self.percentile(percent) for percent in told}
        return {name: value for name, value in found.items() if value is not None}

    def rows(self) -> Iterator[tuple[float, float, int]]:
        """(low_s, high_s, count) of every bucket: the lowest and highest value that it counts, both included.

        The rows of the `latency` table; a percentile is the `high_s` of its bucket.
        """
        lows, highs, counts = self.columns()
        return zip(lows.tolist(), highs.tolist(), counts.tolist(), strict=True)

    def columns(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], Integers]:
        """The same as `rows`, as arrays: low_s, high_s, count."""
        return self.lowest / _UNITS_PER_S, self.highest / _UNITS_PER_S, self.counts

    def coarsened(self, digits: int) -> Histogram:
        """The same histogram with fewer significant digits: its buckets lie within those of fewer digits."""
        if digits > self.digits:
            raise ValueError(f"a histogram of {self.digits} significant digits has no {digits}")
        indexes, counts = _joined(_indexes_of(self.lowest, digits), self.counts)
        return Histogram(indexes, counts, digits, self.min_ns, self.max_ns, self.sum_ns)


def merge(histograms: Sequence[Histogram]) -> Histogram:
    """All requests of these histograms in one. Raises ValueError for none, or for different significant digits."""
    digits = {histogram.digits for histogram in histograms}
    if len(digits) != 1:
        raise ValueError(f"histograms of {sorted(digits)} significant digits cannot be merged")
    filled = [histogram for histogram in histograms if histogram.total]
    size = max((int(histogram.indexes[-1]) + 1 for histogram in filled), default=0)
    added = np.zeros(size, np.int64)
    for histogram in filled:
        added[histogram.indexes] += histogram.counts
    indexes = np.flatnonzero(added)
    sums = [histogram.sum_ns for histogram in histograms]
    return Histogram(
        indexes=indexes,
        counts=added[indexes],
        digits=digits.pop(),
        min_ns=min((h.min_ns for h in filled if h.min_ns is not None), default=None),
        max_ns=max((h.max_ns for h in filled if h.max_ns is not None), default=None),
        sum_ns=None if None in sums else sum(each for each in sums if each is not None),
    )


def _magnitude(digits: int) -> int:
    """log2 of how many buckets a doubling has."""
    return math.ceil(math.log2(2 * 10**digits)) - 1


def _indexes_of(values: Integers, digits: int) -> Integers:
    """The bucket that counts each value (Java: AbstractHistogram.countsArrayIndex, for a lowest value of 1)."""
    magnitude = _magnitude(digits)
    doublings = np.maximum(np.frexp(values.astype(np.float64))[1].astype(np.int64) - (magnitude + 1), 0)
    return (doublings << magnitude) + (values >> doublings)


def _lowest_of(indexes: Integers, digits: int) -> Integers:
    """The lowest value that each bucket counts: `_indexes_of` the other way round."""
    magnitude = _magnitude(digits)
    doublings: Integers = np.maximum((indexes >> magnitude) - 1, 0)
    return (indexes - (doublings << magnitude)) << doublings


def _joined(indexes: Integers, counts: Integers) -> tuple[Integers, Integers]:
    """Ascending buckets and their counts, those of a bucket that stands there several times added up."""
    if not len(indexes):
        return _integers(), _integers()
    starts = np.flatnonzero(np.diff(indexes, prepend=-1))
    return indexes[starts], np.add.reduceat(counts, starts)


def _integers() -> Integers:
    return np.empty(0, np.int64)


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / NS_PER_S
