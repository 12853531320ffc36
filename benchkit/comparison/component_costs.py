"""CPU time per request of single trials by its parts: services, their user and system time, categories of profiles.

Each table has a row for each part of a trial: trial_id, cell_id, block, service, component, value. The parts of a trial
add up to its CPU time per request, or to the mean time of an answer; the remainder is a row of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from benchkit.comparison.runs.counters import increases_of, of_servers
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.design import stack_of
from benchkit.models.metrics import CPU, KERNEL, MEAN, RPS, USER_CODE, ComponentMetric, part_in_claims
from benchkit.models.trial import TrialRecord
from benchkit.stats.samples import excluded_ids

ROUNDING = 1e-3
"""Share of the CPU time of a trial by which the sum of its services may differ: both are read within a millisecond."""
SUM, REST = "all", "not attributed"
"""Components of a level: the sum of all others, and the remainder of that sum."""
TOTAL_CPU, USER_CPU, RUN_QUEUE = "cpu_s_total", "user_cpu_s_total", "run_queue_s_total"
CPU_TIME, RUN_QUEUE_DELAY, WITHOUT_CPU = "CPU time", "run-queue delay", "waits without CPU"
"""Parts of the mean time of an answer."""
LIMITS = frozenset({"generator-saturated", "link-saturated", "throttled"})
"""Checks of limits of the rate. They exclude no trace: the system calls of a request are the same at any rate."""
COLUMNS = ["trial_id", "cell_id", "block", "service", "component", "value"]


@dataclass(frozen=True, eq=False)
class TrialCosts:
    """The parts of the CPU time per request of a run's trials."""

    run: RunData

    @cached_property
    def trials(self) -> pd.DataFrame:
        """Measured trials with a rate and CPU time, without excluded ones."""
        return _usable(self._of_kind("measure"), excluded_ids(self.run.exclusions, RPS))

    @cached_property
    def increases(self) -> pd.DataFrame:
        """Increases of CPU times and run-queue delays: trial_id, service, metric, value."""
        return _increases(self.run.rows("telemetry"), self.run.trials)

    @cached_property
    def services(self) -> pd.DataFrame:
        """Parts by service; the remainder of a trial is a row with an empty service."""
        costs = self._of_services(self.trials)
        sums = costs.groupby("trial_id")["value"].sum()
        of_trials = self.trials[self.trials["trial_id"].isin(sums.index)]
        rest = of_trials[CPU].astype("float64") - of_trials["trial_id"].map(sums).astype("float64")
        if bool((rest.abs() <= ROUNDING * of_trials[CPU]).all()):
            return costs
        rows = of_trials[["trial_id", "cell_id", "block"]].assign(service="", component=REST, value=rest)
        return pd.concat([costs, rows], ignore_index=True)

    @property
    def has_undivided(self) -> bool:
        """True if telemetry is missing, so that some trial has only the CPU time of several services together."""
        measured = self.trials[self.trials[CPU].notna()]
        return not measured["trial_id"].isin(self.services["trial_id"]).all()

    @cached_property
    def modes(self) -> pd.DataFrame:
        """Parts by service, in user code and in the kernel; a service without that split has one row."""
        user = self.increases[self.increases["metric"] == USER_CPU].set_index(["trial_id", "service"])["value"]
        if user.empty or self.services.empty:
            return pd.DataFrame(columns=COLUMNS)
        whole = self.services.merge(self.trials[["trial_id", "requests"]], on="trial_id")
        of_user = user.reindex(pd.MultiIndex.from_frame(whole[["trial_id", "service"]])).to_numpy()
        whole = whole.assign(user=of_user / whole["requests"].astype("float64"))
        split, unsplit = whole[whole["user"].notna()], whole[whole["user"].isna()]
        in_kernel = split.assign(component=KERNEL, value=split["value"] - split["user"])
        in_user = split.assign(component=USER_CODE, value=split["user"])
        return pd.concat([each[COLUMNS] for each in (in_user, in_kernel, unsplit) if len(each)], ignore_index=True)

    @cached_property
    def categories(self) -> pd.DataFrame:
        """Parts by category: the CPU time of unprofiled partners, divided by the shares of the profiles.

        A service without a profile has one row, `not attributed`.
        """
        profiled, partners = self._of_kind("profile"), self._of_kind("control")
        if profiled.empty or self.run.table is None:
            return pd.DataFrame(columns=COLUMNS)
        invalid = excluded_ids(self.run.pass_exclusions, RPS)
        costs = self._of_services(_usable(partners[partners["block"].isin(profiled["block"])], invalid))
        profiled = profiled[~profiled["trial_id"].isin(invalid)]
        shares = self.run.rows("profile_share").merge(profiled[["trial_id", "cell_id", "block"]], on="trial_id")
        if shares.empty or costs.empty:
            return pd.DataFrame(columns=COLUMNS)
        keys = ["cell_id", "block", "service"]
        joined = costs.merge(shares[[*keys, "category", "share"]], on=keys, how="left")
        joined["component"] = joined["category"].fillna(REST)
        joined["value"] = joined["value"] * joined["share"].fillna(1.0)
        known = joined.merge(shares[["cell_id", "block"]].drop_duplicates(), on=["cell_id", "block"])
        return known[COLUMNS]

    @cached_property
    def answers(self) -> pd.DataFrame:
        """Parts of the mean time of an answer at a held rate in seconds: the response time, from when it was due.

        CPU time and run-queue delay are of all threads of a service, divided by the requests. Threads that work on a
        request side by side count together, and work in the background counts. The rest is what an answer waits without
        CPU: for a timer, a lock, another service, the network or the load tool. It is no time of blocked threads, which
        a server with an event loop or with goroutines need not have.
        """
        trials = self._of_kind("measure" if self.run.is_held else "held")
        excluded = excluded_ids(self.run.exclusions, MEAN) | excluded_ids(self.run.exclusions, CPU)
        trials = _usable(trials[trials[MEAN].notna()], excluded)
        cpu = self._per_request(trials, TOTAL_CPU, CPU_TIME)
        queue = self._per_request(trials, RUN_QUEUE, RUN_QUEUE_DELAY)
        if queue.empty:
            return queue
        services = cpu.groupby("trial_id").size()
        is_known = services.eq(queue.groupby("trial_id").size().reindex(services.index))
        known = trials[trials["trial_id"].isin(services.index[is_known])]
        parts = pd.concat([cpu, queue], ignore_index=True)
        parts = parts[parts["trial_id"].isin(known["trial_id"])]
        taken_s = known["trial_id"].map(parts.groupby("trial_id")["value"].sum()).astype("float64")
        rest = known.assign(service="", component=WITHOUT_CPU, value=known[MEAN].astype("float64") - taken_s)
        return pd.concat([parts, rest[COLUMNS]], ignore_index=True)

    @cached_property
    def traces(self) -> pd.DataFrame:
        """System calls, and seconds that threads wait, per request of traced trials; `level` tells them apart."""
        trials = self._of_kind("trace")
        rows = pd.DataFrame() if trials.empty else self.run.rows("trace")
        if rows.empty:
            return pd.DataFrame(columns=[*COLUMNS, "level"])
        excluding = [each for each in self.run.pass_exclusions if not each.is_due_to(LIMITS)]
        usable = _usable(trials, excluded_ids(excluding, RPS))
        rows = rows.merge(usable[["trial_id", "cell_id", "block", "requests"]], on="trial_id")
        rows = rows.assign(value=rows["value"] / rows["requests"].astype("float64"))
        # Where the trace of a service failed, its calls are unknown, not zero: the trial gives no row.
        services = rows.groupby("trial_id")["service"].transform("nunique")
        rows = rows[services == services.groupby(rows["cell_id"]).transform("max")]
        return rows.assign(component=rows["name"])[[*COLUMNS, "level"]]

    @cached_property
    def cores_allowed(self) -> Mapping[str, float]:
        """CPU cores that the services of a trial may use, by trial_id, for trials whose stored record states them."""
        records = self.run.records(self.trials["trial_id"])
        return {record.trial_id: cores for record in records if (cores := _cores_allowed(record)) is not None}

    def _of_kind(self, kind: str) -> pd.DataFrame:
        return self.run.trials[self.run.trials["kind"] == kind]

    def _of_services(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the CPU time per request of the services of these trials.

        Without telemetry it is known only for a stack with one service, from the CPU time of its trials.
        """
        rows = self._per_request(trials, TOTAL_CPU, SUM)
        scenario, cells = self.run.manifest.scenario, self.run.manifest.cells
        services = {cell.cell_id: list(stack_of(scenario, cell.levels).get("services") or ()) for cell in cells}
        unwatched = trials[~trials["trial_id"].isin(rows["trial_id"])]
        is_alone = unwatched["cell_id"].map(lambda cell_id: len(services.get(cell_id, ())) == 1).astype(bool)
        unwatched = unwatched[is_alone]
        names = unwatched["cell_id"].map(lambda cell_id: services[cell_id][0])
        alone = unwatched.assign(service=names, component=SUM, value=unwatched[CPU].astype("float64"))
        return pd.concat([each[COLUMNS] for each in (rows, alone) if len(each)] or [rows[COLUMNS]], ignore_index=True)

    def _per_request(self, trials: pd.DataFrame, metric: str, component: str) -> pd.DataFrame:
        """Return the increase of a counter of each service per request of its trial, as the rows of a component."""
        rows = self.increases[self.increases["metric"] == metric]
        rows = rows.merge(trials[["trial_id", "cell_id", "block", "requests"]], on="trial_id")
        return rows.assign(value=rows["value"] / rows["requests"].astype("float64"), component=component)[COLUMNS]


def component_trials(run: RunData, metric: ComponentMetric, column: str) -> pd.DataFrame:
    """Return the trials that state a component as measured trials, with its value in `column`.

    Only the unprofiled partners of profiled trials state categories.
    """
    costs = TrialCosts(run)
    if metric.part is None:
        rows = costs.services
    elif metric.part in {part_in_claims(USER_CODE), KERNEL}:
        rows = costs.modes
    else:
        rows = costs.categories
    named = SUM if metric.part is None else metric.part
    rows = rows[(rows["service"] == metric.service) & (rows["component"].map(part_in_claims) == named)]
    values = rows.groupby("trial_id")["value"].sum()
    trials = run.trials[run.trials["trial_id"].isin(values.index)]
    found = trials.assign(kind="measure")
    found[column] = found["trial_id"].map(values).astype("float64")
    return found


def _cores_allowed(record: TrialRecord) -> float | None:
    """Return the services' CPUs, or their quota if it is less, summed over hosts; None if a service has no CPUs."""
    cores = 0.0
    for host in {service.host for service in record.services}:
        services = [service for service in record.services if service.host == host]
        if not all(service.cpus for service in services):
            return None
        cpus = len({cpu for service in services for cpu in service.cpus})
        quotas = [service.quota for service in services if service.quota is not None]
        cores += min(cpus, max(quotas)) if len(quotas) == len(services) else cpus
    return cores or None


def _usable(trials: pd.DataFrame, excluded: set[str]) -> pd.DataFrame:
    rows = trials[~trials["trial_id"].isin(excluded) & (trials[RPS] > 0) & (trials[CPU] > 0)]
    return rows[["trial_id", "cell_id", "block", "duration_s", "requests", "bytes_total", RPS, CPU, MEAN]]


def _increases(telemetry: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the increases of the CPU times and run-queue delays of services."""
    if telemetry.empty:
        return pd.DataFrame(columns=["trial_id", "service", "metric", "value"])
    rows = telemetry[telemetry["service"].notna() & telemetry["metric"].isin([TOTAL_CPU, USER_CPU, RUN_QUEUE])]
    found = increases_of(of_servers(rows), trials)
    return found.groupby(["trial_id", "host", "service", "metric"], sort=False)["value"].sum().reset_index()
