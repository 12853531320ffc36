"""The file that an agent writes while it watches its host, read as series of samples. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from benchkit.errors import ParseError

FORMAT = 1

Key = tuple[str | None, str, str | None]
"""Service (None: the host), metric, instance."""


@dataclass
class Series:
    """The samples of one metric."""

    t_ns: list[int] = field(default_factory=list)
    """Times on the host's monotonic clock, ascending."""
    numbers: list[float] = field(default_factory=list)


def read_telemetry(content: bytes) -> dict[Key, Series]:
    """Read the series in a telemetry file, in the order in which they begin. Raises ParseError for other content.

    The file of a killed agent ends within a line; it is read up to there.
    """
    found: dict[Key, Series] = {}
    groups: dict[int, list[Series]] = {}
    for line in _lines(content):
        match line:
            case {"group": int(number), "service": service, "series": list(keys)}:
                groups[number] = [found.setdefault((service, metric, instance), Series()) for metric, instance in keys]
            case {"t_ns": int(t_ns), "values": dict(values)}:
                for number, row in values.items():
                    for series, value in zip(groups[int(number)], row, strict=True):
                        series.t_ns.append(t_ns)
                        series.numbers.append(value)
    return {key: series for key, series in found.items() if series.t_ns}


def _lines(content: bytes) -> Iterator[Mapping[str, Any]]:
    lines = content.split(b"\n")
    for i, line in enumerate(lines):
        if i + 1 == len(lines):  # the text after the last line end is incomplete
            return
        try:
            document = from_json(line)
        except ValueError as error:
            raise ParseError(f"line {i + 1} of the telemetry is not JSON: {error}") from None
        if i == 0 and (not isinstance(document, dict) or document.get("format") != FORMAT):
            raise ParseError(f"not a telemetry file of format {FORMAT}", why=f"it begins with {line[:60]!r}")
        yield document
