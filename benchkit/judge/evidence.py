"""Evidence that checks read: everything stored about one trial, its telemetry, and the tables of a whole run.

Checks read only some of the many series of a trial, so each is built at its first use. Series are plain lists, which
are faster than arrays for a few samples.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import pandas as pd

from benchkit.models.design import design_of, stack_of
from benchkit.models.facts import RecordedFacts
from benchkit.models.rows import ClassRow, SliceRow, TrialRow
from benchkit.models.run import ControllerRecord, Manifest
from benchkit.models.trial import TrialRecord, WatchRecord
from benchkit.stats.samples import SEARCH_KINDS
from benchkit.store.parquet_files import empty_frame

if TYPE_CHECKING:
    import pyarrow as pa


MIN_COVERAGE = 0.5
"""Share of the window that samples must cover for a rate to stand for the whole window."""
NEAR_S, NEAR_SHARE = 0.05, 0.1
"""Largest distance of a sample from an end of the window at which it counts as taken there: seconds, plus a share of
the window. Hosts are sampled just before and just after the window, when there is no load."""
ALWAYS_SAMPLED = ("load1", "context_switches_total", "cpu_idle_s_total")
"""Metrics that every host reports in every sample."""
_COLUMNS = ("host", "service", "instance", "t_s", "value")


class CounterIncrease(NamedTuple):
    """Increase of a counter between two samples around a part of the window."""

    increase: float
    elapsed_s: float
    """Time between the two samples, by the clock."""
    covered_s: float
    """The part of that time within the window."""


class MetricSeries(NamedTuple):
    """The samples of one metric of a host, or of a service there, and of one instance where there are several."""

    host: str
    service: str | None
    instance: str | None
    t_s: Sequence[float]
    """Ascending; 0 is the start of the measured window."""
    values: Sequence[float]

    def rate(self, window_s: float) -> float | None:
        """Return the increase of a counter per second of the window; None if samples cover less than half of it."""
        found = self.increase(window_s)
        return None if found is None else found.increase / found.covered_s

    def increase(self, window_s: float) -> CounterIncrease | None:
        """Return the increase of a counter over the part of the window that samples cover, interpolated linearly.

        None if samples cover less than half of the window.
        """
        t_s = self.aligned_times(window_s)
        start, end = max(0.0, t_s[0]), min(window_s, t_s[-1])
        if end - start < MIN_COVERAGE * window_s or end <= start:
            return None
        first, last = bisect_left(t_s, start), bisect_left(t_s, end)
        increase = _interpolate(end, last, t_s, self.values) - _interpolate(start, first, t_s, self.values)
        elapsed_s = _interpolate(end, last, t_s, self.t_s) - _interpolate(start, first, t_s, self.t_s)
        return CounterIncrease(increase, elapsed_s, end - start)

    def aligned_times(self, window_s: float) -> Sequence[float]:
        """Return the sample times, with the nearest ones around the window moved to its ends if they are near."""
        near = NEAR_S + NEAR_SHARE * window_s
        t_s = list(self.t_s)
        before, after = bisect_right(t_s, 0.0) - 1, bisect_left(t_s, window_s)
        if before >= 0 and t_s[before] >= -near:
            t_s[before] = 0.0
        if after < len(t_s) and t_s[after] <= window_s + near:
            t_s[after] = window_s
        return t_s

    def increase_around(self, start_s: float, end_s: float) -> float:
        """Return the increase of a counter from the last sample before a span to the first one after it."""
        first = max(bisect_right(self.t_s, start_s) - 1, 0)
        last = min(bisect_left(self.t_s, end_s), len(self.t_s) - 1)
        return self.values[max(last, first)] - self.values[first]

    def in_window(self, window_s: float) -> Sequence[float]:
        """Return the values sampled within the window."""
        return self.values[bisect_left(self.t_s, 0) : bisect_right(self.t_s, window_s)]

    def maximum(self, window_s: float) -> float | None:
        """Return the highest value sampled within the window; None without samples."""
        return max(self.in_window(window_s), default=None)


class TrialTelemetry:
    """All series of a trial."""

    def __init__(self, rows: pa.Table | None = None) -> None:
        """Take a trial's rows of the table `telemetry`; None: telemetry was off."""
        self._columns = [rows[name].to_pylist() for name in _COLUMNS] if rows is not None else []
        self._rows: defaultdict[str, list[int]] = defaultdict(list)
        self._series: dict[str, list[MetricSeries]] = {}
        for row, metric in enumerate(rows["metric"].to_pylist() if rows is not None else ()):
            self._rows[metric].append(row)

    def series(self, metric: str, host: str | None = None, service: str | None = None) -> Sequence[MetricSeries]:
        """Return the series of a metric: all of them, or those of a host, or of a service."""
        if metric not in self._series:
            self._series[metric] = self._build(metric)
        return [
            each
            for each in self._series[metric]
            if (host is None or each.host == host) and (service is None or each.service == service)
        ]

    def instance(self, metric: str, host: str, instance: str) -> MetricSeries | None:
        """Return the series of one instance of a host's metric; None if it was not sampled."""
        return next((each for each in self.series(metric, host) if each.instance == instance), None)

    def increases(
        self, metrics: tuple[str, ...], host: str, instance: str, window_s: float
    ) -> Sequence[CounterIncrease] | None:
        """Return the increase of each of these counters of an instance.

        None if one of them was not sampled, or for too little of the window.
        """
        series = [self.instance(metric, host, instance) for metric in metrics]
        found = [each for one in series if one is not None and (each := one.increase(window_s)) is not None]
        return found if len(found) == len(metrics) else None

    @property
    def metrics(self) -> Collection[str]:
        """Names of all sampled metrics."""
        return self._rows.keys()

    def sample_times(self, host: str) -> Sequence[float]:
        """Return the times at which the host was sampled."""
        return next((each.t_s for metric in ALWAYS_SAMPLED for each in self.series(metric, host)), ())

    def _build(self, metric: str) -> list[MetricSeries]:
        hosts, services, instances, times, values = self._columns or [()] * len(_COLUMNS)
        samples: dict[tuple[str, str | None, str | None], list[tuple[float, float]]] = {}
        for row in self._rows.get(metric, ()):
            value = values[row]
            if value is not None and value == value:  # noqa: PLR0124 - NaN differs from itself
                key = hosts[row], services[row], instances[row]
                samples.setdefault(key, []).append((float(times[row]), float(value)))
        return [
            MetricSeries(*key, *map(list, zip(*sorted(pairs, key=lambda pair: pair[0]), strict=True)))
            for key, pairs in samples.items()
        ]


