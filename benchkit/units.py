"""Formatting of numbers for display: the only place where seconds become milliseconds and bytes mebibytes.

Every function takes SI base units (seconds, bytes, per second, shares of one) and returns text. An absent number
(`None` or NaN) is shown as `ABSENT`, never as 0. Times, sizes and rates keep three significant digits, or all digits
before the decimal point if these are more; counts keep all digits. Prefixes are decimal for times and rates (k = 1000)
and binary for sizes (KiB = 1024).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

ABSENT = "\N{EN DASH}"

_TIMES = (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0))
_SIZES = (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30), ("TiB", 2.0**40))
_DECIMAL = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12))
_WHOLE_FROM = 999.5
"""Numbers from here on are rounded to integers, since three significant digits would need an exponent."""

_HOURS_SHOWN = 48
"""From here on, days are shown as well."""


def _or_absent(text: Callable[[float], str]) -> Callable[[float | None], str]:
    @functools.wraps(text)
    def shown(number: float | None) -> str:
        return ABSENT if number is None or math.isnan(number) else text(number)

    return shown


@_or_absent
def count(number: float) -> str:
    """Format a number of things with all digits: `285,080`."""
    return f"{number:,.0f}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Format a number with the noun that it counts: `1 trial`, `2 trials`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def first_of(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return at most `most` of these texts, with the number of the others: `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


@_or_absent
def rate(per_s: float) -> str:
    """Format a rate without its unit, for columns and axes: `43,210`, `3.25`."""
    return _digits(per_s)


@_or_absent
def requests_per_s(per_s: float) -> str:
    """Format a rate of requests: `43,210 requests/s`."""
    return f"{_digits(per_s)} requests/s"


@_or_absent
def seconds(number: float) -> str:
    """Format a time in the largest fitting unit: `870 ns`, `1.23 ms`, `12.4 s`, `1,300 s`."""
    return _scaled(number, _TIMES)


@_or_absent
def duration(number: float) -> str:
    """Format a time: `45 s`, `1 min 52 s`, `2 h 05 min`, from two days on `2 d 3 h`; below 10 s as `seconds` does."""
    if abs(number) < 9.995:  # noqa: PLR2004 - from here on, whole seconds are precise enough
        return seconds(number)
    sign = "-" if number < 0 else ""
    minutes, rest = divmod(round(abs(number)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= _HOURS_SHOWN:
        return f"{sign}{hours // 24:,} d {hours % 24} h"
    if hours:
        return f"{sign}{hours} h {minutes:02} min"
    return f"{sign}{minutes} min {rest:02} s" if minutes else f"{sign}{rest} s"


@_or_absent
def size(number: float) -> str:
    """Format a number of bytes with a binary prefix: `12 B`, `1.50 MiB`."""
    small = abs(number) < _SIZES[1][1] and float(number).is_integer()
    return f"{number:,.0f} B" if small else _scaled(number, _SIZES)


@_or_absent
def bytes_per_s(per_s: float) -> str:
    """Format a rate of bytes with a decimal prefix, as is usual for links: `12.3 MB/s`."""
    return _scaled(per_s, [(f"{prefix}B/s", factor) for prefix, factor in _DECIMAL])


@_or_absent
def bits_per_s(per_s: float) -> str:
    """Format a rate of bits with a decimal prefix: `200 Mbit/s`."""
    return _scaled(per_s, [(f"{prefix}bit/s", factor) for prefix, factor in _DECIMAL])


@_or_absent
def share(number: float) -> str:
    """Format a share of one in percent, with one decimal: `63.7 %`."""
    return f"{number * 100:.1f} %"


@_or_absent
def cores(number: float) -> str:
    """Format CPU time per time in cores: `0.90 of a core`, `1.80 cores`."""
    return f"{number:.2f} {'of a core' if number < 1 else 'cores'}"


@_or_absent
def ratio(number: float) -> str:
    """Format a ratio with three decimals below one and two from one on: `0.582`, `1.04`, `12.31`.

    Below 0.01 it keeps three significant digits: `0.00494`.
    """
    if 0 < abs(number) < 0.00995:  # noqa: PLR2004 - larger numbers round to 0.010
        return _digits(number)
    return f"{number:.3f}" if abs(number) < 0.9995 else f"{number:,.2f}"  # noqa: PLR2004 - larger numbers round to 1


MAX_DECIMALS = 4
"""Most decimals of the ends of an interval."""


def interval(low: float | None, high: float | None, text: Callable[[float | None], str]) -> str:
    """Return an interval as a clause that starts with a comma: `, 900 to 1,100`; empty without an interval."""
    return "" if low is None or high is None else f", {text(low)} to {text(high)}"


def decimals_apart(low: float, high: float) -> int:
    """Return the number of decimals at which the ends of an interval differ, at least two."""
    return next((n for n in range(2, MAX_DECIMALS) if f"{low:.{n}f}" != f"{high:.{n}f}"), MAX_DECIMALS)


def _scaled(number: float, units: Sequence[tuple[str, float]]) -> str:
    if number == 0:
        return "0 " + next(unit for unit, factor in units if factor == 1)
    unit, factor = units[0]
    for larger, step in units[1:]:
        # A number that rounds to 1000 of the smaller unit is 1.00 of the next; rounding changes it by at most half a
        # percent.
        below = abs(number) < 0.99 * step
        if below or (abs(number) < step and abs(_rounded(number / factor)) * factor < step * (1 - 1e-12)):
            break
        unit, factor = larger, step
    return f"{_digits(number / factor)} {unit}"


def _rounded(number: float) -> float:
    return float(f"{number:.3g}" if abs(number) < _WHOLE_FROM else f"{number:.0f}")


def _digits(number: float) -> str:
    """Format a number rounded by `_rounded`: `0.123`, `1.23`, `12.3`, `123`, `12,345`."""
    shown = _rounded(number)
    if shown == 0:
        return "0"
    decimals = 2 - math.floor(math.log10(abs(shown))) if abs(shown) < _WHOLE_FROM else 0
    return f"{shown:,.{max(decimals, 0)}f}"
