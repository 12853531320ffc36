"""The cells of a scenario: its combinations of levels, each with the levels filled into services and load."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from benchkit.document import Document
from benchkit.errors import InputError, suggestion
from benchkit.models.base import STACK, Level, Levels, cell_id, level_text
from benchkit.models.request import is_secret
from benchkit.scenario.cell_parts import typed_load, typed_services
from benchkit.scenario.experiment import Cell
from benchkit.scenario.model import REFERENCE, Scenario
from benchkit.validation import Location

MAX_CELLS = 10_000
"""Largest number of combinations of levels; a run of that many takes days for each block."""


def combinations(scenario: Scenario, document: Document) -> tuple[Levels, ...]:
    """Return the levels of all cells, in the order in which the file lists them.

    Raises InputError, naming file, line and field, for factors that nothing refers to, references to unknown factors,
    levels that name no stack, and cells that are listed twice or that do not exist.
    """
    factors = scenario.factors
    number = math.prod(map(len, factors.values())) if scenario.cells is None else len(scenario.cells)
    if number > MAX_CELLS:
        message = f"these are {number:,} cells; allowed: up to {MAX_CELLS:,}; list those to compare in `cells`"
        raise InputError(document.fault(("factors" if scenario.cells is None else "cells",), message))
    _check_factors(scenario, document)
    wanted: Sequence[Levels] = (
        [dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())]
        if scenario.cells is None
        else scenario.cells
    )
    cells = tuple(
        dict(levels)
        for levels in wanted
        if not any(excluded.items() <= levels.items() for excluded in scenario.exclude)
    )
    if not cells:
        raise InputError(document.fault(("exclude",) if scenario.exclude else ("cells",), "no cell remains"))
    duplicate, times = Counter(map(cell_id, cells)).most_common(1)[0]
    if times > 1:
        raise InputError(document.fault(("cells",), f"the cell {duplicate} is listed twice"))
    baseline = scenario.baseline
    if baseline is not None and not any(baseline.items() <= levels.items() for levels in cells):
        raise InputError(document.fault(("baseline",), f"no cell has {cell_id(baseline)}"))
    return cells


def typed_cell(levels: Levels, scenario: Scenario, document: Document) -> Cell:
    """Return the cell with these levels. Raises InputError naming file, line and field."""
    name = str(levels[STACK]) if STACK in levels else next(iter(scenario.stacks))
    entry = scenario.stacks[name].entry
    services = _filled_in(document.at("stacks", name, "services"), levels)
    load = _load(scenario, document, levels)
    typed, external = typed_services(services, entry, scenario)
    return Cell(
        cell_id=cell_id(levels),
        levels=levels,
        entry=entry,
        services=typed,
        external=external,
        load=typed_load(load),
        load_source=load.source,
    )


def _load(scenario: Scenario, document: Document, levels: Levels) -> Document:
    """Return the load of a cell, overridden by the fields that `tools` has for its tool."""
    load = _filled_in(document.at("load"), levels)
    tool = load.data.get("tool")
    if tool not in scenario.tools:
        return load
    return load.overridden(_filled_in(document.at("tools", tool), levels))


def _check_factors(scenario: Scenario, document: Document) -> None:
    faults = [*_stack_faults(scenario, document), *_cell_faults(scenario, document)]
    used = {STACK}
    for part in ("stacks", "load", "tools", "tuning"):
        for location, name in _references(document.at(part)):
            used.add(name)
            if name not in scenario.factors:
                message = f"${name} refers to no factor; {suggestion(name, scenario.factors)}"
                faults.append(document.fault((part, *location), message))
            if "headers" in location[-2:-1] and is_secret(str(location[-1])):
                message = f"levels are shown everywhere, so that no secret can be one; write {{env: ${name}}}"
                faults.append(document.fault((part, *location), f"{message}, with names of variables as levels"))
    faults += [
        document.fault(
            ("factors", name),
            f"nothing refers to this factor; write ${name} where its level belongs, in stacks, load, tools or tuning",
        )
        for name in scenario.factors
        if name not in used
    ]
    if faults:
        raise InputError("\n".join(faults))


def _stack_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    if STACK in scenario.factors:
        for i, level in enumerate(scenario.factors[STACK]):
            if level not in scenario.stacks:
                message = f"no stack {level!r}; {suggestion(str(level), scenario.stacks)}"
                yield document.fault(("factors", STACK, i), message)
    elif len(scenario.stacks) > 1:
        names = ", ".join(scenario.stacks)
        yield document.fault(("factors",), f"several stacks and no factor {STACK!r}; add `{STACK}: [{names}]`")
    for name, stack in scenario.stacks.items():
        if stack.entry not in stack.services:
            message = f"no service {stack.entry!r}; {suggestion(stack.entry, stack.services)}"
            yield document.fault(("stacks", name, "entry"), message)


def _cell_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    for name, levels in scenario.factors.items():
        listed: set[str] = set()
        for i, text in enumerate(map(level_text, levels)):
            if text in listed:
                yield document.fault(("factors", name, i), f"level {text} is listed twice")
            listed.add(text)
    references: list[tuple[Location, Levels]] = [
        *((("cells", i), cell) for i, cell in enumerate(scenario.cells or ())),
        *([(("baseline",), scenario.baseline)] if scenario.baseline is not None else []),
        *([(("service",), scenario.service)] if scenario.service is not None else []),
    ]
    for location, cell in references:
        for name, level in cell.items():
            if name not in scenario.factors:
                yield document.fault((*location, name), f"no factor {name!r}; {suggestion(name, scenario.factors)}")
            elif level not in scenario.factors[name]:
                allowed = ", ".join(map(level_text, scenario.factors[name]))
                yield document.fault((*location, name), f"found {level_text(level)}; levels of {name}: {allowed}")
        if location[0] == "cells" and (missing := [name for name in scenario.factors if name not in cell]):
            yield document.fault(location, f"a cell needs a level of every factor; missing: {', '.join(missing)}")


def _references(document: Document) -> Iterator[tuple[Location, str]]:
    for location, value in _scalars(document.data):
        if isinstance(value, str) and (match := REFERENCE.match(value)):
            yield location, match[1]


def _scalars(data: object, here: Location = ()) -> Iterator[tuple[Location, object]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _scalars(value, (*here, key))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from _scalars(value, (*here, i))
    else:
        yield here, data


def _filled_in(document: Document, levels: Mapping[str, Level]) -> Document:
    """Return the document with every reference to a factor replaced by its level."""

    def fill_in(data: object) -> object:
        if isinstance(data, dict):
            return {key: fill_in(value) for key, value in data.items()}
        if isinstance(data, list):
            return [fill_in(value) for value in data]
        if isinstance(data, str):
            match = REFERENCE.match(data)
            return levels[match[1]] if match else data.replace("$$", "$", 1) if data.startswith("$$") else data
        return data

    return Document(fill_in(document.data), document.source)
