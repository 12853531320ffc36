"""The energy of a trial's servers, from the telemetry of their hosts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from benchkit.models.rows import Columns, TelemetryRow
from benchkit.models.trial import TrialRecord, WatchRecord

Covers = Literal["package", "package + DRAM", "whole host"]
WITH_LOAD_TOOL = "with the load tool"
Reals = npt.NDArray[np.float64]


class _Source(NamedTuple):
    """A zone of RAPL or a meter of a host, with its energy in the window."""

    covers: Literal["package", "DRAM", "whole host"]
    instance: str
    joules: float


def energy_columns(record: TrialRecord, telemetry: Columns[TelemetryRow], requests: float | None) -> dict[str, Any]:
    """Return the columns of `trials` about energy; none where a machine of the servers has no counter.

    All machines are counted alike, by what each of them can measure: whole host, else package and DRAM, else package.
    Energy between two samples is interpolated; power is integrated by trapezoids. The energy without load is the idle
    power before the block times the window.
    """
    hosts = {service.host for service in record.services}
    watches = {each.machine or each.host: each for each in record.watched if each.host in hosts}
    if not requests or not watches or record.external or not hosts <= {each.host for each in record.watched}:
        return {}
    sources = {name: list(_sources(each, telemetry)) for name, each in watches.items()}
    covers = _common_cover(list(sources.values()))
    if covers is None:
        return {}
    wanted = {"package", "DRAM"} if covers == "package + DRAM" else {covers}
    joules, idle_j = 0.0, 0.0
    for name, watch in watches.items():
        for source in sources[name]:
            if source.covers in wanted:
                joules += source.joules
                idle_j += watch.idle_power_w.get(source.instance, np.nan) * watch.window_s
    load_hosts = {generator.host for generator in record.generators}
    shared = any(each.host in load_hosts and (each.machine or each.host) in watches for each in record.watched)
    return {
        "energy_j_per_request": joules / requests,
        "active_energy_j_per_request": None if np.isnan(idle_j) else (joules - idle_j) / requests,
        "energy_covers": f"{covers}, {WITH_LOAD_TOOL}" if shared else covers,
    }


def _common_cover(machines: Sequence[Sequence[_Source]]) -> Covers | None:
    known = [{source.covers for source in sources} for sources in machines]
    if all("whole host" in each for each in known):
        return "whole host"
    if all({"package", "DRAM"} <= each for each in known):
        return "package + DRAM"
    return "package" if all("package" in each for each in known) else None


def _sources(watch: WatchRecord, telemetry: Columns[TelemetryRow]) -> Iterator[_Source]:
    window_s = watch.window_s
    rows: dict[tuple[str, str], list[int]] = {}
    for place, (host, metric, instance) in enumerate(
        zip(telemetry["host"], telemetry["metric"], telemetry["instance"], strict=True)
    ):
        if host == watch.host and metric in ("energy_j_total", "power_w"):
            rows.setdefault((metric, str(instance)), []).append(place)
    for (metric, instance), places in rows.items():
        t_s, values = (np.asarray(telemetry[name], dtype=np.float64)[places] for name in ("t_s", "value"))
        if t_s[0] > window_s or t_s[-1] < 0:
            continue
        if metric == "energy_j_total":
            first, last = np.interp([0.0, window_s], t_s, values)
            yield _Source("DRAM" if instance.startswith("dram") else "package", instance, float(last - first))
        else:
            yield _Source("whole host", instance, _integral(t_s, values, window_s))


def _integral(t_s: Reals, watts: Reals, window_s: float) -> float:
    times = np.concatenate(([0.0], t_s[(t_s > 0) & (t_s < window_s)], [window_s]))
    return float(np.trapezoid(np.interp(times, t_s, watts), times))