def _interpolate(when: float, after: int, t_s: Sequence[float], values: Sequence[float]) -> float:
    """Interpolate linearly at a time within the samples; `after` is the first sample at or after it."""
    if t_s[after] == when:
        return values[after]
    low, high = t_s[after - 1], t_s[after]
    return values[after - 1] + (values[after] - values[after - 1]) * (when - low) / (high - low)


Severity = Literal["suspect", "invalid"]
"""`suspect`: shown, marked and ranked with a warning; `invalid`: shown, never ranked or used in a ratio."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """All stored data of one trial."""

    record: TrialRecord
    row: TrialRow
    """Its row in `trials`; absent values are None."""
    slices: Sequence[SliceRow] = ()
    """Its rows in `slices`, in order; none in other designs."""
    classes: Sequence[ClassRow] = ()
    """Its rows in `classes`; none without classes of requests."""
    telemetry: TrialTelemetry = field(default_factory=TrialTelemetry)
    facts: Mapping[str, RecordedFacts] = field(default_factory=dict)
    """Facts of each host at the start, updated with the settings that the run applied."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Known defects of the tool in this output: message by code."""
    requested_metrics: frozenset[str] = frozenset()
    """Metrics that the scenario asks about."""
    scenario: Mapping[str, Any] = field(default_factory=dict)
    """The scenario as it was run."""
    controller: ControllerRecord | None = None
    """The process that ran the trial; None: unknown."""

    @cached_property
    def window_s(self) -> float:
        """Length of the measured window."""
        return self.record.window_s

    @property
    def closed_loop(self) -> bool:
        """True if each connection sends its next request when an answer arrives, without a target rate."""
        return self.record.load.rate is None

    @property
    def disturbance(self) -> Severity:
        """Severity of a disturbance from outside, which is independent of the cell under load.

        In a random order it is noise, which the interval of a ratio includes. It invalidates a trial where the order is
        not random, or where a single value is judged, as in the search for a capacity.
        """
        searches = self.record.capacity is not None or self.record.kind in SEARCH_KINDS
        return "invalid" if searches or design_of(self.scenario) == "sequential" else "suspect"

    @cached_property
    def entry(self) -> str | None:
        """Name of the service that the load is sent to; None: unknown, as for a trial measured elsewhere."""
        stack = stack_of(self.scenario, self.record.levels)
        names = [*self.record.external, *(service.name for service in self.record.services)]
        return str(stack["entry"]) if stack else names[-1] if names else None

    @cached_property
    def server_hosts(self) -> tuple[str, ...]:
        """Hosts of its services."""
        return tuple(dict.fromkeys(service.host for service in self.record.services))

    @cached_property
    def load_hosts(self) -> tuple[str, ...]:
        """Hosts of its generators."""
        return tuple(dict.fromkeys(generator.host for generator in self.record.generators))

    def generator_cpus(self, host: str) -> set[int]:
        """Return the CPUs of a host that its generators may use."""
        return {cpu for each in self.record.generators if each.host == host for cpu in each.cpus}

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """All of its hosts."""
        return tuple(dict.fromkeys((*self.server_hosts, *self.load_hosts)))

    @cached_property
    def shares_unwatched_server(self) -> bool:
        """True if the trial did not start its server, which runs on the machine of a load host.

        The CPU time of such a server cannot be separated from that of other programs.
        """
        if not self.record.external:
            return False
        target = urlsplit(self.record.target or "").hostname
        facts = [self.facts_of(host) for host in self.load_hosts]
        own = {address for each in facts for interface in each.interfaces for address in interface.addresses}
        here = self.controller.machine if self.controller else None
        return target in {"localhost", *own, *(each.controller_address for each in facts if each.boot_id == here)}

    def facts_of(self, host: str) -> RecordedFacts:
        """Return the facts of a host; those that are unknown are absent."""
        return self.facts.get(host) or RecordedFacts()

    def watch(self, host: str) -> WatchRecord | None:
        """Return the record of the host's sampling; None: it was not sampled."""
        return next((each for each in self.record.watched if each.host == host), None)

    def number(self, column: str) -> float | None:
        """Return a numeric value of its row; None where it is absent."""
        value = getattr(self.row, column)
        return None if value is None or value != value else float(value)  # noqa: PLR0124 - NaN differs from itself


@dataclass(frozen=True, eq=False)
class RunEvidence:
    """The tables by which checks compare the trials of a run."""

    manifest: Manifest
    trials: pd.DataFrame
    """Rows of `trials`."""
    hosts: pd.DataFrame
    """Rows of `hosts`: the facts of each host at the start and later."""
    slices: pd.DataFrame = field(default_factory=partial(empty_frame, "slices"))
    """Rows of `slices`; empty where no block is sliced, and while a run goes on."""


def requested_metrics(scenario: Mapping[str, Any]) -> frozenset[str]:
    """Return the metrics that the claims of a stored scenario and its rule for ending early ask about."""
    claims = (claim.get("metric", "rps") for claim in scenario.get("claims") or ())
    until = scenario.get("until") or {}
    return frozenset({"rps", *claims, *(until.get("metrics") or ())})
