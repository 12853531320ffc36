"""Checks of a scenario that concern more than one field: design, controls, claims, profile pass, roles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchkit.document import Document
from benchkit.errors import InputError, suggestion
from benchkit.loadtools.registry import TOOLS
from benchkit.models.base import Levels, cell_id, level_text
from benchkit.models.claims import Claim, Published
from benchkit.models.metrics import METRICS
from benchkit.models.profile import PROFILE_METRICS
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.model import LOAD_ROLE, Scenario
from benchkit.scenario.trial_order import CELLS_OF_ABBA
from benchkit.validation import Location

MAX_TRIALS = 200_000
"""Largest number of trials of a run; at two seconds each, they take five days."""

Factors = Mapping[str, Sequence[object] | None]
"""Levels of each factor at any scale; a claim may name a level of another scale, and is not testable at this one.

None for a stored scenario, whose other scales are unknown: any level may be named.
"""


def check_scenario(scenario: Scenario, document: Document, cells: Sequence[Levels], factors: Factors) -> None:
    """Check what needs no typed cells. Raises InputError naming file, line and field of every fault."""
    faults = [
        *_design_faults(scenario, document, cells),
        *_until_faults(scenario, document),
        *_role_faults(scenario, document),
        *_tool_faults(scenario, document),
        *_profile_faults(scenario, document),
    ]
    for i, excluded in enumerate(scenario.exclude):
        faults += _level_faults(excluded, ("exclude", i), document, factors)
    for i, difference in enumerate(scenario.differs):
        faults += _level_faults(difference.cells, ("differs", i, "cells"), document, factors)
    for i, claim in enumerate(scenario.claims):
        faults += _claim_faults(i, claim, scenario, document, factors)
    for i, published in enumerate(scenario.published):
        faults += _published_faults(i, published, document, factors)
    if faults:
        raise InputError("\n".join(faults))


def check_cells(experiment: Experiment) -> None:
    """Check what depends on the typed services and loads of cells. Raises InputError naming file, line and field."""
    faults = dict.fromkeys((*_quota_faults(experiment), *_profile_window_faults(experiment)))
    if faults:
        raise InputError("\n".join(faults))


def _design_faults(scenario: Scenario, document: Document, cells: Sequence[Levels]) -> Iterator[str]:
    for i, wanted in enumerate(scenario.control):
        if not any(wanted.items() <= levels.items() for levels in cells):
            message = f"no cell has {cell_id(wanted)}; {suggestion(cell_id(wanted), map(cell_id, cells))}"
            yield document.fault(("control", i), message)
    compared = len(cells) + sum(map(scenario.has_control, cells))
    if scenario.design == "abba" and compared != CELLS_OF_ABBA:
        message = f"abba compares two cells; there are {compared}, controls included; use blocks"
        yield document.fault(("design",), message)
    of_profile = 0 if scenario.profile is None else 2 * scenario.profile.blocks * len(cells)
    trials = compared * scenario.blocks * (2 if scenario.design == "abba" else 1) + of_profile
    if trials > MAX_TRIALS:
        message = (
            f"these are {trials:,} trials of {len(cells):,} cells; allowed: up to {MAX_TRIALS:,}; use fewer blocks"
        )
        yield document.fault(("blocks",), message)


def _until_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    until = scenario.until
    if until is None:
        return
    if scenario.design == "sequential":
        message = "not allowed in a sequential design, which completes one cell after the other"
        yield document.fault(("until",), message)
    if until.min_blocks > scenario.blocks:
        message = (
            f"needs at least {until.min_blocks} blocks, but blocks is {scenario.blocks}; "
            "write `until: null` at such a scale"
        )
        yield document.fault(("until",), message)
    yield from (
        document.fault(("until", "metrics", i), f"no metric {metric!r}; {suggestion(metric, METRICS)}")
        for i, metric in enumerate(until.metrics)
        if metric not in METRICS
    )


def _role_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    if LOAD_ROLE not in scenario.roles:
        allowed = suggestion(LOAD_ROLE, scenario.roles)
        yield document.fault(("roles",), f"no role {LOAD_ROLE!r} to generate the load; {allowed}")


def _tool_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    for name, fields in scenario.tools.items():
        if name not in TOOLS:
            yield document.fault(("tools", name), f"no load tool {name!r}; {suggestion(name, TOOLS)}")
        if "tool" in fields:
            message = "not allowed here; name the tool in load, and only its fields here"
            yield document.fault(("tools", name, "tool"), message)


def _profile_faults(scenario: Scenario, document: Document) -> Iterator[str]:
    services = dict.fromkeys(name for stack in scenario.stacks.values() for name in stack.services)
    wanted = (scenario.profile.services if scenario.profile is not None else None) or ()
    for i, name in enumerate(wanted):
        if name not in services:
            message = f"no stack has a service {name!r}; {suggestion(name, services)}"
            yield document.fault(("profile", "services", i), message)


def _claim_faults(i: int, claim: Claim, scenario: Scenario, document: Document, factors: Factors) -> Iterator[str]:
    for side, levels in (("of", claim.ratio.of), ("to", claim.ratio.to)):
        yield from _level_faults(levels, ("claims", i, "ratio", side), document, factors)
    for role in claim.needs:
        if role not in scenario.roles:
            allowed = suggestion(role, scenario.roles)
            yield document.fault(("claims", i, "needs", role), f"no role {role!r}; {allowed}")
    if claim.metric not in METRICS and claim.metric not in PROFILE_METRICS:
        allowed = suggestion(claim.metric, (*METRICS, *PROFILE_METRICS))
        yield document.fault(("claims", i, "metric"), f"no metric {claim.metric!r}; {allowed}")


def _published_faults(i: int, published: Published, document: Document, factors: Factors) -> Iterator[str]:
    yield from _level_faults(published.cell, ("published", i, "cell"), document, factors)
    for (field, name), allowed in published.unknown.items():
        yield document.fault(("published", i, field, name), f"no such figure; {suggestion(name, allowed)}")


def _level_faults(levels: Levels, location: Location, document: Document, factors: Factors) -> Iterator[str]:
    """Yield a fault for each unknown factor, and for each level that exists at no scale."""
    for factor, level in levels.items():
        if factor not in factors:
            yield document.fault((*location, factor), f"no factor {factor!r}; {suggestion(factor, factors)}")
            continue
        at_any_scale = factors[factor]
        if at_any_scale is None:
            continue
        known = [level_text(other) for other in at_any_scale if isinstance(other, bool | int | float | str)]
        if level_text(level) not in known:
            allowed = suggestion(level_text(level), dict.fromkeys(known))
            yield document.fault((*location, factor), f"no level {level_text(level)!r} at any scale; {allowed}")


def _quota_faults(experiment: Experiment) -> Iterator[str]:
    serving = {service.options.role for cell in experiment.cells for service in cell.services}
    for name, role in experiment.scenario.roles.items():
        if role.quota is not None and name not in serving:
            message = f"a quota limits services, and no service has the role {name!r}"
            yield experiment.document.fault(("roles", name, "quota"), message)


def _profile_window_faults(experiment: Experiment) -> Iterator[str]:
    profile = experiment.scenario.profile
    if profile is None or profile.duration_s is None or profile.duration_s >= profile.needed_s:
        return
    message = f"found {profile.duration_s:g}; a profile needs a window of at least {profile.needed_s:g} s"
    yield experiment.document.fault(("profile", "duration_s"), message)
