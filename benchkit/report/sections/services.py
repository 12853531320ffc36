"""Sections on the services: their profiles, the balance of their workers, and their disk usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchkit import units
from benchkit.comparison.cpu_profiles import METRICS, ProfilerCost, ServiceProfile, profiler_costs
from benchkit.comparison.worker_balance import WorkerBalance, worker_balances
from benchkit.models.metrics import metric_named
from benchkit.models.profile import CATEGORIES, STUDIED
from benchkit.report.sections.section import ReportInput, Section, TableContent
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Entry, Table, TableColumn
from benchkit.safe_text import clean
from benchkit.store.profile_tables import PROFILE_NOTES

WORKERS_NOTE = (
    "For services with several workers: the CPU time of the busiest one over the mean of all, as the median over trials, "
    "and the highest of any trial. It is 1 if all work equally, and their number if one does all the work. Idle workers "
    "took less than a tenth of the mean. The process that started the workers is not one of them. Connections by worker "
    "are unknown: servers count them in total."
)
DISK_USAGE_NOTE = (
    "Folders that a service fills during a trial, such as the cache of a module proxy: the median over the trials of a "
    "cell, and the largest. Every trial starts with empty folders."
)


@dataclass(frozen=True)
class ProfilesContent:
    """Notes on profiles, the scheduler's share, all shares, and the cost of profiling as sentences and by cell."""

    notes: tuple[str, ...]
    scheduler: Table | None
    shares: Table | None
    costs: tuple[str, ...]
    costs_by_cell: Table | None


def build_profiles(report: ReportInput) -> ProfilesContent | None:
    """Return the tables; None if nothing was to be profiled."""
    run = report.run
    profiles = run.service_profiles
    costs: list[ProfilerCost] = []
    if run.trials["kind"].isin(["profile", "control"]).any():
        costs = [cost for metric in METRICS for cost in profiler_costs(run.trials, metric, run.profile_exclusions)]
    notes = list(dict.fromkeys(map(str, run.notes["message"][run.notes["code"].isin(PROFILE_NOTES)])))
    if not (profiles or costs or notes):
        return None
    return ProfilesContent(
        notes=tuple(map(clean, notes)),
        scheduler=_scheduler_table(profiles, run) if profiles else None,
        shares=_share_table(profiles, run) if profiles else None,
        costs=tuple(clean(cost.sentence) for cost in costs if cost.cell_id is None),
        costs_by_cell=_cost_table(costs, run) if costs else None,
    )


PROFILES = Section("profiles", "Profiles", "profiles.html.j2", build_profiles)


def _scheduler_table(profiles: Sequence[ServiceProfile], run: StoredRun) -> Table:
    """Return the scheduler's share with the functions that study 4 published, goroutines, rate and CPU."""
    study = "cumulative, as study 4 published it"
    return Table(
        name="profiles",
        caption="The scheduler's share of the CPU samples, with results of the measured trials",
        columns=(
            *_name_columns(profiles),
            TableColumn("Profiles", "number"),
            TableColumn("Scheduler", "number"),
            TableColumn("Lowest", "number"),
            TableColumn("Highest", "number"),
            *(TableColumn(name, "number", study) for name in STUDIED),
            TableColumn("Goroutines", "number"),
            TableColumn("RPS", "number", unit="requests/s"),
            TableColumn("CPU per request", "number", unit="s"),
        ),
        rows=tuple(
            (
                *_names(each, profiles, run),
                Entry(units.count(each.profiles) + _excluded(each), float(each.profiles)),
                Entry(each.annotated("shares", units.share(each.scheduling)), each.scheduling),
                *(_share_entry(value) for value in each.range),
                *(_share_entry(each.cumulative[name]) for name in STUDIED),
                Entry(each.annotated("goroutines", units.count(each.goroutines)), each.goroutines),
                Entry(each.annotated("rps", units.rate(each.rps)), each.rps),
                Entry(
                    each.annotated("server_cpu_s_per_request", units.seconds(each.server_cpu_s_per_request)),
                    each.server_cpu_s_per_request,
                ),
            )
            for each in profiles
        ),
    )


def _excluded(each: ServiceProfile) -> str:
    return f" ({units.count(each.excluded_profiles)} invalid excluded)" if each.excluded_profiles else ""


def _share_table(profiles: Sequence[ServiceProfile], run: StoredRun) -> Table:
    """Return the share of every category that any service has."""
    used = [name for name in CATEGORIES if any(each.categories[name] > 0 for each in profiles)]
    return Table(
        name="profile-shares",
        caption="CPU samples by category, the mean over profiles",
        columns=(*_name_columns(profiles), *(TableColumn(name, "number") for name in used)),
        rows=tuple(
            (*_names(each, profiles, run), *(_share_entry(each.categories[name]) for name in used)) for each in profiles
        ),
    )


