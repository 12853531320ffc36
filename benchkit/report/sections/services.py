"""The section on services: profiles, and the cost of profiling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from benchkit import units
from benchkit.comparison.cpu_profiles import COST_METRICS, ServiceProfile, cost_sentence, profiler_cost
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
            "network polling, and the epoll of event loops such as nginx and Node. Its interval is over the samples "
            "(Wilson). Shares of functions are cumulative, as study 4 published them."
        )
    yield from _costs(run)


SERVICES = Section("services", "Services", _services)


def _profile_table(profiles: Sequence[ServiceProfile], run: StoredRun) -> Table:
    """Return the share of waiting with the functions that study 4 published."""
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
            "Waiting": number(each.waiting, units.share, ", invalid" if each.only_invalid else ""),
            "95 % interval": Entry(" to ".join(map(units.share, each.interval or each.range))),
            "Samples": number(each.samples, units.count),
            **{name: number(each.cumulative[name], units.share) for name in STUDIED},
        }
        for each in profiles
    ]
    return table("profiles", "Finding and waiting for work: share of the CPU samples", rows)


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
        yield Bullets([clean(cost_sentence(cost)) for cost in costs])
