"""The counts of a trial's slices: what its hosts counted in each, out of the telemetry of the block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchkit.hosts.host import Host
from benchkit.models.telemetry import AGENT_SERVICE, generator_service
from benchkit.run.steps.slice_telemetry import BlockTelemetry, Reals
from benchkit.run.steps.state import Block, Trial
from benchkit.services.deploy import RunningService
from benchkit.store.telemetry_table import SeriesKey

CPU_S = "cpu_s_total"
BUSY = ("cpu_user_s_total", "cpu_system_s_total", "cpu_irq_s_total", "cpu_softirq_s_total")
STOLEN = ("cpu_steal_s_total",)

Windows = Sequence[tuple[int, int]]


def add_slice_counts(block: Block, trial: Trial, hosts: Sequence[Host], blocks: Mapping[str, BlockTelemetry]) -> None:
    """Add what the hosts counted to the slices of a trial, and the CPU time of its services and generators.

    The CPU time of an external server without `watch` is unknown, and with it the CPU time of other programs.
    """
    windows = {host.name: block.windows_ns(trial, host) for host in hosts}

    def cpu_s(host: str, service: str) -> Reals | None:
        return blocks[host].growth((service, CPU_S, None), windows[host])

    def cpu_s_of(of_trial: Trial, running: RunningService) -> Reals | None:
        return cpu_s(running.service.host, block.telemetry_name(of_trial, running.service.name))

    own = {each.service.name: cpu_s_of(trial, each) for each in trial.running_services}
    others = [cpu_s_of(other, each) for other in block.trials if other is not trial for each in other.running_services]
    of_generators = [cpu_s(each.host, generator_service(each.number)) for each in trial.generators]
    of_agents = [cpu_s(host.name, AGENT_SERVICE) for host in hosts]
    trial.cpu_s |= {name: float(grown.sum()) for name, grown in own.items() if grown is not None}
    trial.generators = tuple(
        each if grown is None else each.model_copy(update={"cpu_s": float(grown.sum())})
        for each, grown in zip(trial.generators, of_generators, strict=True)
    )
    count = len(trial.slices)
    unknown = [None] * count
    unwatched = {each.trial_id for each in block.trials if any(not server.watch for server in each.cell.spec.external)}
    run_by_benchkit = _known([*own.values(), *others, *of_generators, *of_agents])
    columns: dict[str, Sequence[Any]] = {
        "server_cpu_s": unknown if trial.trial_id in unwatched else _sums([*own.values()], count),
        "neighbour_cpu_s": unknown if unwatched - {trial.trial_id} else _sums(_known(others), count),
        "generator_cpu_s": _sums(of_generators, count),
        "foreign_cpu_s": unknown if unwatched else _foreign(trial, hosts, blocks, windows, run_by_benchkit),
        "stolen_s": _on_cpus(trial, hosts, blocks, windows, STOLEN),
        "server_loop_s": _loops(trial, blocks, windows) if trial.running_services else unknown,
        "accept_queue": _accept_queues(block, trial, blocks),
        "time_wait": _time_wait(trial, blocks, windows) if trial.running_services else unknown,
    }
    trial.slices = tuple(
        replace(each, **{name: column[place] for name, column in columns.items()})
        for place, each in enumerate(trial.slices)
    )


def _sums(parts: Sequence[Reals | None], count: int) -> list[float | None]:
    """Return the sum of parts in each slice; None where a part is unknown."""
    known = _known(parts)
    if len(known) < len(parts):
        return [None] * count
    return [float(value) for value in np.sum(known, axis=0)] if known else [0.0] * count


def _known(parts: Iterable[Reals | None]) -> list[Reals]:
    return [part for part in parts if part is not None]


def _foreign(
    trial: Trial,
    hosts: Sequence[Host],
    blocks: Mapping[str, BlockTelemetry],
    windows: Mapping[str, Windows],
    known: Sequence[Reals],
) -> list[float | None]:
    """Return the CPU time in each slice on the trial's CPUs that no process of the run took; negative by rounding.

    Most kernels charge interrupts to the running process; with other kernels this figure includes them.
    """
    busy = _on_cpus(trial, hosts, blocks, windows, BUSY)
    taken = np.sum(known, axis=0) if known else np.zeros(len(busy))
    return [None if total is None else float(total - own) for total, own in zip(busy, taken, strict=True)]


def _on_cpus(
    trial: Trial,
    hosts: Sequence[Host],
    blocks: Mapping[str, BlockTelemetry],
    windows: Mapping[str, Windows],
    metrics: Sequence[str],
) -> list[float | None]:
    """Return the growth of host counters on the CPUs of the trial's processes; hosts of one machine share its CPUs."""
    cpus: dict[str, set[int]] = {}
    for name, of_process in (
        *((each.service.host, each.service.process.cpus) for each in trial.running_services),
        *((each.host, each.cpus) for each in trial.generators),
    ):
        cpus.setdefault(str(trial.hosts[name].facts.boot_id or name), set()).update(of_process)
    by_machine: dict[str, Host] = {}
    for host in hosts:
        by_machine.setdefault(str(host.facts.boot_id or host.name), host)
    parts = [
        blocks[by_machine[machine].name].growth((None, metric, str(cpu)), windows[by_machine[machine].name])
        for machine, used in cpus.items()
        for cpu in sorted(used)
        for metric in metrics
    ]
    return _sums(parts, len(trial.slices))


def _loops(trial: Trial, blocks: Mapping[str, BlockTelemetry], windows: Mapping[str, Windows]) -> list[float | None]:
    """Return the mean of the loop on the CPUs of the servers in each slice; None where none ran in it."""
    host = trial.running_services[0].service.host
    cpus = {cpu for each in trial.running_services if each.service.host == host for cpu in each.service.process.cpus}
    keys: list[SeriesKey] = [(None, "cpu_loop_s", str(cpu)) for cpu in sorted(cpus)]
    return blocks[host].mean_in(keys, windows[host])


def _accept_queues(block: Block, trial: Trial, blocks: Mapping[str, BlockTelemetry]) -> list[int | None]:
    places = [place for place, turn in enumerate(block.turns) if turn.cell_id == trial.cell.cell_id]
    totals: list[int | None] = [None] * len(places)
    for each in trial.running_services:
        host, name = block.hosts[each.service.host], block.telemetry_name(trial, each.service.name)
        keys = [key for key in blocks[host.name].series if key[:2] == (name, "accept_queue")]
        for index, place in enumerate(places):
            if place + 1 < len(block.turns):
                window = block.window_ns(block.turns[place + 1], host)
                for key in keys:
                    (waiting,) = blocks[host.name].first_in(key, [window])
                    if waiting is not None:
                        totals[index] = (totals[index] or 0) + int(waiting)
    return totals


def _time_wait(trial: Trial, blocks: Mapping[str, BlockTelemetry], windows: Mapping[str, Windows]) -> list[int | None]:
    names = list(dict.fromkeys(each.service.host for each in trial.running_services))
    columns = [blocks[name].first_in((None, "tcp_sockets", "time_wait"), windows[name]) for name in names]
    return [
        None if any(value is None for value in values) else int(sum(value for value in values if value is not None))
        for values in zip(*columns, strict=True)
    ]
