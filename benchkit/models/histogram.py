"""Latency histograms. Unlike percentiles, they can be merged.

Buckets are HdrHistogram's (https://hdrhistogram.org) in units of a microsecond. With d significant digits, values below
2^k, where k = ⌈log2(2 · 10^d)⌉, have a bucket each. Every doubling beyond that has 2^(k-1) buckets: a bucket is never
wider than 10^-d of its values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]

NS_PER_UNIT = 1000
NS_PER_S = 1_000_000_000
_UNITS_PER_S = NS_PER_S // NS_PER_UNIT

MAX_VALUE = 1 << 52
"""Largest value, in microseconds: buckets are computed with doubles, which represent integers exactly up to here."""

PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
"""Percentiles in tables and reports."""


@dataclass(frozen=True, eq=False)
class Histogram:
    """Number of requests by latency: the buckets that have a count, and the exact extremes and sum.

    `indexes` are HdrHistogram's bucket indexes, ascending; `counts` are the requests in each of them, above zero.
    """

    indexes: Integers
    counts: Integers
    digits: int
    """Significant digits to which values are distinguished."""
    min_ns: int | None
    max_ns: int | None
    sum_ns: int | None
    """Sum of all values; None where it is unknown."""

    def __post_init__(self) -> None:
        """Check that the arrays are a histogram. Raises ValueError."""
        if np.any(np.diff(self.indexes, prepend=-1) <= 0) or np.any(self.counts <= 0):
            raise ValueError("buckets must ascend and have counts above zero")
        if (self.min_ns is None) != (not self.total) or (self.max_ns is None) != (not self.total):
            raise ValueError("extremes must be given, except for an empty histogram")

    @classmethod
    def from_microseconds(cls, values: Integers, counts: Integers, *, digits: int) -> Histogram:
        """Return the histogram of whole microseconds, ascending, each with its count (above zero).

        Raises ValueError where the values do not ascend, are negative, or exceed `MAX_VALUE`.
        """
        if not len(values):
            return cls(np.empty(0, np.int64), np.empty(0, np.int64), digits, None, None, 0)
        if np.any(np.diff(values) <= 0) or values[0] < 0 or values[-1] > MAX_VALUE:
            raise ValueError(f"values must ascend, from 0 to {MAX_VALUE}")
        low, high, total = (int(each) * NS_PER_UNIT for each in (values[0], values[-1], values @ counts))
        indexes = _indexes_of(values, digits)
        starts = np.flatnonzero(np.diff(indexes, prepend=-1))
        return cls(indexes[starts], np.add.reduceat(counts, starts), digits, low, high, total)

    @classmethod
    def of_buckets(cls, indexes: Integers, counts: Integers, *, digits: int) -> Histogram:
        """Return the histogram of these buckets; its extremes are the buckets' ends, and its sum is unknown.

        Raises ValueError where the indexes do not ascend, or there is none.
        """
        low, high = _lowest_of(indexes[:1], digits), _lowest_of(indexes[-1:] + 1, digits) - 1
        return cls(indexes, counts, digits, int(low[0]) * NS_PER_UNIT, int(high[0]) * NS_PER_UNIT, None)

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same counts in the same buckets, the same extremes and the same sum."""
        if not isinstance(other, Histogram):
            return NotImplemented
        mine, theirs = ((h.digits, h.min_ns, h.max_ns, h.sum_ns) for h in (self, other))
        return (
            mine == theirs and np.array_equal(self.indexes, other.indexes) and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment] # equal histograms have different arrays

    @cached_property
    def total(self) -> int:
        """Number of requests."""
        return int(self.counts.sum())

    @property
    def min_s(self) -> float | None:
        """Shortest time, in seconds."""
        return _seconds(self.min_ns)

    @property
    def max_s(self) -> float | None:
        """Longest time, in seconds."""
        return _seconds(self.max_ns)

    @property
    def mean_s(self) -> float | None:
        """Mean in seconds; None where the histogram is empty or the sum is unknown."""
        return self.sum_ns / (self.total * NS_PER_S) if self.total and self.sum_ns is not None else None

    @property
    def stdev_s(self) -> float | None:
        """Standard deviation in seconds, by the middles of buckets; None where the histogram is empty."""
        if not self.total:
            return None
        middles = (self.lowest + self.highest) / 2
        mean = np.average(middles, weights=self.counts)
        return float(np.sqrt(np.average((middles - mean) ** 2, weights=self.counts))) / _UNITS_PER_S

    @cached_property
    def lowest(self) -> Integers:
        """Lowest value that each bucket counts, in microseconds."""
        return _lowest_of(self.indexes, self.digits)

    @cached_property
    def highest(self) -> Integers:
        """Highest value that each bucket counts, in microseconds."""
        return _lowest_of(self.indexes + 1, self.digits) - 1

    @cached_property
    def _cumulative(self) -> Integers:
        return np.cumsum(self.counts)

    def percentile(self, percent: float) -> float | None:
        """Return the time in seconds that `percent` (0 to 100) of the requests did not exceed; None without requests.

        Defined as in HdrHistogram (Java: AbstractHistogram.getValueAtPercentile): the highest value of the bucket that
        has the ⌈percent · n / 100⌉-th request in order. Here it is never above the longest time, which is known
        exactly; percentile 0 is the shortest time.
        """
        if self.min_ns is None or self.max_ns is None:
            return None
        if percent <= 0:
            return self.min_s
        # One step down, as HdrHistogram does it: 99.9 % of 1000 is 999, not 999.0000000000001 rounded up.
        share = math.nextafter(min(percent, 100.0), 0.0)
        rank = max(1, math.ceil(share * self.total / 100))
        bucket = int(np.searchsorted(self._cumulative, rank))
        return _seconds(min(int(self.highest[bucket]) * NS_PER_UNIT, self.max_ns))

    def percentiles(self, percents: Sequence[float] = PERCENTILES) -> Mapping[str, float]:
        """Return percentiles in seconds by name: "50", "99.9".

        A percentile p (0 to 1) of fewer than 1 / (1 - p) requests would only repeat the longest time and is omitted.
        """
        stated = [p for p in percents if round(self.total * (100 - p), 6) >= 100]  # noqa: PLR2004 - per cent
        values = {f"{percent:g}": self.percentile(percent) for percent in stated}
        return {name: value for name, value in values.items() if value is not None}

    def columns(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], Integers]:
        """Return the rows of the `latency` table as arrays: low_s, high_s, count of every bucket.

        Both ends of a bucket are inclusive. A percentile is the `high_s` of its bucket.
        """
        return self.lowest / _UNITS_PER_S, self.highest / _UNITS_PER_S, self.counts


def merge_histograms(histograms: Sequence[Histogram]) -> Histogram:
    """Return one histogram of all requests. Raises ValueError for no histogram, or for different significant digits."""
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
        sum_ns=None if None in sums else sum(total for total in sums if total is not None),
    )


def _magnitude(digits: int) -> int:
    """Return log2 of the number of buckets of a doubling."""
    return math.ceil(math.log2(2 * 10**digits)) - 1


def _indexes_of(values: Integers, digits: int) -> Integers:
    """Return the bucket that counts each value (Java: AbstractHistogram.countsArrayIndex, for a lowest value of 1)."""
    magnitude = _magnitude(digits)
    doublings = np.maximum(np.frexp(values.astype(np.float64))[1].astype(np.int64) - (magnitude + 1), 0)
    return (doublings << magnitude) + (values >> doublings)


def _lowest_of(indexes: Integers, digits: int) -> Integers:
    """Return the lowest value that each bucket counts: the inverse of `_indexes_of`."""
    magnitude = _magnitude(digits)
    doublings: Integers = np.maximum((indexes >> magnitude) - 1, 0)
    return (indexes - (doublings << magnitude)) << doublings


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / NS_PER_S
