"""`benchkit why`: the components of the differences between cells, and their known causes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit import units
from benchkit.cli.console import print_json, print_table
from benchkit.cli.options import Json, StoreToRead

if TYPE_CHECKING:
    from benchkit.comparison.components import Component
    from benchkit.comparison.diagnoses.causes import Cause
    from benchkit.comparison.runs.run_data import RunData

TITLES = {
    "rate": "requests per second: CPU cores used, divided by CPU time per request",
    "cores": "CPU cores used: those allowed, times their utilisation",
    "service": "CPU time per request by service",
    "mode": "CPU time per request in user code and in the kernel",
    "category": "CPU time per request by category: profiles, scaled to the unprofiled trials beside them",
    "answer": "mean time of an answer at the held rate: CPU time, run-queue delay, and the rest, waits without CPU",
    "system calls": "system calls per request, from traces",
    "waiting": "time that threads are off the CPU per request by what they wait for, from traces",
}


def why(
    run: Annotated[
        str, typer.Argument(metavar="[RUN]", help="A run's id, the beginning of one, or `latest`.")
    ] = "latest",
    *,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Show what the difference between each cell and its baseline consists of, with intervals over blocks.

    Requests per second are the CPU cores that the servers use, divided by their CPU time per request. That time is
    shown by service, and by category if the run has profiles (`benchkit run --profile`). The rows of each table add up.
    Known causes that only one of two cells has are named, with their figures and the next step.
    """
    from benchkit.comparison.cell_labels import cell_views
    from benchkit.comparison.components import components_of
    from benchkit.comparison.diagnoses.causes import causes_of
    from benchkit.comparison.runs.run_data import read_run_data
    from benchkit.comparison.why import components_by_pair, difference_sentence
    from benchkit.stats.cell_pairs import compared_with_baseline
    from benchkit.store.store import open_store

    where = open_store(store, must_exist=True)
    folder = where.run(run)
    names = {view.cell_id: view.label for view in cell_views(folder.manifest())}
    data = read_run_data(where, folder)
    found = components_of(data)
    components, causes = components_by_pair(found), causes_of(data)
    by_pair = {
        pair: [each for each in causes if each.is_of(pair)]
        for pair in compared_with_baseline(data.manifest.scenario, data.manifest.cells)
    }
    explained = [pair for pair, of_pair in by_pair.items() if of_pair or pair in components]
    if not explained:
        raise _nothing_to_say(data, compares=bool(by_pair))
    written = {pair: difference_sentence(pair, components.get(pair, ()), names, by_pair[pair]) for pair in explained}
    sentences = {pair: text for pair, text in written.items() if text is not None}
    notes = list(_notes(data, has_categories=any(each.level == "category" for each in found)))
    if json:
        document = {"run_id": folder.run_id, "sentences": list(sentences.values()), "causes": causes}
        print_json({**document, "components": found, "notes": notes})
        return
    interval = f"{100 * (1 - data.alpha):g} % interval"
    for pair in explained:
        if any(each.level == "rate" for each in components.get(pair, ())):
            print(sentences.get(pair, f"{names[pair.cell_id]} is not shown to differ from {names[pair.baseline]}."))
        else:
            print(f"{names[pair.cell_id]} cannot be compared with {names[pair.baseline]} in its rate.")
        print(*_cause_lines(by_pair[pair], names), sep="\n", end="")
        _print_tables(components.get(pair, ()), interval)
    for line in notes:
        print(line)


def _notes(data: RunData, *, has_categories: bool) -> Iterator[str]:
    """Yield notes on undivided CPU time, on the cost of tracing, on missing traces, and on passes that would help."""
    from benchkit.comparison.component_costs import TrialCosts
    from benchkit.comparison.cpu_profiles import cost_sentence, profiler_cost
    from benchkit.models.metrics import RPS
    from benchkit.store.profile_tables import NO_TRACE

    if data.table is not None:
        if TrialCosts(data).has_undivided:
            yield "Some CPU time is not divided by service: cells have several services, but no telemetry for each."
        if (cost := profiler_cost(data.trials, RPS, data.pass_exclusions, "trace")) is not None:
            yield cost_sentence(cost)
        notes = data.table("notes")
        for message in dict.fromkeys(notes["message"][notes["code"] == NO_TRACE]):
            yield f"{message.removesuffix('.')}."
    if not has_categories:
        if (data.trials["kind"] == "profile").any():
            yield f"No profiled trial can be used: `benchkit results trials {data.manifest.run_id}` says why."
        else:
            yield "`benchkit run --profile` divides the CPU time by category."
    if not (data.trials["kind"] == "trace").any():
        yield "`benchkit run --trace` counts system calls, and measures what threads wait for."


def _nothing_to_say(data: RunData, *, compares: bool) -> Exception:
    from benchkit.errors import BenchkitError, InputError

    run_id = data.manifest.run_id
    if compares and data.exclusions:
        return BenchkitError(
            "no block has usable trials of a cell and its baseline",
            where=run_id,
            hint=f"`benchkit results trials {run_id}` says why",
        )
    return InputError(
        "there is no difference to explain",
        where=run_id,
        why="the run compares nothing, or has no CPU time of its servers (external servers are not watched)",
        hint="`benchkit versus` with their command lines measures servers that it starts",
    )


def _cause_lines(causes: Sequence[Cause], names: Mapping[str, str]) -> Iterator[str]:
    from benchkit.comparison.why import cause_clause

    for each in causes:
        yield f"Cause ({each.code}): {cause_clause(each, names)}."
        yield f"  {each.symptom.next_step}"
    if causes:
        yield ""


def _print_tables(parts: Sequence[Component], interval: str) -> None:
    from benchkit.comparison.components import LOGARITHMIC

    for level, title in TITLES.items():
        rows = [each for each in parts if each.level == level]
        if rows:
            print(f"\n{title}")
            by = "ratio" if level in LOGARITHMIC else "difference"
            print_table(("", "baseline", "cell", by, interval), map(_row, rows), right=(1, 2, 3, 4))
    print()


_FORMATS: Mapping[str, Callable[[float], str]] = {"sec/req": units.seconds, "req/s": units.rate, "1/req": units.rate}
"""Functions that format values of a unit; other values are ratios."""


def _row(component: Component) -> tuple[str, ...]:
    from benchkit.comparison.components import COST, LOGARITHMIC
    from benchkit.comparison.why import part_name, signed

    shown = _FORMATS.get(component.unit, units.ratio)
    name = "sum" if component.is_sum else part_name(component)
    ends = [end for end in (component.low, component.high) if end is not None]
    if component.level in LOGARITHMIC:
        sign = -1 if component.component == COST else 1  # the rate is divided by it
        difference = units.ratio(math.exp(sign * component.difference))
        interval = [units.ratio(end) for end in sorted(math.exp(sign * end) for end in ends)]
        if component.is_sum:
            name = {"rate": "requests per second", "cores": "CPU cores used"}[component.level]
    else:
        difference = signed(component.difference, shown)
        interval = [signed(end, shown) for end in ends]
    return name, shown(component.baseline_value), shown(component.value), difference, " to ".join(interval)
