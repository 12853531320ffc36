"""The stacks of cells side by side on the hosts, as a sliced block needs them, or the reason why they cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from benchkit.loadtools.registry import get_tool
from benchkit.plan.cells import plan_cell
from benchkit.plan.host_capabilities import HostCapabilities
from benchkit.plan.model import PlannedCell
from benchkit.scenario.experiment import Experiment
from benchkit.services.placement import MAX_PORT
from benchkit.services.service import Service
from benchkit.units import size

PROCESS_BYTES = 128 << 20
"""Memory assumed for a service that is up beside others. A Go server took 14 MB after a load of 100 connections, one of
Node 56 MB."""
CONNECTION_BYTES = 64 << 10
"""Memory assumed for each of its connections: buffers of kernel and server, and a stack."""
MEMORY_SHARE = 0.8
"""Share of a host's memory that the stacks of a block may take."""


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
        """Return these cells with ports that none of the cells `beside` them has, which are placed already."""
        used = {port for cell in beside for port in ports_of(cell.services)}
        placed = []
        for cell_id in cell_ids:
            wanted = set(ports_of(self._cells[cell_id].services))
            placed.append(self._with_shift(cell_id, next_shift(wanted, used)))
            used |= set(ports_of(placed[-1].services))
        return tuple(placed)

    def why_not(self, placed: Sequence[PlannedCell]) -> str | None:
        """Return why the hosts have no room for these cells side by side; None where they have."""
        return next(iter((*_port_reasons(placed, self._cells), *_memory_reasons(placed, self._capabilities))), None)

    def _with_shift(self, cell_id: str, shift: int) -> PlannedCell:
        if (cell_id, shift) not in self._shifted:
            cell = self._cells[cell_id]
            shifted = plan_cell(
                self._experiment, cell.spec, self._roles, self._capabilities, port_shift=shift, tuning=cell.tuning
            )
            self._shifted[cell_id, shift] = replace(shifted, same_as=cell.same_as)
        return self._shifted[cell_id, shift]


def why_not_sliced(experiment: Experiment, supported: Sequence[PlannedCell]) -> str | None:
    """Return why these cells cannot run in sliced blocks on any host; None where they can."""
    reasons = (
        *_tuning_reasons(supported),
        *_load_reasons(supported, experiment.scenario.slice_s),
        *_service_reasons(supported),
    )
    return next(iter(reasons), None)


def ports_of(services: Iterable[Service]) -> Iterator[tuple[str, int]]:
    """Yield host and port of every TCP socket of services."""
    for service in services:
        for endpoint in (service.endpoint, *([service.admin.endpoint] if service.admin else [])):
            if endpoint.port is not None:
                yield service.host, endpoint.port


def next_shift(wanted: set[tuple[str, int]], used: set[tuple[str, int]]) -> int:
    """Return the smallest number that, added to all wanted ports, leads to none that is used on the same host."""
    shift = 0
    while any((host, port + shift) in used for host, port in wanted):
        shift += 1
    return shift


def _tuning_reasons(cells: Sequence[PlannedCell]) -> Iterator[str]:
    if any(cell.sysctls != cells[0].sysctls for cell in cells):
        yield "its cells need different kernel settings"


def _load_reasons(cells: Sequence[PlannedCell], slice_s: float) -> Iterator[str]:
    if len(cells) == 1:
        yield "there is only one cell"
    for cell in cells:
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


def _service_reasons(cells: Sequence[PlannedCell]) -> Iterator[str]:
    for cell in cells:
        for service in cell.services:
            if service.outage:
                yield f"{service.name} of {cell.cell_id} has an outage in its window"
            if service.is_verifier:
                yield f"{service.name} of {cell.cell_id} verifies a stack of its own"
        for server in cell.spec.external:
            if "deploy" in server.hooks:
                yield f"{server.name} of {cell.cell_id} is deployed by a command, at one address"


def _port_reasons(cells: Sequence[PlannedCell], alone: Mapping[str, PlannedCell]) -> Iterator[str]:
    """Yield a reason for each service that gets another port and is rendered as if it had not.

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
