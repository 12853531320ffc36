"""The section on services: profiles, the cost of profiling, the balance of workers, disk usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from benchkit import units
from benchkit.comparison.cpu_profiles import COST_METRICS, ServiceProfile, profiler_cost
from benchkit.comparison.runs.counters import worker_balances
from benchkit.models.profile import STUDIED
from benchkit.models.run import PassKind
from benchkit.report.sections.blocks import Block, Bullets, ReportInput, Section, TableBlock, heading, note
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Entry, Table, named, number, table
from benchkit.safe_text import clean
from benchkit.store.profile_tables import PASS_NOTES


def _services(report: ReportInput) -> Iterator[Block]:
    run = report.run
    shown = run.notes["code"].isin(PASS_NOTES)
    notes = dict.fromkeys(clean(str(message)) for message in run.notes["message"][shown])
    if notes:
        yield Bullets([*notes])
    if run.service_profiles:
        yield heading("Profiles")
        yield TableBlock(_profile_table(run.service_profiles, run))
        yield note(
            "Shares are of the CPU samples of a service. Waiting is finding and waiting for work: Go's scheduler with its "
            "polling of the network, and the epoll of event loops, nginx and Node; its interval is over the samples "
            "(Wilson). Goroutines, RPS and CPU are medians over the measured trials, which were not profiled."
        )
    yield from _costs(run)
    balances = _worker_table(run)
    if balances is not None:
        yield heading("Balance between workers")
        yield TableBlock(balances)
        yield note(
            "CPU time of the busiest worker over the mean of all: 1 if all work equally. The table has the median over "
            "trials and the highest of any trial. An idle worker took less than a tenth of the mean."
        )
    usage = _disk_table(run)
    if usage is not None:
        yield heading("Disk usage")
        yield TableBlock(usage)


SERVICES = Section("services", "Services", _services)


def _profile_table(profiles: Sequence[ServiceProfile], run: StoredRun) -> Table:
    """Return the share of waiting with the functions that study 4 published, goroutines, rate and CPU."""
    has_several = len({each.service for each in profiles}) > 1
    rows = [
        {
            "Cell": named(run.labels.get(each.cell_id, each.cell_id)),
            **({"Service": Entry(clean(each.service))} if has_several else {}),
            "Profiles": number(
                each.profiles,
                units.count,
                f" ({units.count(each.excluded_profiles)} invalid excluded)" if each.excluded_profiles else "",
            ),
            "Waiting": Entry(each.annotated("shares", units.share(each.waiting)), each.waiting, "number"),
            "95 % interval": Entry(" to ".join(map(units.share, each.interval or each.range))),
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


def _costs(run: StoredRun) -> Iterator[Block]:
    kinds: tuple[PassKind, ...] = get_args(PassKind)
    costs = [
        cost
        for kind in kinds
        for metric in COST_METRICS
        if (cost := profiler_cost(run.trials, metric, run.data.pass_exclusions, kind)) is not None
    ]
    if costs:
        yield heading("Cost of profiling and tracing")
        yield Bullets([clean(cost.sentence) for cost in costs])


def _worker_table(run: StoredRun) -> Table | None:
    order = list(run.labels)
    balances = worker_balances(run.measured, run.telemetry, run.values("rps").exclusions)
    rows = [
        {
            "Cell": named(run.labels[each.cell_id]),
            "Service": Entry(clean(each.service)),
            "Host": Entry(clean(each.host)),
            "Workers": number(each.workers, units.count),
            "Busiest over mean": number(each.busiest, "{:.2f}".format, ", invalid" if each.only_invalid else ""),
            "Highest": number(each.highest, "{:.2f}".format),
            "Idle workers": number(each.idle, "{:g}".format),
            "Trials": number(each.trials, units.count),
        }
        for each in sorted(balances, key=lambda each: order.index(each.cell_id))
    ]
    return table("workers", "CPU time of workers over the measured window", rows) if rows else None


def _disk_table(run: StoredRun) -> Table | None:
    """Return a row for each folder that a service fills during a trial, such as the cache of a module proxy."""
    telemetry = run.telemetry
    samples = telemetry.loc[telemetry["metric"] == "folder_bytes", ["trial_id", "host", "service", "instance", "value"]]
    sizes = samples.merge(run.measured[["trial_id", "cell_id"]], on="trial_id")
    by_folder = sizes.groupby(["cell_id", "service", "host", "instance"], sort=True)["value"]
    rows = [
        {
            "Cell": named(run.labels[cell_id]),
            "Service": Entry(clean(str(service))),
            "Host": Entry(clean(str(host))),
            "Folder": Entry(clean(str(folder))),
            "Disk space": number(median, units.size),
            "Largest": number(largest, units.size),
            "Trials": number(trials, units.count),
        }
        for (cell_id, service, host, folder), median, largest, trials in by_folder.agg(
            ["median", "max", "size"]
        ).itertuples(name=None)
    ]
    return (
        table("disk-usage", "Disk space of the services' own folders after the measured window", rows) if rows else None
    )
