"""The design that a run takes on its hosts: the one of the scenario, or another where these hosts or cells need it.

A sliced block needs the stacks of its cells side by side on the hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from benchkit.loadtools.registry import get_tool
from benchkit.models.design import Design
from benchkit.models.run import CellRecord
from benchkit.plan.cells import plan_cell
from benchkit.plan.host_capabilities import HostCapabilities
from benchkit.plan.model import PlannedCell
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import CELLS_OF_ABBA
from benchkit.services.placement import MAX_PORT
from benchkit.services.service import Service
from benchkit.stats.cell_pairs import ComparedCells, baseline_pairs, requested_ratios, scenario_baseline
from benchkit.units import counted, size

NOTABLE_SHARE = 0.01
"""Least share of a slice for opening connections that the plan states in a note."""

PROCESS_BYTES = 128 << 20
"""Memory assumed for a service that is up beside others. A Go server took 14 MB after a load of 100 connections, one of
Node 56 MB."""
CONNECTION_BYTES = 64 << 10
"""Memory assumed for each of its connections: buffers of kernel and server, and a stack."""
MEMORY_SHARE = 0.8
"""Share of a host's memory that the stacks of a block may take."""

SEQUENTIAL = (
    "The design is sequential: drift from one cell's trials to the next cell's is part of their ratios, and mostly not "
    "covered by the intervals."
)


@dataclass(frozen=True)
class PlannedDesign:
    """The design of a run, with its cells as this design runs them."""

    design: Design
    why: str
    """Reason for this design, as a clause."""
    cells: tuple[PlannedCell, ...]
    notes: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()
    """Cells of each block in turn; empty: every block has all cells."""


def plan_design(
    experiment: Experiment,
    cells: Sequence[PlannedCell],
    roles: Mapping[str, tuple[str, ...]],
    capabilities: Mapping[str, HostCapabilities],
) -> PlannedDesign:
    """Return the design of a run of these cells, control cells included."""
    wanted, cells = experiment.scenario.design, tuple(cells)
    supported = sum(cell.unsupported is None for cell in cells)
    match wanted:
        case "sliced":
            return _plan_sliced(experiment, cells, roles, capabilities)
        case "abba" if supported != CELLS_OF_ABBA:
            note = "ABBA needs two cells, and these hosts do not support both: the other cell runs alone."
            return PlannedDesign("blocks", "ABBA needs two cells", cells, (note,))
        case "sequential":
            return PlannedDesign(wanted, "the scenario asks for it", cells, (SEQUENTIAL,))
    return PlannedDesign(wanted, "the scenario asks for it", cells)


def _plan_sliced(
    experiment: Experiment,
    cells: tuple[PlannedCell, ...],
    roles: Mapping[str, tuple[str, ...]],
    capabilities: Mapping[str, HostCapabilities],
) -> PlannedDesign:
    supported = [cell for cell in cells if cell.unsupported is None]
    cell_ids = [cell.cell_id for cell in supported]
    turns = f"load in turns of {experiment.scenario.slice_s:g} s"
    if (why_not := next(why_not_sliced(supported, experiment.scenario.slice_s), None)) is not None:
        return _blocks_instead(cells, why_not)
    connecting = tuple(_connecting_notes(supported, experiment.scenario.slice_s))
    placement = Placement(experiment, supported, roles, capabilities)
    placed = placement.place(cell_ids)
    if (no_room := placement.why_not(placed)) is None:
        side_by_side = f"the stacks of {counted(len(placed), 'cell')} side by side, {turns}"
        return PlannedDesign("sliced", side_by_side, _replaced(cells, placed), connecting)

    pairs = compared_pairs(experiment, cells)
    baselines = {cell.cell_id: cell for cell in placement.place(baselines_of(pairs))}

    def place_group(group: Sequence[str]) -> tuple[PlannedCell, ...]:
        beside = [baselines[cell_id] for cell_id in group if cell_id in baselines]
        return (*beside, *placement.place([each for each in group if each not in baselines], beside))

    groups = group_cells(cell_ids, pairs, lambda group: placement.why_not(place_group(group)) is None)
    if groups is None:
        return _blocks_instead(cells, no_room)
    number = counted(len(groups), "group")
    why = f"the stacks of a group of cells side by side, {turns}; {number}, because {no_room}"
    note = (
        f"The cells run in {number}, each with its baseline, because {no_room}. A block has the cells of one group; "
        "cells of different groups are compared with the baseline, not with each other."
    )
    grouped = [cell for group in groups for cell in place_group(group)]
    return PlannedDesign("sliced", why, _replaced(cells, grouped), (note, *connecting), groups)


