"""What no single field of a scenario shows to be wrong: its design, its controls, and what it claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchkit.document import Document
from benchkit.errors import InputError, suggestion
from benchkit.models.claims import Claim
from benchkit.models.levels import Level, cell_id, level_text
from benchkit.models.metrics import METRICS
from benchkit.models.published import Published
from benchkit.scenario.cells import Cell
from benchkit.scenario.designs import CELLS_OF_ABBA
from benchkit.scenario.model import Scenario
from benchkit.scenario.profile_pass import unknown_services

Factors = Mapping[str, Sequence[object]]
"""The levels of each factor at any scale: what only one scale has may be claimed about, and is not testable elsewhere."""


def check_scenario(scenario: Scenario, document: Document, cells: Sequence[Cell], factors: Factors) -> None:
    """Raise InputError, naming file, line and field of every fault."""
    faults = [
        *_design_faults(scenario, document, cells),
        *_until_faults(scenario, document),
        *_profile_faults(scenario, document),
        *(
            fault
            for i, difference in enumerate(scenario.differs)
            for fault in _level_faults(difference.cells, ("differs", i, "cells"), document, factors)
        ),
        *(
            fault
            for i, claim in enumerate(scenario.claims)
            for fault in _claim_faults(i, claim, scenario, document, factors)
        ),
        *(
            fault
            for i, printed in enumerate(scenario.published)
            for fault in _published_faults(i, printed, document, factors)
        ),
    ]
    if faults:
        raise InputError("\n".join(faults))


def controls(scenario: Scenario, cells: Sequence[Cell]) -> tuple[str, ...]:
    """The cells that run a second time under another name: those that have the levels of any of `control`."""
    return tuple(
        cell.cell_id for cell in cells if any(levels.items() <= cell.levels.items() for levels in scenario.control)
    )


def _design_faults(scenario: Scenario, document: Document, cells: Sequence[Cell]) -> Iterator[str]:
    for i, levels in enumerate(scenario.control):
        if not any(levels.items() <= cell.levels.items() for cell in cells):
            there = suggestion(cell_id(levels), [cell.cell_id for cell in cells])
            yield document.fault(("control", i), f"no cell has {cell_id(levels)}; {there}")
    compared = len(cells) + len(controls(scenario, cells))
    if scenario.design == "abba" and compared != CELLS_OF_ABBA:
        yield document.fault(("design",), f"abba compares two cells, here are {compared} with controls; use blocks")


def _until_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    until = scenario.until
    if until is None:
        return
    if scenario.design == "sequential":
        yield document.fault(
            ("until",), "has no place in a sequential design, whose cells are whole one after the other"
        )
    if until.min_blocks > scenario.blocks:
        yield document.fault(
            ("until",),
            f"at least {until.min_blocks} blocks, of {scenario.blocks} in all; write `until: null` at such a scale",
        )
    yield from (
        document.fault(("until", "metrics", i), f"no metric {metric!r}; {suggestion(metric, METRICS)}")
        for i, metric in enumerate(until.metrics)
        if metric not in METRICS
    )


def _profile_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    if scenario.profile is None:
        return
    services = dict.fromkeys(name for stack in scenario.stacks.values() for name in stack.services)
    for i, name in unknown_services(scenario.profile, services):
        allowed = suggestion(name, services)
        yield document.fault(("profile", "services", i), f"no stack has a service {name!r}; {allowed}")


def _claim_faults(i: int, claim: Claim, scenario: Scenario, document: Document, factors: Factors) -> Iterator[str]:
    for side, levels in (("of", claim.ratio.of), ("to", claim.ratio.to)):
        yield from _level_faults(levels, ("claims", i, "ratio", side), document, factors)
    for role in claim.needs:
        if role not in scenario.roles:
            allowed = suggestion(role, scenario.roles)
            yield document.fault(("claims", i, "needs", role), f"no role {role!r}; {allowed}")
    if claim.metric not in METRICS:
        allowed = suggestion(claim.metric, METRICS)
        yield document.fault(("claims", i, "metric"), f"no metric {claim.metric!r}; {allowed}")


def _published_faults(i: int, printed: Published, document: Document, factors: Factors) -> Iterator[str]:
    yield from _level_faults(printed.cell, ("published", i, "cell"), document, factors)
    for (field, name), allowed in printed.unknown.items():
        yield document.fault(("published", i, field, name), f"no such figure; {suggestion(name, allowed)}")


def _level_faults(
    levels: Mapping[str, Level], place: tuple[str | int, ...], document: Document, factors: Factors
) -> Iterator[str]:
    """Factors that there are not, and levels that no scale has."""
    for factor, level in levels.items():
        if factor not in factors:
            yield document.fault((*place, factor), f"no factor {factor!r}; {suggestion(factor, factors)}")
            continue
        known = [level_text(other) for other in factors[factor] if isinstance(other, bool | int | float | str)]
        if level_text(level) not in known:
            allowed = suggestion(level_text(level), dict.fromkeys(known))
            yield document.fault((*place, factor), f"no level {level_text(level)!r} at any scale; {allowed}")
