"""Validation of a scenario's fields that depend on each other, as far as that needs no hosts. Pure.

Each check yields faults: the location of a value in the scenario, and what is wrong with it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchkit.errors import suggestion
from benchkit.loadtools.registry import TOOLS
from benchkit.models.base import STACK, Levels, cell_id, level_text
from benchkit.models.claims import CellPair
from benchkit.models.metrics import CLAIM_METRICS, METRICS, component_metric
from benchkit.models.profile import STUDIED
from benchkit.scenario.model import LOAD_ROLE, REFERENCE, Scenario
from benchkit.validation import Location

Fault = tuple[Location, str]

Factors = Mapping[str, Sequence[object] | None]
"""Levels of each factor; None: any level may be named."""

ANY_SCALE = " at any scale"
"""Scope of levels, in messages: a claim may name a level of another scale, and is then not testable at this one."""


def combinations(scenario: Scenario) -> tuple[Levels, ...]:
    """Return the levels of all cells, in the order in which the file lists them."""
    factors = scenario.factors
    wanted: Iterable[Levels] = (
        (dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values()))
        if scenario.cells is None
        else scenario.cells
    )
    excluded = scenario.exclude
    return tuple(dict(levels) for levels in wanted if not any(each.items() <= levels.items() for each in excluded))


def factor_faults(scenario: Scenario) -> Iterator[Fault]:
    """Yield faults of factors, their levels, and the references to them."""
    yield from _stack_faults(scenario)
    for name, levels in scenario.factors.items():
        texts = [level_text(level) for level in levels]
        for i, text in enumerate(texts):
            if text in texts[:i]:
                yield ("factors", name, i), f"level {text} is listed twice"
    for i, cell in enumerate(scenario.cells or ()):
        yield from _level_faults(cell, ("cells", i), scenario.factors)
        if missing := [name for name in scenario.factors if name not in cell]:
            yield ("cells", i), f"a cell needs a level of every factor; missing: {', '.join(missing)}"
    yield from _level_faults(scenario.baseline or {}, ("baseline",), scenario.factors)
    yield from _level_faults(scenario.service or {}, ("service",), scenario.factors)
    yield from _reference_faults(scenario)


def _stack_faults(scenario: Scenario) -> Iterator[Fault]:
    if STACK in scenario.factors:
        for i, level in enumerate(scenario.factors[STACK]):
            if level not in scenario.stacks:
                yield ("factors", STACK, i), f"no stack {level!r}; {suggestion(str(level), scenario.stacks)}"
    elif len(scenario.stacks) > 1:
        names = ", ".join(scenario.stacks)
        yield ("factors",), f"several stacks and no factor {STACK!r}; add `{STACK}: [{names}]`"
    for name, stack in scenario.stacks.items():
        if stack.entry not in stack.services:
            yield ("stacks", name, "entry"), f"no service {stack.entry!r}; {suggestion(stack.entry, stack.services)}"


def _reference_faults(scenario: Scenario) -> Iterator[Fault]:
    used = {STACK}
    written = scenario.model_dump(include={"stacks", "load", "tools", "tuning"})
    for location, value in _scalars(written):
        if not isinstance(value, str) or (match := REFERENCE.match(value)) is None:
            continue
        name = match[1]
        used.add(name)
        if name not in scenario.factors:
            yield location, f"${name} refers to no factor; {suggestion(name, scenario.factors)}"
    for name in scenario.factors:
        if name not in used:
            yield (
                ("factors", name),
                f"nothing refers to this factor; write ${name} where its level belongs, in stacks, load, tools or tuning",
            )


def _scalars(data: Any, here: Location = ()) -> Iterator[tuple[Location, object]]:  # noqa: ANN401 - YAML is any
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _scalars(value, (*here, key))
    elif isinstance(data, list | tuple):
        for i, value in enumerate(data):
            yield from _scalars(value, (*here, i))
    else:
        yield here, data


def _level_faults(levels: Levels, location: Location, factors: Factors, scope: str = "") -> Iterator[Fault]:
    """Yield the faults of levels that name a cell: factors that do not exist, or that have no such level in `scope`.

    Without a scope, the levels are those of cells themselves: a text is not the number that reads the same.
    """
    for factor, level in levels.items():
        if factor not in factors:
            yield (*location, factor), f"no factor {factor!r}; {suggestion(factor, factors)}"
        elif (allowed := factors[factor]) is not None:
            known = {level_text(other): other for other in allowed if isinstance(other, bool | int | float | str)}
            text = level_text(level)
            if text not in known:
                yield (*location, factor), f"no level {text!r}{scope}; {suggestion(text, known)}"
            elif not scope and level != known[text]:
                yield (*location, factor), f"found {level!r}; the level is {known[text]!r}"


def scenario_faults(scenario: Scenario, cells: Sequence[Levels], any_scale: Factors) -> Iterator[Fault]:
    """Yield the faults of a scenario with these cells, whose factors have no fault.

    `any_scale` has the levels of each factor at any scale of the file.
    """
    yield from _cell_faults(scenario, cells)
    yield from _until_faults(scenario)
    yield from _tool_faults(scenario)
    yield from _pass_faults(scenario)
    for location, levels in _named_cells(scenario):
        yield from _level_faults(levels, location, any_scale, ANY_SCALE)
    yield from _role_faults(scenario)
    yield from _metric_faults(scenario)
    for i, published in enumerate(scenario.published):
        for field, given, known in (("figures", published.figures, METRICS), ("shares", published.shares, STUDIED)):
            for name in given:
                if name not in known:
                    yield ("published", i, field, name), f"no such figure; {suggestion(name, known)}"


def _cell_faults(scenario: Scenario, cells: Sequence[Levels]) -> Iterator[Fault]:
    if not cells:
        yield ("exclude",) if scenario.exclude else ("cells",), "no cell remains"
        return
    duplicate, times = Counter(map(cell_id, cells)).most_common(1)[0]
    if times > 1:
        yield ("cells",), f"the cell {duplicate} is listed twice"
    if scenario.baseline is not None and not any(scenario.baseline.items() <= levels.items() for levels in cells):
        yield ("baseline",), f"no cell has {cell_id(scenario.baseline)}"
    for i, wanted in enumerate(scenario.control):
        if not any(wanted.items() <= levels.items() for levels in cells):
            yield ("control", i), f"no cell has {cell_id(wanted)}; {suggestion(cell_id(wanted), map(cell_id, cells))}"


def _named_cells(scenario: Scenario) -> Iterator[tuple[Location, Levels]]:
    pairs: list[tuple[Location, CellPair | None]] = [(("answer",), scenario.answer)]
    for i, claim in enumerate(scenario.claims):
        pairs += [(("claims", i, "ratio"), claim.ratio), (("claims", i, "relative_to"), claim.relative_to)]
    yield from ((("exclude", i), levels) for i, levels in enumerate(scenario.exclude))
    yield from ((("differs", i, "cells"), difference.cells) for i, difference in enumerate(scenario.differs))
    yield from ((("published", i, "cell"), published.cell) for i, published in enumerate(scenario.published))
    for location, pair in pairs:
        if pair is not None:
            yield (*location, "of"), pair.of
            yield (*location, "to"), pair.to


def _until_faults(scenario: Scenario) -> Iterator[Fault]:
    until = scenario.until
    if until is None:
        return
    if scenario.design == "sequential":
        yield ("until",), "not allowed in a sequential design, which completes one cell after the other"
    if until.min_blocks > scenario.blocks:
        message = f"needs at least {until.min_blocks} blocks, but blocks is {scenario.blocks}"
        yield ("until",), f"{message}; write `until: null` at this scale"
    for i, metric in enumerate(until.metrics):
        if metric not in METRICS:
            yield ("until", "metrics", i), f"no metric {metric!r}; {suggestion(metric, METRICS)}"


def _tool_faults(scenario: Scenario) -> Iterator[Fault]:
    for name, fields in scenario.tools.items():
        if name not in TOOLS:
            yield ("tools", name), f"no load tool {name!r}; {suggestion(name, TOOLS)}"
        if "tool" in fields:
            yield ("tools", name, "tool"), "not allowed here; name the tool in load, and only its fields here"


def _pass_faults(scenario: Scenario) -> Iterator[Fault]:
    services = scenario.service_names
    for kind, options in scenario.passes.items():
        for i, name in enumerate(options.services or ()):
            if name not in services:
                yield (kind, "services", i), f"no stack has a service {name!r}; {suggestion(name, services)}"
        if options.duration_s is not None and options.duration_s < options.needed_s:
            message = f"found {options.duration_s:g}; a {kind} needs a window of at least {options.needed_s:g} s"
            yield (kind, "duration_s"), message


def _role_faults(scenario: Scenario) -> Iterator[Fault]:
    if LOAD_ROLE not in scenario.roles:
        yield ("roles",), f"no role {LOAD_ROLE!r} to generate the load"
    for i, claim in enumerate(scenario.claims):
        for role in claim.needs:
            if role not in scenario.roles:
                yield ("claims", i, "needs", role), f"no role {role!r}; {suggestion(role, scenario.roles)}"


def _metric_faults(scenario: Scenario) -> Iterator[Fault]:
    metrics: list[Fault] = [(("claims", i, "metric"), claim.metric) for i, claim in enumerate(scenario.claims)]
    if scenario.answer is not None:
        metrics.append((("answer", "metric"), scenario.answer.metric))
    for location, metric in metrics:
        if (component := component_metric(metric)) is not None:
            if component.service not in scenario.service_names:
                allowed = suggestion(component.service, scenario.service_names)
                yield location, f"no service {component.service!r}; {allowed}"
        elif metric not in METRICS and metric not in CLAIM_METRICS:
            yield location, f"no metric {metric!r}; {suggestion(metric, (*METRICS, *CLAIM_METRICS))}"
