"""Interface of a diagnosis, and the evidence that diagnoses read: the stored data on the trials of a cell.

A diagnosis compares the evidence of a cell with another cell's, and yields symptoms of the first. Missing or weak
evidence gives none. Only a symptom of one cell alone becomes a cause: one of both explains no difference. A diagnosis
never changes a verdict or a ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from benchkit.comparison.runs.counters import WorkerBalance, increases_of, of_servers, worker_balances
from benchkit.comparison.runs.run_data import RunData
from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.models.design import stack_of
from benchkit.models.metrics import CPU, RPS
from benchkit.models.run import CellRecord, HostRecord
from benchkit.models.trial import ServiceRecord, TrialRecord
from benchkit.stats.samples import Exclusion, Reals, excluded_ids
from benchkit.store.profile_tables import FOR_CPU, FOR_SOCKETS, WAITING


class Symptom(Frozen):
    """Observation of a diagnosis in a cell."""

    service: str | None = None
    """Service that it is about; None: the cell as a whole."""
    text: str = ""
    """Cause as a predicate of the cell, `opens a connection for nearly every request`; empty: the diagnosis's."""
    evidence: str
    """Figures that show it, as a clause."""
    next_step: str = ""
    """Next step, as a sentence; empty: the diagnosis's."""


@dataclass(frozen=True)
class Diagnosis:
    """One known cause, and the function that finds it in the first of two cells."""

    code: str
    find: Callable[[CellEvidence, CellEvidence], Iterator[Symptom]] = field(repr=False)
    text: str = ""
    next_step: str = ""


WAITED = frozenset({"throttled"})
"""Checks that exclude a trial from ratios but not from diagnoses, which explain their findings."""


