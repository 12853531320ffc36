"""Numbers, times, sizes and rates in the cells of published tables, as people write them. Pure.

`6 404`, `6,404`, `6_404`, `6.404,5`, `1.5k`, `2.4万`, `**97,400**`, `250 µs`, `1.2 ms (±3 %)`, `Requests/sec: 23987.6`.
A cell that can be read in two ways is None, never one of them.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

from benchkit.loadtools.text import of_unit

Decimal = Literal[".", ","]
"""Decimal separator of a table."""

SECONDS = {
    **dict.fromkeys(("ns", "nanoseconds"), 1e-9),
    **dict.fromkeys(("us", "μs", "usec", "microseconds", "微秒", "мкс"), 1e-6),
    **dict.fromkeys(("ms", "msec", "milliseconds", "millisecond", "毫秒", "мс"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "秒", "\u0441", "сек"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "分钟"), 60.0),
}
"""Seconds in a unit of time, as plain text has it (`plain` makes one letter of both µ)."""
_BYTES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30}
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "mio": 1e6, "mln": 1e6, "万": 1e4, "萬": 1e4, "w": 1e4}
_SCALES = {**_PREFIXES, "thousand": 1e3, "тыс": 1e3, "千": 1e3, "million": 1e6, "百万": 1e6}
_DIGITS = r"\d{1,3}(?:[ '\u2019_]\d{3})+(?:[.,]\d+)?(?!\d)|\d[\d.,]*\d(?:e[+-]?\d+)?|\d(?:e[+-]?\d+)?"
_NUMBER = rf"({_DIGITS})(?:\s?(k|m|mio|mln|万|萬|w)(?![a-z]))?"
_PER_SECOND = (
    r"(?:(?:req(?:uest)?s?|requ[eê]tes|anfragen|requisi[cç][oõ]es|peticiones|solicitudes|richieste|запрос\w*|calls|hits|"
    r"ops?|operations|trans(?:actions)?|r|请求数?|リクエスト数?|次|個|回)"
    r"\s?(?:/|per|pro|par|por|al|в)\s?(?:s(?:ec(?:ond[eo]?)?|ek(?:unde)?|eg(?:undo)?)?|秒|\u0441(?:ек(?:унду)?)?)|rps|qps|tps)\b"
)
PER_SECOND = re.compile(_PER_SECOND, re.IGNORECASE)
"""Text that names a rate of requests, in a heading or beside a number."""
_SCALE_WORDS = "|".join(sorted(filter(None, _SCALES), key=len, reverse=True))
SCALE = re.compile(
    rf"(?<![^\W_])({_SCALE_WORDS})s?\.?\s?(?:of\s)?(?={_PER_SECOND})|[(\[]\s*(?:in\s)?({_SCALE_WORDS})s?\.?\s*[)\]]",
    re.IGNORECASE,
)
"""Scale of the rates below a heading: `kRPS`, `M req/s`, `Requests/s (thousands)`, `QPS (万)`."""
_WHOLE = re.compile(rf"[~≈]?\s*{_NUMBER}\+?", re.IGNORECASE)
_WITH_ADDITION = re.compile(rf"[~≈]?\s*{_NUMBER}\s*(?:[(\[±]|\+/-).*", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"\d[^(\[]*[(\[][^)\]]*\d[^)\]]*[)\]]")
_BEFORE_UNIT = re.compile(rf"(?<![\d.,]){_NUMBER}\s*{_PER_SECOND}", re.IGNORECASE)
_AFTER_NAME = re.compile(rf"{_PER_SECOND}\s*[:=]?\s*{_NUMBER}", re.IGNORECASE)
_UNITS = "|".join(sorted(map(re.escape, SECONDS), key=len, reverse=True))
_TIME = re.compile(rf"[~≈]?\s*{_NUMBER}\s*({_UNITS})(?![a-z])", re.IGNORECASE)
_MINUTES = re.compile(r"(\d+)\s?m(?:in)?\s?(\d+(?:\.\d+)?)\s?s", re.IGNORECASE)
_SIZE = re.compile(rf"[~≈]?\s*({_DIGITS})\s*([kmg]i?)?b(?:ytes)?(?:\s*(?:/|per)\s*s(?:ec)?)?(?![a-z])", re.IGNORECASE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|^\[([^\[\]]+)\](?:\[[^\]]*\])?$")
_NOTE = re.compile(r"\[\^[^\]]*\]|<sup\b.*?</sup>|[†‡¹²³⁰⁴-⁹]", re.IGNORECASE)
"""Mark of a footnote."""
_MARKS = re.compile(r"<[^<>]*>|\*\*|__|~~|[*`]|[\U0001f000-\U0001faff☀-➿⬀-⯿️↑↓]")


def plain(text: str) -> str:
    """Return a cell without Markdown, HTML and emojis; each kind of blank is a space, and wide characters are ASCII."""
    text = unicodedata.normalize("NFKC", _LINK.sub(r"\1\2", _NOTE.sub("", html.unescape(text.strip()))))
    return " ".join(_MARKS.sub("", text).split())


def decimal_of(cells: Iterable[str], rates: Iterable[Sequence[str]] = ()) -> Decimal:
    """Return the decimal separator by the plain cells that can be read in one way alone; a point where none can.

    In a column of `rates`, a whole number below 1,000 tells that three digits behind the point of others are thousands:
    `12.345` and `987`.
    """
    points = commas = 0
    for column in rates:
        grouped = sum(re.fullmatch(r"\d{1,3}\.\d{3}", cell) is not None for cell in column)
        whole = sum(re.fullmatch(r"\d{1,3}", cell) is not None for cell in column)
        commas += grouped if whole and grouped + whole == sum(map(bool, column)) else 0
    for cell in cells:
        for about, digits in re.findall(r"([~≈]?)\s*(\d[\d.,]*\d)", cell):
            if about and re.fullmatch(r"\d{1,3}[.,]\d{3}", digits):  # about as much, to three decimals: thousands
                points, commas = points + ("," in digits), commas + ("." in digits)
            points += _has_decimal(digits, ".")
            commas += _has_decimal(digits, ",")
    return "," if commas > points else "."


def _has_decimal(digits: str, decimal: Decimal) -> bool:
    other = re.escape("," if decimal == "." else ".")
    mark = re.escape(decimal)
    ways = (
        rf"\d{{1,3}}(?:{other}\d{{3}})+{mark}\d+",
        rf"\d{{1,3}}(?:{other}\d{{3}}){{2,}}",
        rf"\d+{mark}(?:\d\d?|\d{{4,}})",
        rf"0{mark}\d+",
    )
    return any(re.fullmatch(way, digits) for way in ways)


def parse_digits(digits: str, decimal: Decimal) -> float | None:
    """Return a number whose thousands are separated by blanks, apostrophes, commas or points; None for another text."""
    text = re.sub(r"[ '\u2019_]", "", digits)
    kinds = [mark for mark in ".," if mark in text]
    if len(kinds) == 2:  # noqa: PLR2004 - both separators: the last one is the decimal one
        last = max(kinds, key=text.rfind)
        decimal = "." if last == "." else ","
    elif kinds:
        (mark,) = kinds
        is_grouped = re.fullmatch(rf"\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+", text) is not None
        if not is_grouped and text.count(mark) == 1:
            decimal = "." if mark == "." else ","
        elif text.count(mark) > 1:
            decimal = "," if mark == "." else "."
    other = "," if decimal == "." else "."
    whole, _, rest = text.partition(decimal)
    if other in whole and not re.fullmatch(rf"\d{{1,3}}(?:{re.escape(other)}\d{{3}})+", whole):
        return None
    plain_text = whole.replace(other, "") + ("." + rest if rest else "")
    return float(plain_text) if re.fullmatch(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", plain_text, re.IGNORECASE) else None


def scale_of(head: str) -> float | None:
    """Return the scale that a plain heading of rates names, 1,000 for `kRPS`; None without one."""
    match = SCALE.search(head)
    return _SCALES[(match[1] or match[2]).lower()] if match else None


def read_number(cell: str, decimal: Decimal = ".", scale: float | None = None) -> float | None:
    """Return the number that a plain cell is, also with an addition behind it: `12,345 (±2 %)`.

    A prefix of its own, `12k`, stands instead of the `scale`.
    """
    match = _WHOLE.fullmatch(cell) or _WITH_ADDITION.fullmatch(cell)
    number = None if match is None else _scaled(match[1], match[2], decimal)
    return number if number is None or scale is None or (match and match[2]) else number * scale


def read_rate(cell: str, decimal: Decimal = ".") -> float | None:
    """Return the one rate that a plain cell names, with other text around it; None where it names none, or two."""
    found = {
        number
        for pattern in (_BEFORE_UNIT, _AFTER_NAME)
        for match in pattern.finditer(cell)
        if (number := _scaled(match[1], match[2], decimal)) is not None
    }
    return found.pop() if len(found) == 1 else None


def has_figure_in_brackets(cell: str) -> bool:
    """Return whether a plain cell has another figure in brackets behind its own, such as `12,345 req/s (99 %)`."""
    return _IN_BRACKETS.search(cell) is not None


def read_time(cell: str, scale: float | None, decimal: Decimal = ".") -> float | None:
    """Return the time in seconds at the beginning of a plain cell; `scale` is the unit of its heading, in seconds."""
    if minutes := _MINUTES.fullmatch(cell):
        return 60 * float(minutes[1]) + float(minutes[2])
    match = _TIME.match(cell)
    if match is not None:
        number = _scaled(match[1], match[2], decimal)
        return of_unit(number, SECONDS[match[3].lower()])
    number = read_number(cell, decimal)
    return None if scale is None else of_unit(number, scale)


def step_of(cell: str, scale: float | None, decimal: Decimal = ".") -> float:
    """Return the step in seconds in which a time is printed; zero where the cell has none."""
    match = _TIME.match(cell) or _WHOLE.fullmatch(cell)
    unit = SECONDS[match[3].lower()] if match is not None and match.re is _TIME else scale
    if match is None or unit is None or "e" in match[1].lower():
        return 0.0
    _, point, decimals = match[1].rpartition(decimal)
    return unit * 10.0 ** -(len(decimals) if point else 0)


def read_size(cell: str, scale: float | None, decimal: Decimal) -> float | None:
    """Return the size in bytes at the beginning of a plain cell; `scale` is the unit of its heading, in bytes."""
    match = _SIZE.match(cell)
    if match is not None:
        number = parse_digits(match[1], decimal)
        return of_unit(number, _BYTES[(match[2] or "").lower()])
    number = read_number(cell, decimal)
    return None if scale is None else of_unit(number, scale)


def read_share(cell: str, scale: float | None, decimal: Decimal) -> float | None:
    """Return the share that a plain cell is: `0.5 %`, or a number of which the heading says that it is in percent."""
    bare = cell.removesuffix("%").rstrip()
    unit = scale if bare == cell else 0.01
    return None if unit is None else of_unit(read_number(bare, decimal), unit)


def is_size(cell: str) -> bool:
    """Return whether a plain cell begins with a size and its unit."""
    return _SIZE.match(cell) is not None


def bytes_in(prefix: str) -> float:
    """Return the bytes in a unit by its prefix: `ki` of KiB, empty of B."""
    return _BYTES[prefix.lower()]


def _scaled(digits: str, prefix: str | None, decimal: Decimal) -> float | None:
    number = parse_digits(digits, decimal)
    return None if number is None else number * _PREFIXES[(prefix or "").lower()]
