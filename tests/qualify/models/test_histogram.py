"""Histograms compared with HdrHistogram and with the values that they count."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped] # the library has no types
from hypothesis import given, settings
from hypothesis import strategies as st

from benchkit.models.histogram import MAX_VALUE, Histogram, merge_histograms

HOUR = 3_600_000_000
values = st.one_of(st.integers(0, 3000), st.integers(0, HOUR), st.integers(0, 31).map(lambda bits: (1 << bits) - 1))
samples = st.lists(values, min_size=1, max_size=60)
digit = st.integers(1, 5)


def histogram_of(times: Sequence[int], digits: int = 4) -> Histogram:
    """Return the histogram of these microseconds."""
    counted = sorted(Counter(times).items())
    pairs = np.array(counted, np.int64).reshape(-1, 2)
    return Histogram.from_microseconds(pairs[:, 0], pairs[:, 1], digits=digits)


@settings(deadline=None)  # the library makes room for every bucket there is
@given(samples, digit)
def test_buckets_are_those_of_hdrhistogram(times: list[int], digits: int) -> None:
    library = HdrHistogram(1, HOUR, digits)
    for time in times:
        assert library.record_value(time)
    ours = histogram_of(times, digits)
    indexes = np.flatnonzero(np.frombuffer(library.counts, np.int64)).tolist()
    theirs = [library.get_value_from_index(index) for index in indexes]
    assert ours.indexes.tolist() == indexes
    assert ours.lowest.tolist() == theirs
    assert ours.highest.tolist() == [library.get_highest_equivalent_value(value) for value in theirs]
    assert ours.counts.tolist() == [library.get_count_at_value(value) for value in theirs]


@given(st.lists(st.integers(0, MAX_VALUE), min_size=1, max_size=20), digit)
def test_every_value_is_in_a_bucket_as_narrow_as_its_digits_require(times: list[int], digits: int) -> None:
    histogram = histogram_of(times, digits)
    assert histogram.total == len(times)
    for time in times:
        bucket = int(np.searchsorted(histogram.highest, time))
        low, high = int(histogram.lowest[bucket]), int(histogram.highest[bucket])
        assert low <= time <= high
        assert (high - low) * 10**digits <= low


@given(samples, digit, st.floats(0, 100))
def test_percentile_is_the_bucket_of_the_nearest_rank(times: list[int], digits: int, percent: float) -> None:
    histogram, ordered = histogram_of(times, digits), sorted(times)
    rank = math.ceil(Fraction(percent) * len(times) / 100)
    percentile = histogram.percentile(percent)
    assert percentile is not None
    # A step of a double below a whole rank is that rank, by HdrHistogram's definition.
    below = math.ceil(Fraction(math.nextafter(percent, 0)) * len(times) / 100)
    ranked = {ordered[max(1, each) - 1] for each in (rank, below)}
    assert any(time <= round(percentile * 1e6) <= time * (1 + 10.0**-digits) for time in ranked)
    assert percentile <= max(times) / 1e6


def test_percentiles_without_an_exact_binary_fraction() -> None:
    histogram = histogram_of(range(1, 1001), 5)
    assert histogram.percentile(99.9) == 999e-6
    assert histogram.percentile(99.99) == 1000e-6
    assert histogram.percentile(50) == 500e-6
    assert histogram.percentile(0) == 1e-6
    assert histogram.percentile(100) == 1000e-6
    assert histogram_of(range(1, 10001), 5).percentile(99.99) == 9999e-6


@given(samples, digit)
def test_extremes_sum_and_mean_are_exact(times: list[int], digits: int) -> None:
    histogram = histogram_of(times, digits)
    assert (histogram.min_ns, histogram.max_ns, histogram.sum_ns) == (
        min(times) * 1000,
        max(times) * 1000,
        sum(times) * 1000,
    )
    assert histogram.mean_s == pytest.approx(sum(times) / len(times) / 1e6, rel=1e-15)
    assert histogram.stdev_s == pytest.approx(np.std(times) / 1e6, abs=(max(times) / 10**digits + 1) / 1e6)


@given(st.lists(samples, min_size=1, max_size=6), digit)
def test_a_merged_histogram_counts_all_requests(parts: list[list[int]], digits: int) -> None:
    histograms = [histogram_of(part, digits) for part in parts]
    whole = histogram_of([time for part in parts for time in part], digits)
    assert merge_histograms(histograms) == whole
    assert merge_histograms(histograms[::-1]) == whole
    assert merge_histograms([merge_histograms(histograms[:1]), *histograms[1:]]) == whole


def test_merging_an_empty_histogram_changes_nothing() -> None:
    some, nothing = histogram_of([1, 2, 2]), histogram_of([])
    assert merge_histograms([some, nothing]) == some
    assert merge_histograms([nothing, nothing]) == nothing
    assert (
        merge_histograms([histogram_of([1]), Histogram(nothing.indexes, nothing.counts, 4, None, None, None)]).sum_ns
        is None
    )


@given(samples, digit)
def test_rows_are_the_buckets_in_seconds(times: list[int], digits: int) -> None:
    histogram = histogram_of(times, digits)
    rows = list(zip(*histogram.columns(), strict=True))
    assert sum(count for _, _, count in rows) == len(times)
    assert all(low <= high for low, high, _ in rows)
    assert all(before[1] < after[0] for before, after in pairwise(rows))
    for time in times:
        assert sum(low <= time / 1e6 <= high for low, high, _ in rows) == 1


def test_percentiles_that_need_more_requests_are_omitted() -> None:
    assert list(histogram_of(range(99)).percentiles()) == ["50", "75", "90", "95"]
    assert list(histogram_of(range(1000)).percentiles()) == ["50", "75", "90", "95", "99", "99.9"]
    assert list(histogram_of(range(10_000)).percentiles())[-1] == "99.99"
    assert histogram_of([7]).percentiles((50,)) == {}
