"""The telemetry of one trial of a sliced block, as if the trial had run in one piece. Pure.

Hosts are sampled once for the whole block, mainly at the edges of slices. The file of a trial keeps the samples of its
own slices, one after the other. Time runs from 0 to the sum of their lengths, and a counter grows only within them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchkit.models.telemetry import AGENT_SERVICE, TELEMETRY_METRICS, is_of_load_tool, neighbour_service
from benchkit.store.telemetry_table import FORMAT, SampleSeries, SeriesKey

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

EDGE_NS = 5_000_000
"""Time after the end of a slice in which a sample still shows the state at its end, because no other load runs yet."""


@dataclass(frozen=True)
class BlockTelemetry:
    """The samples of one host in a sliced block; services have the names that `block_service` gives."""

    series: Mapping[SeriesKey, SampleSeries]

    def growth(self, key: SeriesKey, windows: Sequence[tuple[int, int]]) -> Reals | None:
        """Return the increase of a counter in each window; None if it is unknown.

        A window is start and end on the host's clock, in nanoseconds.
        """
        series = self.series.get(key)
        if series is None:
            return None
        t_ns, values = _sorted_arrays(series)
        edges = np.asarray(windows, dtype=np.int64)
        grown: Reals = np.interp(edges[:, 1], t_ns, values) - np.interp(edges[:, 0], t_ns, values)
        return grown

    def first_in(self, key: SeriesKey, windows: Sequence[tuple[int, int]]) -> list[float | None]:
        """Return the first sample in each window; None without a sample."""
        series = self.series.get(key)
        if series is None:
            return [None] * len(windows)
        t_ns, values = _sorted_arrays(series)
        places = np.searchsorted(t_ns, [start for start, _ in windows])
        return [
            float(values[place]) if place < len(t_ns) and t_ns[place] <= end else None
            for place, (_, end) in zip(places, windows, strict=True)
        ]

    def mean_in(self, keys: Iterable[SeriesKey], windows: Sequence[tuple[int, int]]) -> list[float | None]:
        """Return the mean of all samples of these series in each window; None without a sample."""
        arrays = [_sorted_arrays(series) for key in keys if (series := self.series.get(key)) is not None]
        means: list[float | None] = []
        for start, end in windows:
            values = [values[(t_ns >= start) & (t_ns <= end)] for t_ns, values in arrays]
            sampled = np.concatenate(values) if values else np.empty(0)
            means.append(float(sampled.mean()) if len(sampled) else None)
        return means


def block_service(cell: int, service: str) -> str:
    """Return the name of a cell's service in the telemetry of its block; cells count from 1."""
    return f"{cell}.{service}"


def telemetry_of_trial(block: BlockTelemetry, cell: int, windows: Sequence[tuple[int, int]]) -> bytes:
    """Return the telemetry of the cell's trial, in the format of the agent's files.

    `windows` are its slices on the host's clock, in nanoseconds. Services of other cells are named as its neighbours.
    """
    groups: dict[tuple[str | None, tuple[int, ...]], list[tuple[str, str | None, Sequence[float]]]] = {}
    for (service, metric, instance), series in block.series.items():
        known = TELEMETRY_METRICS.get(metric)
        if known is None:
            continue
        name = _name_in_trial(service, cell)
        if not known.grows:
            t_ns, values = _own_states(series, windows)
        elif not known.sparse:
            t_ns, values = _own_counter(series, windows)
        elif service == block_service(cell, str(name)):
            t_ns, values = _own_sparse(series, windows)
        else:
            continue
        if len(t_ns):
            group = name, tuple(t_ns.tolist())
            groups.setdefault(group, []).append((metric, instance, values.tolist()))
    about = {"format": FORMAT, "slices": len(windows), "window_ns": sum(end - start for start, end in windows)}
    lines = [_line(about), *map(_line, _group_lines(groups))]
    return b"".join(lines)


def _group_lines(
    groups: Mapping[tuple[str | None, tuple[int, ...]], Sequence[tuple[str, str | None, Sequence[float]]]],
) -> Iterator[dict[str, Any]]:
    for number, ((service, t_ns), members) in enumerate(groups.items()):
        yield {"group": number, "service": service, "series": [[metric, instance] for metric, instance, _ in members]}
        for place, at_ns in enumerate(t_ns):
            yield {"t_ns": at_ns, "values": {str(number): [values[place] for _, _, values in members]}}


def _own_counter(series: SampleSeries, windows: Sequence[tuple[int, int]]) -> tuple[Integers, Reals]:
    """Return a counter at the edges of the slices; it grows only within them. It is empty if the counter began later.

    Values between two samples are interpolated. Samples are taken at the edges, or a little after them.
    """
    t_ns, values = _sorted_arrays(series)
    edges = np.asarray(windows, dtype=np.int64)
    if t_ns[0] > edges[-1, 0]:
        return np.empty(0, np.int64), np.empty(0)
    grown = np.interp(edges[:, 1], t_ns, values) - np.interp(edges[:, 0], t_ns, values)
    times = np.concatenate(([0], np.cumsum(edges[:, 1] - edges[:, 0])))
    return times, values[0] + np.concatenate(([0.0], np.cumsum(grown)))


def _own_sparse(series: SampleSeries, windows: Sequence[tuple[int, int]]) -> tuple[Integers, Reals]:
    """Return a counter that is sampled at any time, not at edges; its service is idle between the slices."""
    t_ns, values = _sorted_arrays(series)
    edges = np.asarray(windows, dtype=np.int64)
    times = np.concatenate(([0], np.cumsum(edges[:, 1] - edges[:, 0])))
    own = np.interp(t_ns, edges.ravel(), np.repeat(times, 2)[1:-1]).astype(np.int64)
    is_last = np.append(own[1:] != own[:-1], True)
    return own[is_last], values[is_last]


def _own_states(series: SampleSeries, windows: Sequence[tuple[int, int]]) -> tuple[Integers, Reals]:
    t_ns, values = _sorted_arrays(series)
    starts = np.asarray([start for start, _ in windows], dtype=np.int64)
    lengths = np.asarray([end - start for start, end in windows], dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    place = np.searchsorted(starts, t_ns, side="right") - 1
    since = t_ns - starts[np.maximum(place, 0)]
    is_own = (place >= 0) & (since <= lengths[np.maximum(place, 0)] + EDGE_NS)
    own = place[is_own]
    return before[own] + np.minimum(since[is_own], lengths[own]), values[is_own]


def _name_in_trial(service: str | None, cell: int) -> str | None:
    if service is None or service == AGENT_SERVICE or is_of_load_tool(service):
        return service
    number, _, name = service.partition(".")
    return name if int(number) == cell else neighbour_service(int(number), name)


def _sorted_arrays(series: SampleSeries) -> tuple[Integers, Reals]:
    t_ns = np.asarray(series.t_ns, dtype=np.int64)
    order = np.argsort(t_ns, kind="stable")
    return t_ns[order], np.asarray(series.numbers, dtype=np.float64)[order]


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"
