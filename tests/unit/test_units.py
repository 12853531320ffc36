from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit import units

FORMATTERS = [
    units.count,
    units.rate,
    units.requests_per_s,
    units.seconds,
    units.duration,
    units.size,
    units.bytes_per_s,
    units.bits_per_s,
    units.share,
    units.cores,
    units.ratio,
]


@pytest.mark.parametrize("formatter", FORMATTERS)
@pytest.mark.parametrize("absent", [None, math.nan])
def test_an_absent_number_is_a_dash(formatter: Callable[[float | None], str], absent: float | None) -> None:
    assert formatter(absent) == units.ABSENT == "\u2013"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 s"),
        (1e-10, "0.100 ns"),
        (8.7e-7, "870 ns"),
        (9.994e-7, "999 ns"),
        (9.996e-7, "1.00 µs"),
        (0.00123, "1.23 ms"),
        (0.99949, "999 ms"),
        (0.9996, "1.00 s"),
        (12.44, "12.4 s"),
        (1300, "1,300 s"),
        (-0.002, "-2.00 ms"),
    ],
)
def test_seconds(number: float, text: str) -> None:
    assert units.seconds(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 s"),
        (0.35, "350 ms"),
        (9.994, "9.99 s"),
        (9.996, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (112, "1 min 52 s"),
        (3599.7, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (172_000, "47 h 46 min"),
        (180_000, "2 d 2 h"),
        (-75, "-1 min 15 s"),
    ],
)
def test_duration(number: float, text: str) -> None:
    assert units.duration(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (12, "12 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (1023.4 * 1024, "1,023 KiB"),
        (1048575, "1.00 MiB"),
        (5.5e9, "5.12 GiB"),
        (3 * 2**50, "3,072 TiB"),
    ],
)
def test_size(number: float, text: str) -> None:
    assert units.size(number) == text


def test_rates_counts_shares_and_ratios() -> None:
    assert units.requests_per_s(43210.4) == "43,210 requests/s"
    assert [units.rate(n) for n in (0, 0.05, 3.249, 99.96, 999.6)] == ["0", "0.0500", "3.25", "100", "1,000"]
    assert units.count(285080) == "285,080"
    assert units.bytes_per_s(12.3e6) == "12.3 MB/s"
    assert units.bits_per_s(999.9e6) == "1.00 Gbit/s"
    assert units.share(0.637) == "63.7 %"
    assert [units.ratio(n) for n in (0.004944, 0.5821, 0.9996, 1.04, 12.314)] == [
        "0.00494",
        "0.582",
        "1.00",
        "1.04",
        "12.31",
    ]


def test_counted_uses_the_singular_for_one() -> None:
    assert [units.counted(n, "trial") for n in (0, 1, 2000)] == ["0 trials", "1 trial", "2,000 trials"]
    assert units.counted(2, "reply", "replies") == "2 replies"


SCALES = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@given(st.floats(min_value=1e-9, max_value=1e6))
def test_seconds_keep_three_digits_in_a_fitting_unit(number: float) -> None:
    figure, unit = units.seconds(number).split(" ")
    assert float(figure.replace(",", "")) * SCALES[unit] == pytest.approx(number, rel=0.0051)
    assert unit == "s" or float(figure) < 1000
    assert re.fullmatch(r"\d\.\d\d|\d\d\.\d|\d{1,3}(,\d{3})*", figure)


@pytest.mark.parametrize(
    ("low", "high", "decimals"),
    [(0.61, 0.63, 2), (0.618, 0.623, 3), (0.621, 0.624, 3), (0.62111, 0.62112, 4), (1, 1, 4)],
)
def test_a_narrow_interval_has_decimals_in_which_its_ends_differ(low: float, high: float, decimals: int) -> None:
    assert units.decimals_apart(low, high) == decimals
