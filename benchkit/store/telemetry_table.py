"""The telemetry of a trial: the raw files of its hosts as series, as rows of `telemetry`, and as figures of `trials`.

Pure. Times count from the start of the measured window on the host's own clock. Counters count from the first sample of
the host, or from the start of the service: both come before the load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic_core import from_json

from benchkit.errors import ParseError
from benchkit.models.load import NS_PER_S
from benchkit.models.rows import NoteRow, TelemetryRow
from benchkit.models.telemetry import TELEMETRY_METRICS, generator_service
from benchkit.models.trial import TrialRecord, WatchRecord
from benchkit.store.parquet_files import arrow_schema

FORMAT = 1

SeriesKey = tuple[str | None, str, str | None]
"""Service (None: the host), metric, instance."""

LOAD_ROLE = "load"
NOT_WATCHED = "not-watched"
"""Code of the note on telemetry that is missing."""
SWITCHES = ("voluntary_switches_total", "involuntary_switches_total")
Reals = npt.NDArray[np.float64]


@dataclass
class SampleSeries:
    """The samples of one metric."""

    t_ns: list[int] = field(default_factory=list)
    """Times on the host's monotonic clock, ascending."""
    numbers: list[float] = field(default_factory=list)


def read_telemetry(content: bytes) -> dict[SeriesKey, SampleSeries]:
    """Read the series in a telemetry file, in the order in which they begin. Raises ParseError for other content.

    The file of a killed agent ends within a line; it is read up to there.
    """
    found: dict[SeriesKey, SampleSeries] = {}
    groups: dict[int, list[SampleSeries]] = {}
    for line in _lines(content):
        match line:
            case {"group": int(number), "service": service, "series": list(keys)}:
                groups[number] = [
                    found.setdefault((service, metric, instance), SampleSeries()) for metric, instance in keys
                ]
            case {"t_ns": int(t_ns), "values": dict(values)}:
                for number, row in values.items():
                    for series, value in zip(groups[int(number)], row, strict=True):
                        series.t_ns.append(t_ns)
                        series.numbers.append(value)
    return {key: series for key, series in found.items() if series.t_ns}


def _lines(content: bytes) -> Iterator[Mapping[str, Any]]:
    for i, line in enumerate(content.split(b"\n")[:-1]):  # the text after the last line end is incomplete
        try:
            document = from_json(line)
        except ValueError as error:
            raise ParseError(f"line {i + 1} of the telemetry is not JSON: {error}") from None
        if i == 0 and (not isinstance(document, dict) or document.get("format") != FORMAT):
            raise ParseError(f"not a telemetry file of format {FORMAT}", why=f"it begins with {line[:60]!r}")
        yield document


class _Samples(NamedTuple):
    watch: WatchRecord
    service: str | None
    metric: str
    instance: str | None
    t_s: Reals
    values: Reals