@dataclass(frozen=True, eq=False)
class DiagnosisTables:
    """The tables of a run that diagnoses read, each read once."""

    run: RunData

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Measured trials that are not excluded, or only by checks whose findings diagnoses explain."""
        rows = self.run.trials[self.run.trials["kind"] == "measure"]
        return rows[~rows["trial_id"].isin(_unexplained(self.run.exclusions)) & (rows[RPS] > 0)]

    @cached_property
    def telemetry(self) -> pd.DataFrame:
        """Telemetry of the measured trials: of their hosts and of servers under load."""
        rows = self.run.rows("telemetry")
        if rows.empty:
            return pd.DataFrame(columns=["trial_id", "host", "role", "service", "instance", "t_s", "metric", "value"])
        return of_servers(rows[rows["trial_id"].isin(self.trials["trial_id"])])

    @cached_property
    def increases(self) -> pd.DataFrame:
        """Increase of each counter in each trial, with `rate`, the increase per second."""
        found = increases_of(self.telemetry, self.trials)
        return found[found["elapsed_s"] > 0].assign(rate=found["value"] / found["elapsed_s"])

    @cached_property
    def service_rates(self) -> pd.DataFrame:
        """Rates of the counters of services: a row for each trial, a column for each metric and service."""
        return self.increases.pivot_table(index="trial_id", columns=["metric", "service"], values="rate", aggfunc="sum")

    @cached_property
    def host_rates(self) -> pd.DataFrame:
        """Rates of the counters of hosts: a row for each trial, a column for each metric and host."""
        rows = self.increases[self.increases["service"].isna()]
        return rows.pivot_table(index="trial_id", columns=["metric", "host"], values="rate", aggfunc="sum")

    @cached_property
    def latency(self) -> pd.DataFrame:
        """Buckets of the raw histograms of the measured trials."""
        rows = self.run.rows("latency")
        return rows if rows.empty else rows[rows["series"] == "raw"]

    @cached_property
    def shares(self) -> pd.DataFrame:
        """Shares of profiles by category, of usable profiled trials, with the `cell_id` of each."""
        rows, trials = self.run.rows("profile_share"), self.run.trials
        if rows.empty:
            return pd.DataFrame(columns=["trial_id", "cell_id", "service", "category", "share"])
        rows = rows[~rows["trial_id"].isin(_unexplained(self.run.pass_exclusions))]
        return rows[["trial_id", "service", "category", "share"]].merge(trials[["trial_id", "cell_id"]], on="trial_id")


def _unexplained(exclusions: Iterable[Exclusion]) -> set[str]:
    return excluded_ids([each for each in exclusions if not each.is_due_to(WAITED)], RPS)


@dataclass(frozen=True, eq=False)
class CellEvidence:
    """The stored data on the measured trials of a cell; arrays have a value for each trial in which it is known."""

    cell: CellRecord
    tables: DiagnosisTables

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Its measured trials."""
        return self.tables.trials[self.tables.trials["cell_id"] == self.cell.cell_id]

    @cached_property
    def _stack(self) -> Mapping[str, object]:
        return stack_of(self.tables.run.manifest.scenario, self.cell.levels)

    @property
    def entry(self) -> str | None:
        """Service that the load is sent to; None: unknown."""
        entry = self._stack.get("entry")
        return None if entry is None else str(entry)

    @property
    def services(self) -> tuple[str, ...]:
        """Its services; none where they are not known."""
        services = self._stack.get("services")
        return tuple(services) if isinstance(services, Mapping) else ()

    @property
    def keeps_connections(self) -> bool:
        """True where the load keeps its connections, by the scenario."""
        load = self.tables.run.manifest.scenario.get("load") or {}
        value = load.get("keepalive", True)
        if isinstance(value, str) and value.startswith("$"):
            value = self.cell.levels.get(value.removeprefix("$"), True)
        return bool(value)

    @cached_property
    def increases(self) -> pd.DataFrame:
        """Increases of counters in its trials: trial_id, host, service, metric, instance, value, elapsed_s, rate."""
        rows = self.tables.increases
        return rows[rows["trial_id"].isin(self.trials["trial_id"])]

    def per_second(self, metric: str, service: str | None = None, *, host_wide: bool = False) -> Reals:
        """Return the increase of a counter in a second: of a service, of all services together, or of their hosts."""
        return _values(self._rates(metric, service, host_wide=host_wide))

    def per_request(self, metric: str, service: str | None = None, *, host_wide: bool = False) -> Reals:
        """Return the increase of a counter per request, of the same services or hosts."""
        rates = self._rates(metric, service, host_wide=host_wide)
        requests = self.trials.set_index("trial_id")[RPS].astype("float64")
        return _values(rates / requests.reindex(rates.index))

    def _rates(self, metric: str, service: str | None, *, host_wide: bool) -> pd.Series[float]:
        """Return the increase of a counter in a second in each of its trials that has it."""
        if host_wide:
            rates = self._host_rates.get(metric)
        elif service is not None:
            rates = self._service_rates.get((metric, service))
        elif metric in self._service_rates:
            rates = self._service_rates[[metric]].sum(axis="columns", min_count=1)
        else:
            rates = None
        return pd.Series(dtype="float64") if rates is None else rates.dropna()

    @cached_property
    def _service_rates(self) -> pd.DataFrame:
        rates = self.tables.service_rates
        return rates[rates.index.isin(self.trials["trial_id"])]

    @cached_property
    def _host_rates(self) -> pd.DataFrame:
        """Sums over the hosts of its services."""
        rates = self.tables.host_rates
        rates = rates.loc[rates.index.isin(self.trials["trial_id"]), rates.columns.isin(self.hosts, level="host")]
        return rates.T.groupby(level="metric").sum(min_count=1).T

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Hosts of its services that were watched."""
        rows = self.increases
        return tuple(rows.loc[rows["service"].notna(), "host"].unique())

    @property
    def host_records(self) -> tuple[HostRecord, ...]:
        """Records of these hosts, with their facts at the start of the run."""
        return tuple(host for host in self.tables.run.manifest.hosts if host.name in self.hosts)

    @property
    def shares_load_host(self) -> bool:
        """True if the load runs on a host of its services."""
        return any("load" in host.roles for host in self.host_records)

    @property
    def cores_used(self) -> Reals:
        """CPU cores that its services used."""
        product = self.trials[RPS].astype("float64") * self.trials[CPU].astype("float64")
        return _values(product)

    @property
    def bytes_per_request(self) -> Reals:
        """Size of an answer with its header, as the load tool states it."""
        sizes = self.trials["bytes_total"].astype("float64") / self.trials["requests"].astype("float64")
        return _values(sizes)

    @cached_property
    def latency(self) -> Latencies:
        """Latencies of all of its trials together."""
        rows = self.tables.latency
        if rows.empty:
            return Latencies(np.empty(0), np.empty(0), np.empty(0))
        rows = rows[rows["trial_id"].isin(self.trials["trial_id"])].sort_values("low_s")
        return Latencies(*(rows[name].to_numpy(dtype=np.float64) for name in ("low_s", "high_s", "count")))

    def is_far_from_queue(self, low_s: float, high_s: float) -> bool:
        """Return True where the latency of a queue, connections over rate by Little's law, lies outside this range.

        Trials at a target rate do not count: their connections may be idle.
        """
        closed = self.trials[self.trials["rate_requested"].isna()]
        cycle_s = (closed["connections"].astype("float64") / closed[RPS].astype("float64")).mean()
        return not low_s / MARGIN <= cycle_s <= high_s * MARGIN

    def share_of(self, category: str, service: str) -> Reals:
        """Return the share of a category in each profile of a service."""
        profiles = self._profiles.get(service)
        return np.empty(0) if profiles is None or category not in profiles else _values(profiles[category])

    @cached_property
    def _profiles(self) -> Mapping[str, pd.DataFrame]:
        """Profiles of each of its services: a row for each trial, a column for the share of each category."""
        rows = self.tables.shares
        return {
            str(service): profiles.pivot_table(index="trial_id", columns="category", values="share", aggfunc="mean")
            for service, profiles in rows[rows["cell_id"] == self.cell.cell_id].groupby("service")
        }

    @cached_property
    def idle_share(self) -> float | None:
        """Share of the waits for sockets or the CPU in its traces that were for sockets; None without a trace."""
        rows, trials = self.tables.run.rows("trace"), self.tables.run.trials
        if rows.empty:
            return None
        rows = rows[rows["trial_id"].isin(trials.loc[trials["cell_id"] == self.cell.cell_id, "trial_id"])]
        waits = rows[rows["level"] == WAITING].groupby("name")["value"].sum()
        idle_s, runnable_s = (float(waits[waits.index.isin(names)].sum()) for names in (FOR_SOCKETS, (FOR_CPU,)))
        return idle_s / (idle_s + runnable_s) if idle_s + runnable_s else None

    @cached_property
    def workers(self) -> tuple[WorkerBalance, ...]:
        """Balance of work among the processes of its services."""
        return worker_balances(self.trials, self.tables.telemetry)

    @cached_property
    def records(self) -> tuple[TrialRecord, ...]:
        """Records of its trials whose raw files the store has."""
        return tuple(self.tables.run.records(self.trials["trial_id"]))

    def service_records(self, name: str) -> tuple[ServiceRecord, ...]:
        """Return the record of a service in each trial."""
        return tuple(service for record in self.records for service in record.services if service.name == name)

    def log_lines(self) -> Iterator[tuple[str, str]]:
        """Yield the service and the text of each line that its services wrote to their logs."""
        folder = self.tables.run.folder
        if folder is None:
            return
        for record in self.records:
            for service in record.services:
                try:
                    content = folder.raw_file(record.trial_id, f"{service.name}.{service.host}.log")
                except InputError:  # the service wrote no log
                    continue
                for line in content.decode(errors="replace").splitlines():
                    yield service.name, line


PEAK = 4.0
"""Ratio of the requests at a peak of latencies to those in as wide a range beside it."""


@dataclass(frozen=True, eq=False)
class Latencies:
    """Buckets of latencies in seconds, ascending, with the number of requests in each."""

    low_s: Reals
    high_s: Reals
    count: Reals

    @property
    def total(self) -> float:
        """Number of requests."""
        return float(self.count.sum())

    def share(self, low_s: float, high_s: float) -> float:
        """Return the share of requests from `low_s` to below `high_s`, by the middle of their bucket; 0 if none."""
        middle = (self.low_s + self.high_s) / 2
        inside = float(self.count[(middle >= low_s) & (middle < high_s)].sum())
        return inside / self.total if self.total else 0.0

    def quantile(self, share: float) -> float | None:
        """Return the latency that this share of the requests reaches; None without requests."""
        if not self.total:
            return None
        place = int(np.searchsorted(np.cumsum(self.count), share * self.total))
        return float(self.high_s[min(place, len(self.high_s) - 1)])

    def is_peak(self, low_s: float, high_s: float, *, least: float = 0.01) -> bool:
        """Return True for a peak between two latencies: at least the share `least` of all requests lies there.

        Each range of the same width beside it has at most a quarter as many (`PEAK`).
        """
        width = high_s - low_s
        inside = self.share(low_s, high_s)
        beside = max(self.share(max(0.0, low_s - width), low_s), self.share(high_s, high_s + width))
        return inside >= least and inside >= PEAK * beside


def _values(column: pd.Series[float]) -> Reals:
    return np.asarray(column.dropna(), dtype=np.float64)


def mean(values: Reals) -> float | None:
    """Return the mean; None without values."""
    return float(values.mean()) if len(values) else None


MARGIN = 1.5
"""Ratio to the other cell's value above which a value is a symptom; below it the difference may be noise."""


def stands_out(own: float, theirs: float | None, least: float) -> bool:
    """Return True for a value of `least` or more that is above `MARGIN` times the other cell's value."""
    return own >= least and own > MARGIN * (theirs or 0.0)


def all_above(values: Reals, others: Reals, times: float) -> bool:
    """Return True where all values are above all others, and their mean is at least `times` the others' mean."""
    if not len(values) or not len(others):
        return False
    return bool(values.min() > others.max() and values.mean() >= times * others.mean())


AS_BUSY = 0.8
"""Share of the other cell's CPU cores from which on a cell counts as equally busy."""


def is_as_busy(cell: CellEvidence, other: CellEvidence) -> bool:
    """Return True where a cell uses about as many cores as the other, or more."""
    own, theirs = mean(cell.cores_used), mean(other.cores_used)
    return own is not None and theirs is not None and own >= AS_BUSY * theirs
