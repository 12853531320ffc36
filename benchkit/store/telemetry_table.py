"""The raw telemetry of a trial: the file that an agent writes, read as series and as rows of `telemetry`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic_core import from_json

from benchkit.errors import ParseError
from benchkit.models.noise import NOISE_FILE, NOISE_SERVICE
from benchkit.models.rows import Columns, NoteRow, TelemetryRow
from benchkit.models.telemetry import TELEMETRY_METRICS, generator_service
from benchkit.models.trial import TrialRecord, WatchRecord
from benchkit.store.noise_reports import NoiseReport, read_noise

FORMAT = 1

SeriesKey = tuple[str | None, str, str | None]
"""Service (None: the host), metric, instance."""

LOAD_ROLE = "load"
NOT_WATCHED = "not-watched"
"""Code of the note on telemetry that is missing."""
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


def noise_series(reports: Sequence[NoiseReport]) -> dict[SeriesKey, SampleSeries]:
    """Return the reports of slow and broken clients as series."""
    found: dict[SeriesKey, SampleSeries] = {}
    for report in reports:
        values: dict[tuple[str, str | None], float] = {
            ("cpu_s_total", None): report.cpu_s,
            ("noise_read_bytes_total", None): report.done.get("read_bytes", 0),
            **{("noise_connections", kind): number for kind, number in report.held.items()},
            **{("noise_malformed_total", answer): number for answer, number in report.answers.items()},
        }
        for (metric, instance), value in values.items():
            series = found.setdefault((NOISE_SERVICE, metric, instance), SampleSeries())
            series.t_ns.append(report.t_ns)
            series.numbers.append(value)
    return found


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


def telemetry_columns(
    record: TrialRecord, raw: Callable[[str], bytes]
) -> tuple[Columns[TelemetryRow], tuple[NoteRow, ...]]:
    """Return the rows of a trial in `telemetry` and in `notes`; `raw` returns the content of a raw file by its name.

    Times count from the start of the measured window on the host's own clock. Counters count from the first sample of
    the host, or from the start of the service: both come before the load.
    """
    samples: list[_Samples] = []
    notes = []
    for watch in record.watched:
        missing = list(watch.unseen)
        try:
            samples += _host_samples(watch, read_telemetry(raw(watch.file)))
        except ParseError as error:
            missing.append(str(error))
        samples += _disk_usage(watch, record)
        if record.noise is not None and record.noise.host == watch.host:
            samples += _host_samples(watch, noise_series(read_noise(raw(NOISE_FILE))))
        notes += [
            NoteRow(trial_id=record.trial_id, code=NOT_WATCHED, message=f"{watch.host}: {text}") for text in missing
        ]
    return _columns(record, samples), tuple(notes)


def peak_memory_bytes(record: TrialRecord, telemetry: Columns[TelemetryRow]) -> float | None:
    """Return the largest resident memory of each service in the measured window, added up.

    None where a service was not sampled, or not watched at all.
    """
    of_memory = np.asarray([metric == "rss_bytes" for metric in telemetry["metric"]], dtype=bool)
    in_window = of_memory & (np.asarray(telemetry["t_s"], dtype=np.float64) >= 0)
    values = np.asarray(telemetry["value"], dtype=np.float64)[in_window]
    services = np.asarray(telemetry["service"], dtype=object)[in_window]
    peaks = [values[services == service.name].max(initial=0.0) for service in record.services]
    return None if record.external or not peaks or 0.0 in peaks else float(sum(peaks))


def switches(record: TrialRecord, telemetry: Columns[TelemetryRow]) -> float | None:
    """Return the context switches of the services, voluntary and forced, around the measured window; None: unknown."""
    names = ("voluntary_switches_total", "involuntary_switches_total")
    counts = [_growth(telemetry, service.name, metric) for service in record.services for metric in names]
    return None if record.external else _sum(counts)


def main_process_cpu_s(record: TrialRecord, telemetry: Columns[TelemetryRow]) -> float | None:
    """Return the CPU time of the first process of each service around the measured window; None: unknown."""
    seconds = [_growth(telemetry, each.name, "process_cpu_s_total", str(each.pid)) for each in record.services]
    return None if record.external else _sum(seconds)


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _growth(telemetry: Columns[TelemetryRow], service: str, metric: str, instance: str | None = None) -> float | None:
    """Return the increase of a counter from the last sample before the window to its last one; None for under two."""
    names = zip(telemetry["service"], telemetry["metric"], telemetry["instance"], strict=True)
    rows = [place for place, name in enumerate(names) if name == (service, metric, instance)]
    t_s, values = (np.asarray(telemetry[column], dtype=np.float64)[rows] for column in ("t_s", "value"))
    before = values[t_s <= 0]
    if len(values) - len(before) < 1 or not len(before):
        return None
    return float(values[np.argmax(t_s)] - before[-1])


def mean_goroutine_wait_s(record: TrialRecord, telemetry: Columns[TelemetryRow]) -> float | None:
    """Return the mean time for which goroutines of the services waited for a thread in the measured window.

    None where no service counts them, or none waited.
    """
    metrics = np.asarray(telemetry["metric"], dtype=object)
    t_s = np.asarray(telemetry["t_s"], dtype=np.float64)
    services = np.asarray(telemetry["service"], dtype=object)
    in_window = (t_s >= 0) & np.isin(services.astype(str), [service.name for service in record.services])

    def growth(metric: str) -> float:
        rows = in_window & (metrics == metric)
        of_metric = np.asarray(telemetry["value"], dtype=np.float64)[rows]
        return float(sum(np.ptp(of_metric[services[rows] == name]) for name in set(services[rows])))

    waits = growth("goroutine_waits_total")
    return growth("goroutine_wait_s_total") / waits if waits else None


class _Samples(NamedTuple):
    watch: WatchRecord
    service: str | None
    instance: str | None
    metric: str
    t_s: Reals
    values: Reals


def _host_samples(watch: WatchRecord, found: Mapping[SeriesKey, SampleSeries]) -> Iterator[_Samples]:
    """Yield the samples of one host, without metrics of other versions."""
    for (service, metric, instance), series in found.items():
        if metric in TELEMETRY_METRICS:
            values = np.asarray(series.numbers, dtype=np.float64)
            if TELEMETRY_METRICS[metric].grows and service is None:  # counts since the host's boot
                values = values - values[0]
            t_s = (np.asarray(series.t_ns) - watch.window_ns[0]) / 1e9
            yield _Samples(watch, service, instance, metric, t_s, values)


def _disk_usage(watch: WatchRecord, record: TrialRecord) -> Iterator[_Samples]:
    """Yield the disk usage of the services' folders on one host, at the end of the window."""
    for service in record.services:
        if service.host == watch.host:
            for folder, size in service.folder_bytes.items():
                end_s, values = np.asarray([watch.window_s]), np.asarray([float(size)])
                yield _Samples(watch, service.name, folder, "folder_bytes", end_s, values)


