"""Sentences that say why a cell is faster or slower than its baseline, from the components of their ratio."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from benchkit import units
from benchkit.comparison.component_costs import REST, SUM
from benchkit.comparison.components import ALLOWED, CORES, COST, Component, finest_parts
from benchkit.comparison.diagnoses.causes import Cause
from benchkit.stats.cell_pairs import ComparedCells

MAX_PARTS = 3
"""Parts of a difference that a sentence names, the largest."""
LEAST_PART = 0.1
"""Share of the difference of two mean times of an answer from which on a sentence names a part."""


def components_by_pair(components: Sequence[Component]) -> dict[ComparedCells, list[Component]]:
    """Return components by the cells that they compare."""
    found: dict[ComparedCells, list[Component]] = {}
    for each in components:
        found.setdefault(ComparedCells(each.cell_id, each.baseline_id), []).append(each)
    return found


def is_shown(component: Component) -> bool:
    """Return True where the interval of a difference excludes zero."""
    return component.low is not None and component.high is not None and not component.low <= 0 <= component.high


def explanation(
    components: Sequence[Component],
    names: Mapping[str, str],
    causes: Sequence[Cause] = (),
    relative_to: str | None = None,
) -> str | None:
    """Return why one cell differs from its baseline, as a clause from `because` on; None where no difference is shown.

    It has up to three parts: the term of the rate that differs more, the other term, and the first cause. The CPU time
    is divided by category, in runs without profiles by user code and kernel, else by service. `relative_to` is the cell
    to which both sides are relative, between two runs.
    """
    rate = {each.component: each for each in components if each.level == "rate"}
    if SUM not in rate or not is_shown(rate[SUM]):
        return None
    if relative_to is None:
        clauses = {COST: _cost_clause(rate[COST], components), CORES: _cores_clause(rate[CORES], components, names)}
    else:
        clauses = {name: _relative_clause(rate[name]) for name in (COST, CORES)}
    ordered = [clauses[name] for name in sorted(clauses, key=lambda name: -abs(rate[name].difference))]
    if not any(is_shown(rate[name]) for name in clauses):
        ordered = ["of CPU time per request and CPU cores used together, of which neither alone is shown to differ"]
    start = "because" if relative_to is None else f"because, relative to {relative_to},"
    return f"{start} {'; '.join([*ordered, *(cause_clause(each, names) for each in causes[:1])])}"


def cost_explanation(
    components: Sequence[Component], names: Mapping[str, str], causes: Sequence[Cause] = ()
) -> str | None:
    """Return the parts of a difference in CPU time per request, as `2.91 µs less for app`, and the first cause.

    None where no part is shown to differ.
    """
    parts = _largest_parts(finest_parts(components))
    return "; ".join([", ".join(parts), *(cause_clause(each, names) for each in causes[:1])]) if parts else None


def difference_sentence(
    pair: ComparedCells, components: Sequence[Component], names: Mapping[str, str], causes: Sequence[Cause] = ()
) -> str | None:
    """Return why two cells differ, in sentences; None if no rate, CPU time or time of an answer is shown to differ."""
    cell, baseline = names[pair.cell_id], names[pair.baseline]
    reason = explanation(components, names, causes)
    cost = next((each for each in components if each.level == "rate" and each.component == COST), None)
    sentences = [answer_time_sentence(components, names)]
    if reason is not None:
        sentences.insert(0, f"{cell} differs from {baseline} {reason}.")
    elif cost is not None and is_shown(cost):
        clause = _cost_clause(cost, components)
        sentences.insert(0, f"{cell} is not shown to differ from {baseline} in its rate, but {clause}.")
    return " ".join(filter(None, sentences)) or None


def cause_clause(cause: Cause, names: Mapping[str, str]) -> str:
    """Return a cause with its evidence: `nginx-go opens a connection …: 0.99 connections per request`."""
    return f"{names[cause.subject_id]} {cause.symptom.text}: {cause.symptom.evidence}"


def _cost_clause(cost: Component, components: Sequence[Component]) -> str:
    if not is_shown(cost) or cost.low is None or cost.high is None:
        return f"the CPU time per request is not shown to differ ({units.seconds(cost.value)})"
    ends = units.ratio(math.exp(-cost.high)), units.ratio(math.exp(-cost.low))
    times = f"each request takes {units.ratio(math.exp(-cost.difference))} times the CPU time, {ends[0]} to {ends[1]}"
    parts = _largest_parts(finest_parts(components))
    return f"{times}: {', '.join(parts)}" if parts else times


def _relative_clause(term: Component) -> str:
    """Return the change of a term relative to another cell: `the CPU time per request is 1.20 times as large, …`."""
    sign = -1 if term.component == COST else 1
    verb, size = ("are", "many") if term.component == CORES else ("is", "large")
    times = units.ratio(math.exp(sign * term.difference))
    if not is_shown(term) or term.low is None or term.high is None:
        return f"the {term.component} {verb} not shown to differ ({times} times)"
    low, high = sorted(math.exp(sign * end) for end in (term.low, term.high))
    return f"the {term.component} {verb} {times} times as {size}, {units.ratio(low)} to {units.ratio(high)}"


def answer_time_sentence(components: Sequence[Component], names: Mapping[str, str]) -> str | None:
    """Return what the difference of two mean times of an answer consists of; None where none is shown."""
    parts = [each for each in components if each.level == "answer"]
    total = next((each for each in parts if each.is_sum), None)
    if total is None or not is_shown(total):
        return None
    largest = _largest_parts(parts, least=LEAST_PART * abs(total.difference))
    longer = "longer" if total.difference > 0 else "less"
    text = f"{names[total.cell_id]} took {units.seconds(abs(total.difference))} {longer} on average"
    return f"{text}: {', '.join(largest)}." if largest else None


def _largest_parts(parts: Sequence[Component], least: float = 0.0) -> list[str]:
    shown = [each for each in parts if is_shown(each) and not each.is_sum and abs(each.difference) >= least][:MAX_PARTS]
    is_alone = len({each.service for each in parts if each.service is not None}) == 1
    return [_part(each, is_alone=is_alone) for each in shown]


def _part(component: Component, *, is_alone: bool) -> str:
    """Return the difference of a part: `2.91 µs less for app`; without the service's name if that is the only one."""
    more = "more" if component.difference > 0 else "less"
    name = component.component if is_alone and component.component != SUM else part_name(component)
    return f"{units.seconds(abs(component.difference))} {more} for {name}"


def part_name(component: Component) -> str:
    """Return the name of a part of the CPU time: a service, a category of it, or the remainder."""
    if component.service is None:
        return "what no service accounts for" if component.component == REST else component.component
    return component.service if component.component == SUM else f"{component.service}: {component.component}"


def _cores_clause(cores: Component, components: Sequence[Component], names: Mapping[str, str]) -> str:
    own, base = units.ratio(cores.value), units.ratio(cores.baseline_value)
    allowed = next((each for each in components if each.component == ALLOWED), None)
    if allowed is not None:
        own, base = f"{own} of {allowed.value:.3g}", f"{base} of {allowed.baseline_value:.3g}"
    cell, baseline = names[cores.cell_id], names[cores.baseline_id]
    if own == base:
        return f"both use {own} CPU cores"
    if is_shown(cores):
        return f"{cell} uses {own} CPU cores, and {baseline} {base}"
    return f"the CPU cores used are not shown to differ ({own} and {base})"


def signed(value: float, shown: Callable[[float], str]) -> str:
    """Return a difference with its sign: `+13.6 µs`."""
    sign = "+" if value > 0 else "\N{MINUS SIGN}" if value < 0 else ""
    return f"{sign}{shown(abs(value))}"
