"""The cells of a scenario: every combination of levels, with the levels written into services and load."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchkit.document import Document, Location
from benchkit.errors import InputError, suggestion
from benchkit.models.levels import STACK, Level, Levels, cell_id, level_text
from benchkit.scenario.model import Scenario

REFERENCE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_-]*)\Z")
"""A value `$name` stands for the level of factor `name`; `$$name` for the text `$name`."""


@dataclass(frozen=True)
class Cell:
    """One combination of levels, and what it deploys and drives, levels filled in."""

    cell_id: str
    levels: Levels
    entry: str
    services: Document
    load: Document


def expand(scenario: Scenario, document: Document) -> tuple[Cell, ...]:
    """All cells of a scenario, in the order in which its file lists the levels.

    Raises InputError, naming file, line and field, for references to no factor, factors nobody refers to and levels
    that name no stack.
    """
    _check_factors(scenario, document)
    return tuple(_cell(scenario, document, levels) for levels in _combinations(scenario, document))


def _cell(scenario: Scenario, document: Document, levels: dict[str, Level]) -> Cell:
    name = str(levels[STACK]) if STACK in levels else next(iter(scenario.stacks))
    services = document.at("stacks", name, "services")
    return Cell(
        cell_id=cell_id(levels),
        levels=levels,
        entry=scenario.stacks[name].entry,
        services=_filled(services, levels),
        load=_load(scenario, document, levels),
    )


def _load(scenario: Scenario, document: Document, levels: Mapping[str, Level]) -> Document:
    """The load of a cell, with what `tools` says of its tool laid over it."""
    load = _filled(document.at("load"), levels)
    tool = load.data.get("tool")
    return load.overlaid(_filled(document.at("tools", tool), levels)) if tool in scenario.tools else load


def _combinations(scenario: Scenario, document: Document) -> Iterator[dict[str, Level]]:
    if scenario.cells is None:
        names = list(scenario.factors)
        wanted: list[dict[str, Level]] = [
            dict(zip(names, levels, strict=True)) for levels in itertools.product(*scenario.factors.values())
        ]
    else:
        wanted = [dict(levels) for levels in scenario.cells]
    kept = [levels for levels in wanted if not any(left_out.items() <= levels.items() for left_out in scenario.exclude)]
    if not kept:
        raise InputError(document.fault(("exclude",), "leaves no cell"))
    yield from kept


def _check_factors(scenario: Scenario, document: Document) -> None:
    faults = [*_stack_faults(scenario, document), *_cell_faults(scenario, document)]
    used = {STACK}
    for part in ("stacks", "load", "tools"):
        for place, name in _references(document.at(part)):
            used.add(name)
            if name not in scenario.factors:
                faults.append(
                    document.fault((part, *place), f"${name} refers to no factor; {suggestion(name, scenario.factors)}")
                )
    faults += [
        document.fault(
            ("factors", name),
            f"nothing refers to this factor; write ${name} where its level belongs, in stacks, load or tools",
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
                yield document.fault(
                    ("factors", STACK, i), f"no stack {level!r}; {suggestion(str(level), scenario.stacks)}"
                )
    elif len(scenario.stacks) > 1:
        names = ", ".join(scenario.stacks)
        yield document.fault(("factors",), f"several stacks and no factor {STACK!r}; add `{STACK}: [{names}]`")
    for name, stack in scenario.stacks.items():
        if stack.entry not in stack.services:
            yield document.fault(
                ("stacks", name, "entry"), f"no service {stack.entry!r}; {suggestion(stack.entry, stack.services)}"
            )


def _cell_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    for name, levels in scenario.factors.items():
        for i, level in enumerate(levels):
            if level_text(level) in map(level_text, levels[:i]):
                yield document.fault(("factors", name, i), f"level {level_text(level)} stands twice")
    named: list[tuple[str, int | None, Mapping[str, Level]]] = [
        *(("cells", i, cell) for i, cell in enumerate(scenario.cells or ())),
        *(("exclude", i, cell) for i, cell in enumerate(scenario.exclude)),
        *([("baseline", None, scenario.baseline)] if scenario.baseline is not None else []),
        *([("service", None, scenario.service)] if scenario.service is not None else []),
    ]
    for field, index, cell in named:
        where: Location = (field,) if index is None else (field, index)
        for name, level in cell.items():
            if name not in scenario.factors:
                yield document.fault((*where, name), f"no factor {name!r}; {suggestion(name, scenario.factors)}")
            elif level not in scenario.factors[name]:
                allowed = ", ".join(map(level_text, scenario.factors[name]))
                yield document.fault((*where, name), f"found {level_text(level)}; levels of {name}: {allowed}")
        if field == "cells" and (missing := [name for name in scenario.factors if name not in cell]):
            yield document.fault(where, f"a cell needs a level of every factor; missing: {', '.join(missing)}")


def _references(document: Document) -> Iterator[tuple[Location, str]]:
    for place, value in _scalars(document.data):
        if isinstance(value, str) and (match := REFERENCE.match(value)):
            yield place, match[1]


def _scalars(data: object, here: Location = ()) -> Iterator[tuple[Location, object]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _scalars(value, (*here, key))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from _scalars(value, (*here, i))
    else:
        yield here, data


def _filled(document: Document, levels: Mapping[str, Level]) -> Document:
    def fill(data: object) -> object:
        if isinstance(data, dict):
            return {key: fill(value) for key, value in data.items()}
        if isinstance(data, list):
            return [fill(value) for value in data]
        if isinstance(data, str):
            match = REFERENCE.match(data)
            return levels[match[1]] if match else data.replace("$$", "$", 1) if data.startswith("$$") else data
        return data

    return Document(fill(document.data), document.origins, document.path)
