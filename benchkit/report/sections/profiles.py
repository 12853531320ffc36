"""Profiles: CPU time of services by category, the scheduler's share, and the cost of profiling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchkit import units
from benchkit.comparison.cpu_profiles import METRICS, ProfilerCost, ServiceProfile, profiler_costs
from benchkit.models.metrics import metric_named
from benchkit.models.profile import CATEGORIES, STUDIED
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Column, Entry, Table
from benchkit.safe_text import clean
from benchkit.store.profile_tables import PROFILE_NOTES


@dataclass(frozen=True)
class ProfilesContent:
    """Notices on profiles, the scheduler's share, all shares, and the cost of profiling as sentences and by cell."""

    notices: tuple[str, ...]
    scheduler: Table | None
    shares: Table | None
    costs: tuple[str, ...]
    costs_by_cell: Table | None


def build(material: Material) -> ProfilesContent | None:
    """Return the tables; None if nothing was to be profiled."""
    run = material.run
    profiles = run.service_profiles
    costs: list[ProfilerCost] = []
    if run.trials["kind"].isin(["profile", "control"]).any():
        costs = [cost for metric in METRICS for cost in profiler_costs(run.trials, metric, run.profile_exclusions)]
    notices = list(dict.fromkeys(map(str, run.notes["message"][run.notes["code"].isin(PROFILE_NOTES)])))
    if not (profiles or costs or notices):
        return None
    return ProfilesContent(
        notices=tuple(map(clean, notices)),
        scheduler=_scheduler_table(profiles, run) if profiles else None,
        shares=_share_table(profiles, run) if profiles else None,
        costs=tuple(clean(cost.sentence) for cost in costs if cost.cell_id is None),
        costs_by_cell=_cost_table(costs, run) if costs else None,
    )


SECTION = Section("profiles", "Profiles", "profiles.html.j2", build)


def _scheduler_table(profiles: Sequence[ServiceProfile], run: StoredRun) -> Table:
    """Return the scheduler's share with the functions that study 4 published, goroutines, rate and CPU."""
    study = "cumulative, as study 4 published it"
    return Table(
        name="profiles",
        caption="The scheduler's share of the CPU samples, with results of the measured trials",
        columns=(
            *_name_columns(profiles),
            Column("Profiles", "number"),
            Column("Scheduler", "number"),
            Column("Lowest", "number"),
            Column("Highest", "number"),
            *(Column(name, "number", study) for name in STUDIED),
            Column("Goroutines", "number"),
            Column("RPS", "number", unit="requests/s"),
            Column("CPU per request", "number", unit="s"),
        ),
        rows=tuple(
            (
                *_names(each, profiles, run),
                Entry(units.count(each.profiles) + _excluded(each), float(each.profiles)),
                Entry(each.annotated("shares", units.share(each.scheduling)), each.scheduling),
                *(_share(value) for value in each.range),
                *(_share(each.cumulative[name]) for name in STUDIED),
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
        columns=(*_name_columns(profiles), *(Column(name, "number") for name in used)),
        rows=tuple(
            (*_names(each, profiles, run), *(_share(each.categories[name]) for name in used)) for each in profiles
        ),
    )


def _cost_table(costs: Sequence[ProfilerCost], run: StoredRun) -> Table:
    """Return the cost of profiling by cell and metric."""
    return Table(
        name="profiler-costs",
        caption="Cost of profiling: profiled trials relative to adjacent ones without a profiler",
        columns=(
            Column("Cell", "name"),
            Column("Figure"),
            Column("Pairs", "number"),
            Column("Ratio", "number"),
            Column("From", "number"),
            Column("To", "number"),
        ),
        rows=tuple(
            (
                Entry("all cells" if cost.cell_id is None else run.labels.get(cost.cell_id, cost.cell_id)),
                Entry(metric_named(cost.metric).title),
                Entry(units.count(cost.pairs), float(cost.pairs)),
                *(_figure(value) for value in (cost.ratio, cost.low, cost.high)),
            )
            for cost in costs
        ),
    )


def _name_columns(profiles: Sequence[ServiceProfile]) -> Iterator[Column]:
    yield Column("Cell", "name")
    if len({each.service for each in profiles}) > 1:
        yield Column("Service")


def _names(each: ServiceProfile, profiles: Sequence[ServiceProfile], run: StoredRun) -> Iterator[Entry]:
    yield Entry(run.labels.get(each.cell_id, each.cell_id))
    if len({other.service for other in profiles}) > 1:
        yield Entry(clean(each.service))


def _share(value: float) -> Entry:
    return Entry(units.share(value), value)


def _figure(value: float | None) -> Entry:
    return Entry(units.ABSENT if value is None else f"{value:.3f}", value)
