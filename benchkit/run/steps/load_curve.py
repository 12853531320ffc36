"""The load of a trial that measures a load curve: 1, 2, 4, … connections in turn, on the same servers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from benchkit.errors import HostError, LoadToolError, ParseError
from benchkit.judge.cpu_time import capacity
from benchkit.judge.load_curve import GROWTH, MOST_CONNECTIONS, is_complete, knee_of
from benchkit.loadtools.generators.execution import (
    GeneratorRun,
    PlannedSlice,
    place_inputs,
    run_slices,
    start_of_load,
)
from benchkit.loadtools.generators.outputs import failure_of, fetch_outputs
from benchkit.loadtools.registry import get_tool
from benchkit.loadtools.text import decode
from benchkit.loadtools.tool import ParsedOutput, ToolOutput
from benchkit.loadtools.trial_result import merge_generator_outputs, read_generator
from benchkit.models.rows import LoadCurveRow
from benchkit.plan.cells import EXTRA_FILES
from benchkit.plan.model import PlannedCell
from benchkit.run.found_loads import with_load
from benchkit.run.steps.load import cpu_s_of_services
from benchkit.run.steps.probe import drain
from benchkit.run.steps.services import blame_ended_service
from benchkit.run.steps.state import Block, Trial
from benchkit.run.steps.telemetry import snapshot_hosts
from benchkit.scenario.trial_order import Turn

POINT_S, LONGEST_POINT_S = 0.5, 2.0
"""Bounds of the window of a point."""
RESPONSES = 20
"""Responses that each connection gets in a window, unless that would exceed `LONGEST_POINT_S`. The request that the end
of the window interrupts is then at most a twentieth of them."""
POINT_RESPONSES = 100
"""Responses in a window altogether, within the same limit: one more or less is a hundredth of the rate."""
BITS = 8


def measure_curve(block: Block) -> None:
    """Measure the load curve of the only trial of a block, whose record then has the load at the knee.

    Ends when the curve is complete, or when the load tool fails. Raises LoadToolError where no request is answered.
    """
    (trial,) = block.trials
    cells: dict[int, PlannedCell] = {}
    runs_at: dict[int, list[GeneratorRun]] = {}
    points: list[LoadCurveRow] = []
    window_s = POINT_S
    drain(trial)
    for number, connections in enumerate(_levels(trial)):
        cell = _cell_at(trial.cell, connections, window_s)
        before = cpu_s_of_services(block, snapshot_hosts(block))
        runs = _run(block, cell, f"curve{number}")
        after = cpu_s_of_services(block, snapshot_hosts(block))
        try:
            measured = _result(block, cell, runs)
        except (HostError, ParseError):
            if points and points[-1].connections == connections:
                continue
            if points:
                break
            with blame_ended_service(trial):
                raise
        used = {name: after[name] - before[name] for name in before.keys() & after}
        point = _point(trial, cell, measured, runs, used)
        if points and points[-1].connections == connections:
            if GROWTH * point.rps < points[-1].rps:
                continue
            points.pop()
        cells[connections], runs_at[connections] = cell, runs
        points.append(point)
        if is_complete(points):
            break
        of_rate_s = POINT_RESPONSES / point.rps if point.rps else LONGEST_POINT_S
        window_s = min(LONGEST_POINT_S, max(POINT_S, RESPONSES * (point.latency_p50_s or 0.0), of_rate_s))
    if not any(point.rps for point in points):
        with blame_ended_service(trial):
            raise LoadToolError(
                f"no request of {trial.cell.load.tool} was answered",
                where=trial.load_hosts[0].name,
                why="a probe was answered: the server may close connections without a `Connection: close` header",
                hint="use a tool that opens new ones: `tool: hey` in the load, or --tool hey",
            )
    queue = _accept_queue(trial)
    points = [replace(point, accept_queue=queue) for point in points]
    knee = knee_of(points)
    trial.load_curve, trial.cell, trial.runs = tuple(points), cells[knee], [runs_at[knee]]
    window = (0.0, trial.cell.load.duration_s or POINT_S)
    block.turns = (Turn(round=1, place=1, cell_id=trial.cell.cell_id, start_s=0.0, window_s=window),)


def _levels(trial: Trial) -> Iterator[int]:
    """Yield numbers of connections: from one for each thread of a generator, doubled up to the limit of open files.

    The first is measured twice, as the slots of a lock depend on this point alone. The second window is long enough
    for 100 answers. It counts unless its rate is 5 % lower, as after a pause of the machine.
    """
    files = min(generator.nofile for generator in trial.cell.generators) - EXTRA_FILES
    connections = len(trial.cell.generators) * trial.cell.load.threads
    yield connections
    while connections <= min(MOST_CONNECTIONS, files * len(trial.cell.generators)):
        yield connections
        connections *= 2


def _cell_at(cell: PlannedCell, connections: int, window_s: float) -> PlannedCell:
    """Return a cell with this many connections and no target rate, in a window that its tool can measure."""
    limits = get_tool(cell.load.tool).limits
    step_s, window_s = limits.duration_step_s or POINT_S, max(window_s, limits.least_s)
    window = {"duration_s": round(math.ceil(window_s / step_s) * step_s, 3), "request_count": None, "warmup_s": 0.0}
    free = {"rate": None, "share_of_slowest": None, "held_share": None, "held_rate": None, "shape": None}
    return with_load(cell, cell.load.model_copy(update={**window, **free, "connections": connections}))


def _run(block: Block, cell: PlannedCell, name: str) -> list[GeneratorRun]:
    """Run the load of a point; `name` is that of its files.

    Its window begins when all connections are open, if its tool can wait for that.
    """
    window_s = cell.load.duration_s or POINT_S
    generators = tuple(each.as_slice(window_s, cell.pauses.lead_s) for each in cell.generators)
    slices = [PlannedSlice(name, name, generators)]
    place_inputs(block.hosts, slices, block.folder)
    block.began_s = start_of_load(block.load_hosts, slices)
    (runs,) = run_slices(block.hosts, slices, block.folder, block.began_s)
    return runs


def _result(block: Block, cell: PlannedCell, runs: Sequence[GeneratorRun]) -> ParsedOutput:
    """Return what the load tool measured. Raises HostError where it failed, ParseError for an unreadable output."""
    fetched = fetch_outputs(block.hosts, runs)
    for run, output in zip(runs, fetched, strict=True):
        if (failure := failure_of(run, output)) is not None:
            raise HostError(failure, where=run.generator.host)
    tool = get_tool(cell.load.tool)
    parsed = [
        read_generator(
            tool,
            run.generator.load,
            ToolOutput(decode(output.get("stdout", b"")), decode(output.get("stderr", b"")), output.get("reduction")),
        )
        for run, output in zip(runs, fetched, strict=True)
    ]
    return merge_generator_outputs(parsed, [run.started_s for run in runs])


def _point(
    trial: Trial, cell: PlannedCell, measured: ParsedOutput, runs: Sequence[GeneratorRun], used: Mapping[str, float]
) -> LoadCurveRow:
    """Return a point of the curve; `used` is the CPU time of each service from before the load until after it."""
    result, histograms = measured.result, measured.measurement.histograms if measured.measurement else {}
    window_s, requests = result.duration_s or cell.load.duration_s or POINT_S, result.requests or 0
    errors = sum(count or 0 for count in result.errors.model_dump().values())
    refused = (result.non_2xx or 0) / requests if requests else 0.0
    services = [each.service for each in trial.running_services if each.service.name in used]
    is_watched = bool(services) and not trial.cell.spec.external and len(services) == len(trial.running_services)
    quotas = [each.process.quota.cpus if each.process.quota else None for each in services]
    mean_s = result.latency.mean_s if result.latency.corrected is False else None
    links = [host.spec.link_bps for host in trial.used_hosts if host.spec.link_bps is not None]
    return LoadCurveRow(
        trial_id=trial.trial_id,
        connections=cell.load.connections,
        duration_s=window_s,
        rps=(result.rps or 0.0) * (1 - refused),
        refused=refused,
        failed=errors / (requests + errors) if requests + errors else 1.0,
        in_flight=None if mean_s is None else (result.rps or 0.0) * mean_s,
        latency_p50_s=result.latency.percentiles.get("50"),
        latency_p99_s=result.latency.percentiles.get("99"),
        latency_stdev_s=histograms["raw"].stdev_s if "raw" in histograms else None,
        server_cores=sum(used.values()) / window_s if is_watched else None,
        server_cpu=max(
            used[service.name] / window_s / capacity(len(service.process.cpus), service.parallelism, quota)
            for service, quota in zip(services, quotas, strict=True)
        )
        if is_watched
        else None,
        generator_cpu=max((_generator_cpu(run) for run in runs), default=None),
        link=BITS * (result.bytes_per_s or 0.0) / min(links) if links else None,
    )


def _accept_queue(trial: Trial) -> int | None:
    """Return the length of the shortest accept queue at the server's port; None where its host shows no such socket."""
    entry = trial.cell.entry
    if entry is None or entry.port is None or trial.cell.spec.external:
        return None
    done = trial.hosts[entry.host].processes.run(["ss", "-Hltn", f"sport = :{entry.port}"])
    return min((int(line.split()[2]) for line in done.stdout.decode().splitlines()), default=None)


def _generator_cpu(run: GeneratorRun) -> float:
    """Return the share of its available CPU time that a generator used, from its start to its end."""
    if run.ended is None:
        return 0.0
    threads = get_tool(run.generator.tool).threads(run.generator.load)
    used_s = run.ended.user_s + run.ended.system_s
    return used_s / (run.ended_s - run.started_s) / capacity(len(run.generator.cpus), threads, None)
