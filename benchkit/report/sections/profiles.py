"""Profiles: where the time of services went, the scheduler's share above all, and what taking them cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchkit import units
from benchkit.analysis.profiler_cost import METRICS, ProfilerCost, profiler_costs
from benchkit.analysis.scheduler_share import ServiceProfile
from benchkit.models.categories import CATEGORIES, STUDIED
from benchkit.models.metrics import metric_named
from benchkit.report.clean_text import clean
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Column, Entry, Table
from benchkit.results.profile_tables import PROFILE_NOTES


def build(material: Material) -> Mapping[str, Any] | None:
    """The tables; nothing where nothing was to be profiled."""
    run = material.run
    found = run.profiled
    costs: list[ProfilerCost] = []
    if run.trials["kind"].isin(["profile", "control"]).any():
        costs = [cost for metric in METRICS for cost in profiler_costs(run.trials, metric, run.void_in_profile_pass)]
    notices = list(dict.fromkeys(map(str, run.notes["message"][run.notes["code"].isin(PROFILE_NOTES)])))
    if not (found or costs or notices):
        return None
    return {
        "notices": [clean(failure) for failure in notices],
        "overhead": _overhead(found, run) if found else None,
        "shares": _shares(found, run) if found else None,
        "costs": [clean(cost.sentence) for cost in costs if cost.cell_id is None],
        "by_cell": _costs(costs, run) if costs else None,
    }


SECTION = Section("profiles", "Profiles", "profiles.html.j2", build)


def _overhead(found: Sequence[ServiceProfile], run: StoredRun) -> Table:
    """The scheduler's share beside the figures by which study 4 told it, goroutines, rate and CPU."""
    study = "cumulative, as study 4 printed it"
    return Table(
        name="profiles",
        caption="The scheduler's share of the CPU samples, with what the measured trials say",
        columns=(
            *_named(found),
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
                *_names(each, found, run),
                Entry(units.count(each.profiles) + _left_out(each), float(each.profiles)),
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
            for each in found
        ),
    )


def _left_out(each: ServiceProfile) -> str:
    return f" ({units.count(each.left_out)} void left out)" if each.left_out else ""


def _shares(found: Sequence[ServiceProfile], run: StoredRun) -> Table:
    """Every category; those that no service has are left out."""
    used = [name for name in CATEGORIES if any(each.categories[name] > 0 for each in found)]
    return Table(
        name="profile-shares",
        caption="CPU samples by category, the mean over profiles",
        columns=(*_named(found), *(Column(name, "number") for name in used)),
        rows=tuple((*_names(each, found, run), *(_share(each.categories[name]) for name in used)) for each in found),
    )


def _costs(costs: Sequence[ProfilerCost], run: StoredRun) -> Table:
    labels = _labels(run)
    return Table(
        name="profiler-costs",
        caption="What profiling cost: profiled trials over those beside them that were not",
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
                Entry("all cells" if cost.cell_id is None else labels.get(cost.cell_id, cost.cell_id)),
                Entry(metric_named(cost.metric).title),
                Entry(units.count(cost.pairs), float(cost.pairs)),
                *(_figure(value) for value in (cost.ratio, cost.low, cost.high)),
            )
            for cost in costs
        ),
    )


def _labels(run: StoredRun) -> Mapping[str, str]:
    return {view.cell_id: view.label for view in run.cells}


def _named(found: Sequence[ServiceProfile]) -> Iterator[Column]:
    yield Column("Cell", "name")
    if len({each.service for each in found}) > 1:
        yield Column("Service")


def _names(each: ServiceProfile, found: Sequence[ServiceProfile], run: StoredRun) -> Iterator[Entry]:
    yield Entry(_labels(run).get(each.cell_id, each.cell_id))
    if len({other.service for other in found}) > 1:
        yield Entry(clean(each.service))


def _share(value: float) -> Entry:
    return Entry(units.share(value), value)


def _figure(value: float | None) -> Entry:
    return Entry(units.ABSENT if value is None else f"{value:.3f}", value)
