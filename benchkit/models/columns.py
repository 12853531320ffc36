"""The description of a column: the metadata that the fields of row models carry in `Annotated`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from benchkit import units

Better = Literal["higher", "lower"]
Formatter = Callable[[float | None], str]


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    description: str
    _: KW_ONLY
    name: str = ""
    """Name of the field; the row model fills it in."""
    unit: str | None = None
    """Unit of its values, as benchmark formats write it after a number; None: it has none."""


@dataclass(frozen=True, kw_only=True)
class Metric(Column):
    """A numeric column of `trials` that can be compared; `better` is None where neither direction is better."""

    unit: str
    title: str
    """Name in tables and sentences."""
    better: Better | None
    format: Formatter
    """Function that formats a value for display."""


@dataclass(frozen=True, kw_only=True)
class PercentileMetric(Metric):
    """A latency percentile."""

    percent: float

    @property
    def label(self) -> str:
        """Short name: p99.9."""
        return f"p{self.percent:g}"

    @property
    def share(self) -> float:
        """Share of the requests that were answered at least as fast, from 0 to 1."""
        return round(self.percent / 100, 6)


@dataclass(frozen=True, kw_only=True)
class FailureMetric(Metric):
    """A count of failed requests: 0 in a sound trial."""


def duration(title: str, description: str, *, better: Better | None = "lower", unit: str = "sec") -> Metric:
    """Describe a time in seconds, or in seconds per something."""
    return Metric(description, unit=unit, title=title, better=better, format=units.seconds)


def rate(title: str, description: str, *, unit: str = "req/s") -> Metric:
    """Describe a rate per second, of which more is better."""
    return Metric(description, unit=unit, title=title, better="higher", format=units.rate)


def share(title: str, description: str, *, better: Better | None = None) -> Metric:
    """Describe a share, from 0 to 1."""
    return Metric(description, unit="ratio", title=title, better=better, format=units.share)


def percentile(percent: float) -> PercentileMetric:
    """Describe the latency percentile of this rank, from 0 to 100."""
    return PercentileMetric(
        f"time within which {percent:g} % of the requests were answered",
        unit="sec",
        title=f"p{percent:g} latency",
        better="lower",
        format=units.seconds,
        percent=percent,
    )


def failures(title: str, description: str) -> FailureMetric:
    """Describe a count of failed requests."""
    return FailureMetric(description, unit="count", title=title, better="lower", format=units.count)