def _connecting_notes(cells: Sequence[PlannedCell], slice_s: float) -> Iterator[str]:
    """Yield a note for each tool that cannot connect before a slice, with the share of the slice that this takes."""
    shares: dict[str, float] = {}
    for cell in cells:
        tool = cell.load.tool
        if cell.load.keepalive and get_tool(tool).lead is None:
            shares[tool] = max(shares.get(tool, 0.0), cell.connect_s / slice_s)
    for tool, share in shares.items():
        if share >= NOTABLE_SHARE:
            yield (
                f"{tool} opens its connections within the measured time: for about {share:.0%} of a slice of {slice_s:g} s. "
                "h2load and openloop open them before."
            )


def _blocks_instead(cells: tuple[PlannedCell, ...], why_not: str) -> PlannedDesign:
    why = f"not sliced, because {why_not}"
    return PlannedDesign("blocks", why, cells, (f"The design is blocks, {why}.",))


def _replaced(cells: Sequence[PlannedCell], placed: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
    by_id = {cell.cell_id: cell for cell in placed}
    return tuple(by_id.get(cell.cell_id, cell) for cell in cells)


def compared_pairs(experiment: Experiment, cells: Sequence[PlannedCell]) -> list[ComparedCells]:
    """Return the comparisons that a scenario asks for: of cells with their baselines, of controls, and of claims."""
    records = [
        CellRecord(cell_id=cell.cell_id, levels=cell.spec.levels, unsupported=cell.unsupported) for cell in cells
    ]
    scenario = experiment.document.data
    pairs, _ = baseline_pairs(records, scenario_baseline(scenario, records))
    claimed = [pair for _, pair, claim in requested_ratios(scenario, records, ()) if claim is not None]
    return list(dict.fromkeys((*pairs, *claimed)))


def baselines_of(pairs: Sequence[ComparedCells]) -> tuple[str, ...]:
    """Return the cells that others are compared with, controls excepted."""
    return tuple(dict.fromkeys(pair.baseline for pair in pairs if not pair.control))


def group_cells(
    cell_ids: Sequence[str], pairs: Sequence[ComparedCells], has_room: Callable[[Sequence[str]], bool]
) -> tuple[tuple[str, ...], ...] | None:
    """Return groups of cells in which every pair is together; None where the hosts have no room for one of them.

    Cells are put into the first group with room (first fit), in their order. A cell that is in no pair is put beside
    the first baseline.
    """

    def in_order(group: Collection[str]) -> list[str]:
        return [cell_id for cell_id in cell_ids if cell_id in group]

    groups: list[frozenset[str]] = []
    for unit in _units(cell_ids, pairs):
        place = next((i for i, group in enumerate(groups) if has_room(in_order(group | unit))), None)
        if place is not None:
            groups[place] |= unit
        elif has_room(in_order(unit)):
            groups.append(unit)
        else:
            return None
    return tuple(tuple(in_order(group)) for group in groups)


def _units(cell_ids: Sequence[str], pairs: Sequence[ComparedCells]) -> Iterator[frozenset[str]]:
    """Yield the smallest sets of cells that need each other: a cell, its control, and the baselines of both."""
    baselines = baselines_of(pairs)
    controls = {pair.baseline: pair.cell_id for pair in pairs if pair.control and pair.baseline not in baselines}
    for cell_id in cell_ids:
        if cell_id in controls.values():
            continue
        cells = {cell_id, controls.get(cell_id, cell_id)}
        needed = {pair.baseline for pair in pairs if pair.cell_id in cells} - cells
        if needed or cell_id not in baselines:
            yield frozenset(cells | (needed or set(baselines[:1])))


class Placement:
    """Places of cells side by side, each with folders and ports of its own: the first keeps the scenario's."""

    def __init__(
        self,
        experiment: Experiment,
        cells: Iterable[PlannedCell],
        roles: Mapping[str, tuple[str, ...]],
        capabilities: Mapping[str, HostCapabilities],
    ) -> None:
        self._experiment, self._roles, self._capabilities = experiment, roles, capabilities
        self._cells = {cell.cell_id: cell for cell in cells}
        self._shifted: dict[tuple[str, int], PlannedCell] = {}

    def place(self, cell_ids: Iterable[str], beside: Iterable[PlannedCell] = ()) -> tuple[PlannedCell, ...]:
        """Return these cells with other ports than the cells `beside` them, which are placed already."""
        used = {port for cell in beside for port in ports_of(cell.services)}
        placed = []
        for cell_id in cell_ids:
            wanted = set(ports_of(self._cells[cell_id].services))
            placed.append(self._with_shift(cell_id, next_shift(wanted, used)))
            used |= set(ports_of(placed[-1].services))
        return tuple(placed)

    def why_not(self, placed: Sequence[PlannedCell]) -> str | None:
        """Return why the hosts have no room for these cells side by side; None where they have."""
        reasons = chain(_port_reasons(placed, self._cells), _memory_reasons(placed, self._capabilities))
        return next(reasons, None)

    def _with_shift(self, cell_id: str, shift: int) -> PlannedCell:
        if (cell_id, shift) not in self._shifted:
            cell = self._cells[cell_id]
            shifted = plan_cell(
                self._experiment, cell.spec, self._roles, self._capabilities, port_shift=shift, tuning=cell.tuning
            )
            self._shifted[cell_id, shift] = replace(shifted, same_as=cell.same_as)
        return self._shifted[cell_id, shift]


def why_not_sliced(cells: Sequence[PlannedCell], slice_s: float) -> Iterator[str]:
    """Yield the reasons why these cells cannot run in sliced blocks on any host."""
    if any(cell.sysctls != cells[0].sysctls for cell in cells):
        yield "its cells need different kernel settings"
    if len(cells) == 1:
        yield "there is only one cell"
    for cell in cells:
        yield from _load_reasons(cell, slice_s)
    for cell in cells:
        for service in cell.services:
            if service.outage:
                yield f"{service.name} of {cell.cell_id} has an outage in its window"
            if service.is_verifier:
                yield f"{service.name} of {cell.cell_id} verifies a stack of its own"
        for server in cell.spec.external:
            if "deploy" in server.hooks:
                yield f"{server.name} of {cell.cell_id} is deployed by a command, at one address"


def _load_reasons(cell: PlannedCell, slice_s: float) -> Iterator[str]:
    load = cell.load
    if load.capacity is not None:
        yield f"{cell.cell_id} is searched for its capacity, whose probes are trials of their own"
    if load.noise is not None and load.noise.is_any:
        yield f"{cell.cell_id} has slow and broken clients, which would stay while the load is at other cells"
    if load.duration_s is None:
        yield f"the load of {cell.cell_id} ends after a number of requests, not after a time"
    elif load.duration_s < slice_s:
        yield f"the window of {cell.cell_id} has {load.duration_s:g} s, a slice {slice_s:g} s"
    for generator in cell.generators:
        of_slice = generator.load.model_copy(update={"duration_s": slice_s, "request_count": None, "warmup_s": 0.0})
        yield from (unsupported.why for unsupported in get_tool(load.tool).unsupported_fields(of_slice))


def ports_of(services: Iterable[Service]) -> Iterator[tuple[str, int]]:
    """Yield host and port of every TCP socket of services."""
    for service in services:
        for endpoint in (service.endpoint, *([service.admin.endpoint] if service.admin else [])):
            if endpoint.port is not None:
                yield service.host, endpoint.port


def next_shift(wanted: set[tuple[str, int]], used: set[tuple[str, int]]) -> int:
    """Return the smallest number that, added to all wanted ports, gives no port that is used on its host."""
    shift = 0
    while any((host, port + shift) in used for host, port in wanted):
        shift += 1
    return shift


def _port_reasons(cells: Sequence[PlannedCell], alone: Mapping[str, PlannedCell]) -> Iterator[str]:
    """Yield a reason for each service that ignores its new port, and one if a port is above `MAX_PORT`.

    `alone` has the same cells with the ports of the scenario, by their ids.
    """
    for cell in cells:
        for service, original in zip(cell.services, alone[cell.cell_id].services, strict=True):
            if service.endpoint.port == original.endpoint.port:
                continue
            folders = str(service.folder), str(original.folder)
            moved = [repr((each.process.argv, each.process.env, each.files)) for each in (service, original)]
            if moved[0].replace(folders[0], "…") == moved[1].replace(folders[1], "…"):
                yield f"{service.name} of {cell.cell_id} always listens on port {original.endpoint.port}"
    ports = [port for cell in cells for _, port in ports_of(cell.services)]
    if max(ports, default=0) > MAX_PORT:
        yield f"their stacks need ports above {MAX_PORT}"


def _memory_reasons(cells: Sequence[PlannedCell], capabilities: Mapping[str, HostCapabilities]) -> Iterator[str]:
    needed: dict[str, int] = {}
    for cell in cells:
        for service in cell.services:
            bytes_ = PROCESS_BYTES + cell.load.connections * CONNECTION_BYTES
            needed[service.host] = needed.get(service.host, 0) + bytes_
    for host, bytes_ in needed.items():
        memory = capabilities[host].facts.memory_bytes
        if memory is not None and bytes_ > MEMORY_SHARE * memory:
            yield f"their stacks may take {size(bytes_)} together, and {host} has {size(memory)} of memory"