def _cost_table(costs: Sequence[ProfilerCost], run: StoredRun) -> Table:
    """Return the cost of profiling by cell and metric."""
    return Table(
        name="profiler-costs",
        caption="Cost of profiling: profiled trials relative to adjacent ones without a profiler",
        columns=(
            TableColumn("Cell", "name"),
            TableColumn("Figure"),
            TableColumn("Pairs", "number"),
            TableColumn("Ratio", "number"),
            TableColumn("From", "number"),
            TableColumn("To", "number"),
        ),
        rows=tuple(
            (
                Entry("all cells" if cost.cell_id is None else run.labels.get(cost.cell_id, cost.cell_id)),
                Entry(metric_named(cost.metric).title),
                Entry(units.count(cost.pairs), float(cost.pairs)),
                *(_cost_entry(value) for value in (cost.ratio, cost.low, cost.high)),
            )
            for cost in costs
        ),
    )


def _name_columns(profiles: Sequence[ServiceProfile]) -> Iterator[TableColumn]:
    yield TableColumn("Cell", "name")
    if len({each.service for each in profiles}) > 1:
        yield TableColumn("Service")


def _names(each: ServiceProfile, profiles: Sequence[ServiceProfile], run: StoredRun) -> Iterator[Entry]:
    yield Entry(run.labels.get(each.cell_id, each.cell_id))
    if len({other.service for other in profiles}) > 1:
        yield Entry(clean(each.service))


def _share_entry(value: float) -> Entry:
    return Entry(units.share(value), value)


def _cost_entry(value: float | None) -> Entry:
    return Entry(units.ABSENT if value is None else f"{value:.3f}", value)


def build_workers(report: ReportInput) -> TableContent | None:
    """Return a row for each service with several workers; None if there is none, or none was watched."""
    run = report.run
    balances = worker_balances(run.measured, run.telemetry, run.values("rps").exclusions)
    if not balances:
        return None
    order = list(run.labels)
    return TableContent(
        Table(
            name="workers",
            caption="CPU time of workers over the measured window",
            columns=(
                TableColumn("Cell", "name"),
                TableColumn("Service"),
                TableColumn("Host"),
                TableColumn("Workers", "number"),
                TableColumn("Busiest over mean", "number"),
                TableColumn("Highest", "number"),
                TableColumn("Idle workers", "number"),
                TableColumn("Trials", "number"),
            ),
            rows=tuple(_worker_row(each, run) for each in sorted(balances, key=lambda each: order.index(each.cell_id))),
        ),
        WORKERS_NOTE,
    )


WORKERS = Section("workers", "Balance between workers", "table.html.j2", build_workers)


def _worker_row(balance: WorkerBalance, run: StoredRun) -> tuple[Entry, ...]:
    suffix = ", invalid" if balance.only_invalid else ""
    return (
        Entry(run.labels[balance.cell_id]),
        Entry(clean(balance.service)),
        Entry(clean(balance.host)),
        Entry(units.count(balance.workers), float(balance.workers)),
        Entry(f"{balance.busiest:.2f}{suffix}", balance.busiest),
        Entry(f"{balance.highest:.2f}", balance.highest),
        Entry(f"{balance.idle:g}", balance.idle),
        Entry(units.count(balance.trials), float(balance.trials)),
    )


def build_disk_usage(report: ReportInput) -> TableContent | None:
    """Return a row for each such folder of a cell, over its measured trials; None if no service has one."""
    run = report.run
    telemetry = run.telemetry
    samples = telemetry.loc[telemetry["metric"] == "folder_bytes", ["trial_id", "host", "service", "instance", "value"]]
    if samples.empty:
        return None
    sizes = samples.merge(run.measured[["trial_id", "cell_id"]], on="trial_id")
    by_folder = sizes.groupby(["cell_id", "service", "host", "instance"], sort=True)["value"].agg(
        ["median", "max", "size"]
    )
    rows = tuple(
        (
            Entry(view.label),
            Entry(clean(str(service))),
            Entry(clean(str(host))),
            Entry(clean(str(folder))),
            Entry(units.size(median), median),
            Entry(units.size(largest), largest),
            Entry(units.count(trials), float(trials)),
        )
        for view in run.cells
        for (cell_id, service, host, folder), median, largest, trials in by_folder.itertuples(name=None)
        if cell_id == view.cell_id
    )
    if not rows:
        return None
    columns = (
        TableColumn("Cell", "name"),
        TableColumn("Service"),
        TableColumn("Host"),
        TableColumn("Folder"),
        TableColumn("Disk space", "number"),
        TableColumn("Largest", "number"),
        TableColumn("Trials", "number"),
    )
    caption = "Disk space of the services' own folders after the measured window"
    return TableContent(Table(name="disk-usage", caption=caption, columns=columns, rows=rows), DISK_USAGE_NOTE)


DISK_USAGE = Section("disk-usage", "Disk usage of services", "table.html.j2", build_disk_usage)