def _columns(record: TrialRecord, samples: Sequence[_Samples]) -> Columns[TelemetryRow]:
    load_services = {NOISE_SERVICE, *(generator_service(each.number) for each in record.generators)}
    texts: dict[str, Sequence[str | None]] = {
        "trial_id": [record.trial_id for _ in samples],
        "host": [each.watch.host for each in samples],
        "role": [_role(each.watch, each.service, load_services) for each in samples],
        "service": [each.service for each in samples],
        "instance": [each.instance for each in samples],
        "metric": [each.metric for each in samples],
        "unit": [TELEMETRY_METRICS[each.metric].unit for each in samples],
    }
    lengths = np.asarray([len(each.values) for each in samples], dtype=np.int64)
    rows = {name: np.repeat(np.asarray(column, dtype=object), lengths).tolist() for name, column in texts.items()}
    t_s = np.concatenate([np.empty(0), *(each.t_s for each in samples)])
    values = np.concatenate([np.empty(0), *(each.values for each in samples)])
    return Columns(TelemetryRow, {**rows, "t_s": t_s, "value": values})


def _role(watch: WatchRecord, service: str | None, load_services: Collection[str]) -> str:
    """Return the role that the row is about; all roles of the host if the row is about the host itself."""
    if service in load_services:
        return LOAD_ROLE
    if service is None or len(watch.roles) == 1:
        return ",".join(watch.roles)
    return ",".join(role for role in watch.roles if role != LOAD_ROLE)
