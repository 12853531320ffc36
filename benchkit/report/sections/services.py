"""Sections on the services: their profiles, the balance of their workers, and their disk usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from benchkit import units
from benchkit.comparison.cpu_profiles import COST_METRICS, ProfilerCost, ServiceProfile, profiler_costs
from benchkit.comparison.runs.worker_balance import WorkerBalance, worker_balances
from benchkit.models.metrics import metric_named
from benchkit.models.profile import STUDIED
from benchkit.models.run import PassKind
from benchkit.report.sections.section import ReportInput, Section, TableContent
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Entry, Table, named, number, table
from benchkit.safe_text import clean
from benchkit.store.profile_tables import PROFILE_NOTES, TRACE_NOTES

WORKERS_NOTE = (
    "For services with several workers: the CPU time of the busiest worker over the mean of all. The table has the median "
    "over trials and the highest of any trial. It is 1 if all work equally, and the number of workers if one does all the "
    "work. Idle workers took less than a tenth of the mean. The process that started the workers is not one of them. "
    "Connections by worker are unknown: servers count them in total."
)
DISK_USAGE_NOTE = (
    "Size of the folders that a service fills during a trial, such as the cache of a module proxy. The table has the "
    "median over the trials of a cell, and the largest. Every trial starts with empty folders."
)


@dataclass(frozen=True)
class ProfilesContent:
    """Notes on profiles, the share of waiting, and the cost of profiling as sentences and by cell."""

    notes: tuple[str, ...]
    scheduler: Table | None
    costs: tuple[str, ...]
    costs_by_cell: Table | None


def build_profiles(report: ReportInput) -> ProfilesContent | None:
    """Return the tables; None if nothing was to be profiled."""
    run = report.run
    profiles = run.service_profiles
    kinds: tuple[PassKind, ...] = get_args(PassKind)
    costs = [
        cost
        for kind in kinds
        for metric in COST_METRICS
        for cost in profiler_costs(run.trials, metric, run.data.pass_exclusions, kind)
    ]
    shown = run.notes["code"].isin([*PROFILE_NOTES, *TRACE_NOTES])
    notes = list(dict.fromkeys(map(str, run.notes["message"][shown])))
    if not (profiles or costs or notes):
        return None
    return ProfilesContent(
        notes=tuple(map(clean, notes)),
        scheduler=_scheduler_table(profiles, run) if profiles else None,
        costs=tuple(clean(cost.sentence) for cost in costs if cost.cell_id is None),
        costs_by_cell=_cost_table(costs, run) if costs else None,
    )


PROFILES = Section("profiles", "Profiles", "profiles.html.j2", build_profiles)


def _scheduler_table(profiles: Sequence[ServiceProfile], run: StoredRun) -> Table:
    """Return the share of waiting with the functions that study 4 published, goroutines, rate and CPU."""
    rows = [
        {
            **_service_name(each, profiles, run),
            "Profiles": number(each.profiles, units.count, _excluded(each)),
            "Waiting": Entry(each.annotated("shares", units.share(each.waiting)), each.waiting, "number"),
            "95 % interval": Entry(_interval(each), None, "text"),
            "Samples": number(each.samples, units.count),
            **{name: number(each.cumulative[name], units.share) for name in STUDIED},
            "Goroutines": Entry(each.annotated("goroutines", units.count(each.goroutines)), each.goroutines, "number"),
            "RPS": Entry(each.annotated("rps", units.rate(each.rps)), each.rps, "number"),
            "CPU per request": Entry(
                each.annotated("server_cpu_s_per_request", units.seconds(each.server_cpu_s_per_request)),
                each.server_cpu_s_per_request,
                "number",
            ),
        }
        for each in profiles
    ]
    return table(
        "profiles",
        "Finding and waiting for work: share of the CPU samples, with results of the measured trials",
        rows,
        groups=dict.fromkeys(STUDIED, "cumulative, as study 4 published it"),
        units={"RPS": "requests/s", "CPU per request": "s"},
    )


def _interval(each: ServiceProfile) -> str:
    """Return the interval of the share over all samples, or the range of the profiles where their number is unknown."""
    low, high = each.interval or each.range
    return f"{units.share(low)} to {units.share(high)}"


def _excluded(each: ServiceProfile) -> str:
    return f" ({units.count(each.excluded_profiles)} invalid excluded)" if each.excluded_profiles else ""


def _cost_table(costs: Sequence[ProfilerCost], run: StoredRun) -> Table:
    rows = [
        {
            "Pass": Entry(cost.kind),
            "Cell": named("all cells" if cost.cell_id is None else run.labels.get(cost.cell_id, cost.cell_id)),
            "Figure": Entry(metric_named(cost.metric).title),
            "Pairs": number(cost.pairs, units.count),
            "Ratio": number(cost.ratio, "{:.3f}".format),
            "From": number(cost.low, "{:.3f}".format),
            "To": number(cost.high, "{:.3f}".format),
        }
        for cost in costs
    ]
    caption = "Cost of profiling and tracing: observed trials relative to adjacent ones that are not"
    return table("profiler-costs", caption, rows)


def _service_name(each: ServiceProfile, profiles: Sequence[ServiceProfile], run: StoredRun) -> dict[str, Entry]:
    """Return the cell, and the service if the run profiles several."""
    has_several = len({other.service for other in profiles}) > 1
    return {
        "Cell": named(run.labels.get(each.cell_id, each.cell_id)),
        **({"Service": Entry(clean(each.service))} if has_several else {}),
    }


def build_workers(report: ReportInput) -> TableContent | None:
    """Return a row for each service with several workers; None if there is none, or none was watched."""
    run = report.run
    balances = worker_balances(run.measured, run.telemetry, run.values("rps").exclusions)
    if not balances:
        return None
    order = list(run.labels)
    rows = [_worker_row(each, run) for each in sorted(balances, key=lambda each: order.index(each.cell_id))]
    return TableContent(table("workers", "CPU time of workers over the measured window", rows), WORKERS_NOTE)


WORKERS = Section("workers", "Balance between workers", "table.html.j2", build_workers)


def _worker_row(balance: WorkerBalance, run: StoredRun) -> dict[str, Entry]:
    return {
        "Cell": named(run.labels[balance.cell_id]),
        "Service": Entry(clean(balance.service)),
        "Host": Entry(clean(balance.host)),
        "Workers": number(balance.workers, units.count),
        "Busiest over mean": number(balance.busiest, "{:.2f}".format, ", invalid" if balance.only_invalid else ""),
        "Highest": number(balance.highest, "{:.2f}".format),
        "Idle workers": number(balance.idle, "{:g}".format),
        "Trials": number(balance.trials, units.count),
    }


def build_disk_usage(report: ReportInput) -> TableContent | None:
    """Return a row for each folder that a service fills, over the measured trials of a cell; None without one."""
    run = report.run
    telemetry = run.telemetry
    samples = telemetry.loc[telemetry["metric"] == "folder_bytes", ["trial_id", "host", "service", "instance", "value"]]
    if samples.empty:
        return None
    sizes = samples.merge(run.measured[["trial_id", "cell_id"]], on="trial_id")
    by_folder = sizes.groupby(["cell_id", "service", "host", "instance"], sort=True)["value"].agg(
        ["median", "max", "size"]
    )
    rows = [
        {
            "Cell": named(view.label),
            "Service": Entry(clean(str(service))),
            "Host": Entry(clean(str(host))),
            "Folder": Entry(clean(str(folder))),
            "Disk space": number(median, units.size),
            "Largest": number(largest, units.size),
            "Trials": number(trials, units.count),
        }
        for view in run.cells
        for (cell_id, service, host, folder), median, largest, trials in by_folder.itertuples(name=None)
        if cell_id == view.cell_id
    ]
    caption = "Disk space of the services' own folders after the measured window"
    return TableContent(table("disk-usage", caption, rows), DISK_USAGE_NOTE) if rows else None


DISK_USAGE = Section("disk-usage", "Disk usage of services", "table.html.j2", build_disk_usage)
