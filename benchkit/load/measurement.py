"""What a generator measured of every request: histograms and exact counters; and many generators as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.models.histogram import Histogram, merge
from benchkit.models.load_result import Errors, Latency, Note

Series = Literal["raw", "corrected"]
"""raw: what was measured; corrected: with the samples that the tool added for coordinated omission."""

Covers = Literal["request", "connect+request"]


class Counters(Frozen):
    """Exact counts of one generator, or of many; `None` is what the tool does not count."""

    requests: int | None
    """Requests whose end the tool saw; None where it forgets some (hey)."""
    recorded: int
    """Those of them whose time is in the raw histogram."""
    bytes_total: int | None = None
    status: Mapping[str, int] = {}
    non_2xx: int | None = None
    errors: Errors = Errors()


@dataclass(frozen=True)
class Measurement:
    """What one generator measured, or many did together."""

    tool: str
    histograms: Mapping[Series, Histogram]
    """By series; where the tool corrects nothing there is `raw` alone. Empty where no request was recorded."""
    counters: Counters
    resolution_s: float
    """The step in which the tool states times."""
    covers: Covers
    complete: bool
    """Whether the output was whole, and every request that it counts is accounted for."""
    duration_s: float | None = None
    """How long the tool says it measured, or its rows say; absent of many, whose times differ."""
    notes: tuple[Note, ...] = ()

    def latency(self, series: Series = "raw") -> Latency:
        """Exact extremes and mean, and percentiles to p99.99, of a series; all absent where nothing was recorded."""
        histogram = self.histograms.get(series)
        if histogram is None:
            return Latency(resolution_s=self.resolution_s, covers=self.covers, corrected=series == "corrected")
        return Latency(
            min_s=histogram.min_s,
            mean_s=histogram.mean_s,
            max_s=histogram.max_s,
            percentiles=histogram.percentiles(),
            resolution_s=self.resolution_s,
            covers=self.covers,
            corrected=series == "corrected",
        )


def merged(measurements: Sequence[Measurement]) -> Measurement:
    """What generators of one tool measured, together: counts added up, histograms merged.

    Each correction for coordinated omission stays that of its own generator. A count that one of them lacks is absent
    in the sum. Raises InputError for none, or for tools that are not the same.
    """
    kinds = {(each.tool, each.resolution_s, each.covers) for each in measurements}
    if len(kinds) != 1:
        raise InputError(
            "cannot merge these measurements",
            why=f"they are of {', '.join(sorted({each.tool for each in measurements})) or 'no generator'}",
            hint="only generators of one tool measure the same thing",
        )
    ((tool, resolution_s, covers),) = kinds
    filled = [each.histograms for each in measurements if each.histograms]
    series = {name: None for histograms in filled for name in histograms}
    if any(histograms.keys() != series.keys() for histograms in filled):
        raise InputError(f"cannot merge these measurements of {tool}", why="some are corrected and others are not")
    return Measurement(
        tool=tool,
        histograms={name: merge([histograms[name] for histograms in filled]) for name in series},
        counters=_added([each.counters for each in measurements]),
        resolution_s=resolution_s,
        covers=covers,
        complete=all(each.complete for each in measurements),
        notes=tuple(dict.fromkeys(note for each in measurements for note in each.notes)),
    )


def _added(parts: Sequence[Counters]) -> Counters:
    status: dict[str, int] = {}
    for part in parts:
        for code, n in part.status.items():
            status[code] = status.get(code, 0) + n
    return Counters(
        requests=_sum(parts, lambda part: part.requests),
        recorded=sum(part.recorded for part in parts),
        bytes_total=_sum(parts, lambda part: part.bytes_total),
        status=dict(sorted(status.items())),
        non_2xx=_sum(parts, lambda part: part.non_2xx),
        errors=Errors(
            connect=_sum(parts, lambda part: part.errors.connect),
            read=_sum(parts, lambda part: part.errors.read),
            write=_sum(parts, lambda part: part.errors.write),
            timeout=_sum(parts, lambda part: part.errors.timeout),
            other=_sum(parts, lambda part: part.errors.other),
        ),
    )


def _sum(parts: Sequence[Counters], figure: Callable[[Counters], int | None]) -> int | None:
    """The sum of a figure; absent where one of them lacks it."""
    figures = [figure(part) for part in parts]
    known = [each for each in figures if each is not None]
    return sum(known) if len(known) == len(figures) else None
