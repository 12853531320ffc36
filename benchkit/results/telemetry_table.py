"""From the raw telemetry of a trial to rows of the `telemetry` table. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from benchkit.errors import ParseError
from benchkit.models.telemetry import TELEMETRY_METRICS, generator_service, reducer_service
from benchkit.models.trial import TrialRecord, WatchRecord
from benchkit.results.rows import Columns
from benchkit.results.telemetry_file import Key, Series, read_telemetry

LOAD_ROLE = "load"
NOT_WATCHED = "not-watched"
"""The code of the note that says what could not be watched, and why."""

TEXTS = ("host", "role", "service", "instance", "metric", "unit")
Reals = npt.NDArray[np.float64]


def telemetry_tables(record: TrialRecord, raw: Callable[[str], bytes]) -> dict[str, Any]:
    """The rows of a trial in `telemetry`, as columns, and in `notes`; `raw` gives a raw file's content by its name.

    Times are from the start of the measured window on the host's own clock. What grows counts from the first sample of
    the host, or from the start of the service: both come before the load.
    """
    found = _Rows(record)
    notes = []
    for watch in record.watched:
        unseen = list(watch.unseen)
        try:
            found.take(watch, read_telemetry(raw(watch.file)))
        except ParseError as error:
            unseen.append(str(error))
        found.weigh(watch, record)
        for what in unseen:
            message = f"{watch.host}: {what}"
            notes.append({"trial_id": record.trial_id, "code": NOT_WATCHED, "message": message})
    return {"telemetry": found.columns(), "notes": notes}


class _Rows:
    """Rows being gathered, column by column."""

    def __init__(self, record: TrialRecord) -> None:
        self._trial_id = record.trial_id
        numbers = [generator.number for generator in record.generators]
        self._load = {name for number in numbers for name in (generator_service(number), reducer_service(number))}
        self._texts: dict[str, list[str | None]] = {name: [] for name in TEXTS}
        self._t_s: list[Reals] = []
        self._values: list[Reals] = []

    def take(self, watch: WatchRecord, found: Mapping[Key, Series]) -> None:
        """Take the samples of one host."""
        for (service, name, instance), series in found.items():
            metric = TELEMETRY_METRICS.get(name)
            if metric is None:  # of another version, which had it
                continue
            known = watch.host, self._role(watch, service), service, instance, name, metric.unit
            for column, text in zip(TEXTS, known, strict=True):
                self._texts[column] += [text] * len(series.t_ns)
            self._t_s.append((np.asarray(series.t_ns) - watch.window_ns[0]) / 1e9)
            values = np.asarray(series.numbers, dtype=np.float64)
            begun_before = metric.grows and service is None  # with the host's boot
            self._values.append(values - values[0] if begun_before else values)

    def weigh(self, watch: WatchRecord, record: TrialRecord) -> None:
        """Take what the services' folders on one host weigh, at the end of the window."""
        metric = TELEMETRY_METRICS["folder_bytes"]
        for service in record.services:
            if service.host == watch.host:
                for folder, size in service.folder_bytes.items():
                    known = watch.host, self._role(watch, service.name), service.name, folder, metric.name, metric.unit
                    for column, text in zip(TEXTS, known, strict=True):
                        self._texts[column].append(text)
                    self._t_s.append(np.asarray([(watch.window_ns[1] - watch.window_ns[0]) / 1e9]))
                    self._values.append(np.asarray([float(size)]))

    def columns(self) -> Columns:
        """All that was taken."""
        numbers = {"t_s": self._t_s, "value": self._values}
        joined = {name: np.concatenate(parts) if parts else np.empty(0) for name, parts in numbers.items()}
        return {"trial_id": [self._trial_id] * len(joined["value"]), **self._texts, **joined}

    def _role(self, watch: WatchRecord, service: str | None) -> str:
        """The role that the row is about; all of the host's where it is about the host itself, and that has several."""
        if service in self._load:
            return LOAD_ROLE
        if service is None or len(watch.roles) == 1:
            return ",".join(watch.roles)
        return ",".join(role for role in watch.roles if role != LOAD_ROLE)