class TrialSamples:
    """The samples of a trial's hosts and services: rows of `telemetry`, notes, and figures of its row in `trials`.

    A figure is None where a service was not sampled, or others deployed and did not watch it.
    """

    def __init__(self, record: TrialRecord, raw: Callable[[str], bytes]) -> None:
        """Read the raw files of a trial; `raw` returns the content of one by its name."""
        self._record = record
        self._samples: list[_Samples] = []
        missing: list[tuple[str, str]] = []
        for watch in record.watched:
            missing += [(watch.host, text) for text in watch.unseen]
            try:
                self._samples += _host_samples(watch, read_telemetry(raw(watch.file)))
            except ParseError as error:
                missing.append((watch.host, str(error)))
            self._samples += _disk_usage(watch, record)
        self.notes = tuple(
            NoteRow(trial_id=record.trial_id, code=NOT_WATCHED, message=f"{host}: {text}") for host, text in missing
        )

    def table(self) -> pa.Table:
        """Return the rows of `telemetry`."""
        load_services = {generator_service(each.number) for each in self._record.generators}
        lengths = [len(each.values) for each in self._samples]
        texts: dict[str, Sequence[str | None]] = {
            "trial_id": [self._record.trial_id] * len(lengths),
            "host": [each.watch.host for each in self._samples],
            "role": [_role(each.watch, each.service, is_load=each.service in load_services) for each in self._samples],
            "service": [each.service for each in self._samples],
            "instance": [each.instance for each in self._samples],
            "metric": [each.metric for each in self._samples],
            "unit": [TELEMETRY_METRICS[each.metric].unit for each in self._samples],
        }
        columns: dict[str, Any] = {
            name: np.repeat(np.asarray(column, dtype=object), lengths).tolist() for name, column in texts.items()
        }
        columns["t_s"] = np.concatenate([np.empty(0), *(each.t_s for each in self._samples)])
        columns["value"] = np.concatenate([np.empty(0), *(each.values for each in self._samples)])
        return pa.table(columns, schema=arrow_schema(TelemetryRow.TABLE))

    @property
    def peak_memory_bytes(self) -> float | None:
        """Largest resident memory of each service in the measured window, added up."""
        peaks = [
            max(
                (each.values[each.t_s >= 0].max(initial=0.0) for each in self._of(service.name, "rss_bytes")), default=0
            )
            for service in self._record.services
        ]
        return None if self._record.external or not peaks or 0.0 in peaks else float(sum(peaks))

    @property
    def switches(self) -> float | None:
        """Context switches of the services, voluntary and forced, around the measured window."""
        if self._record.external:
            return None
        return known_sum(
            self._growth(service.name, metric, None) for service in self._record.services for metric in SWITCHES
        )

    @property
    def main_process_cpu_s(self) -> float | None:
        """CPU time of the first process of each service around the measured window."""
        if self._record.external:
            return None
        return known_sum(
            self._growth(service.name, "process_cpu_s_total", str(service.pid)) for service in self._record.services
        )

    @property
    def mean_goroutine_wait_s(self) -> float | None:
        """Mean time for which runnable goroutines of the services waited for a thread; None: none did."""

        def growth(metric: str) -> float:
            inside = (
                each.values[each.t_s >= 0]
                for service in self._record.services
                for each in self._of(service.name, metric)
            )
            return float(sum(np.ptp(values) for values in inside if len(values)))

        waits = growth("goroutine_waits_total")
        return growth("goroutine_wait_s_total") / waits if waits else None

    def _of(self, service: str, metric: str) -> list[_Samples]:
        return [each for each in self._samples if each.service == service and each.metric == metric]

    def _growth(self, service: str, metric: str, instance: str | None) -> float | None:
        """Return the increase of a counter from the last sample before the window to its last one."""
        series = next((each for each in self._of(service, metric) if each.instance == instance), None)
        if series is None or series.t_s[0] > 0 or series.t_s[-1] <= 0:
            return None
        return float(series.values[-1] - series.values[series.t_s <= 0][-1])


def known_sum(values: Iterable[float | None]) -> float | None:
    """Return a sum; None where a value is unknown, or there is none."""
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if known and len(known) == len(found) else None


def _host_samples(watch: WatchRecord, found: Mapping[SeriesKey, SampleSeries]) -> Iterator[_Samples]:
    for (service, metric, instance), series in found.items():
        if metric in TELEMETRY_METRICS:
            values = np.asarray(series.numbers, dtype=np.float64)
            if TELEMETRY_METRICS[metric].grows and service is None:  # counts since the host's boot
                values = values - values[0]
            t_s = (np.asarray(series.t_ns) - watch.window_ns[0]) / NS_PER_S
            yield _Samples(watch, service, metric, instance, t_s, values)


def _disk_usage(watch: WatchRecord, record: TrialRecord) -> Iterator[_Samples]:
    for service in record.services:
        if service.host == watch.host:
            for folder, size in service.folder_bytes.items():
                end_s, values = np.asarray([watch.window_s]), np.asarray([float(size)])
                yield _Samples(watch, service.name, "folder_bytes", folder, end_s, values)


def _role(watch: WatchRecord, service: str | None, *, is_load: bool) -> str:
    """Return the role that the row is about; all roles of the host if the row is about the host itself."""
    if is_load:
        return LOAD_ROLE
    if service is None or len(watch.roles) == 1:
        return ",".join(watch.roles)
    return ",".join(role for role in watch.roles if role != LOAD_ROLE)
