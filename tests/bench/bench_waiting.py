"""Servers that wait, whose truth is arithmetic: their limits, capacities and ratios, and latencies at a held rate.

`test_a_server` compares what benchkit says of each server with the arithmetic, and its latencies with a simulation.
`test_known_ratio` counts how often intervals cover a ratio, `test_equal_servers` how often they show a difference where
there is none. `BENCHKIT_WAITING_RUNS` and `BENCHKIT_WAITING_EQUAL` are the numbers of their runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.bench.real_runs import table
from tests.support.waiting_servers.servers import PHP_MS, behind_nginx, gunicorn, kit, php
from tests.support.waiting_servers.simulation import Answers, Route, Station, open_loop

RUNS = int(os.environ.get("BENCHKIT_WAITING_RUNS", "30"))
EQUAL_RUNS = int(os.environ.get("BENCHKIT_WAITING_EQUAL", "20"))
WITHIN = 0.05
"""Relative error of a figure, at most."""
LEAST_COVERED = 0.93
LARGEST_SHOWN = 0.05
"""Share of the ratios of equal servers, of rates and of latencies, that may show a difference."""
RUN_S = 30
ANY_NUMBER = 4096
"""Slots of a server that serves any number at a time."""
SIMULATED = 50_000
"""Requests of a simulation."""
HALF = (
    ("pool 8 5", "pool 8 10"),
    ("pool 8 10", "pool 4 10"),
    ("pool-cpu 8 10 20000", "pool-cpu 4 10 20000"),
    ("workers 10 20", "workers 10 40"),
    ("delay 200", "delay 100"),
    ("database 4 20", "database 2 20"),
    ("gunicorn 4", "gunicorn 2"),
    ("php 9", "php 4"),  # its first process serves, too
    ("nginx pool 4 20", "nginx pool 2 20"),
)
"""Pairs of servers of which the second serves half as many requests, in turn."""
EQUAL = ("pool 8 5", "lock 7", "pool-cpu 8 5 20000", "sleep 20", "database 4 20", "gunicorn 4", "php 4")
"""Servers that are compared with themselves, in turn."""


def slots(number: int, service_ms: float) -> Callable[[], Route]:
    """Return the simulation of a server that serves this number at a time."""

    def route() -> Route:
        station = Station(number)
        return lambda _: [(station, service_ms / 1e3)]

    return route


def workers(*service_ms: float) -> Route:
    """Return the simulation of workers that requests visit in turn."""
    stations = [(Station(1), each / 1e3) for each in service_ms]
    return lambda number: [stations[number % len(stations)]]


def tail(service_ms: float) -> Route:
    """Return the simulation of a server whose hundredth answers are slow; the others take no time to speak of."""
    station = Station(ANY_NUMBER)
    return lambda number: [(station, 0 if number % 100 else service_ms / 1e3)]


@dataclass(frozen=True)
class Truth:
    """What is true of a server: the kinds of its limit, how many requests it serves at a time, and what it carries."""

    limits: Sequence[str] = ("slots",)
    slots: float | None = None
    capacity: float | None = None
    """Requests per second that keep a p99 of `objective_ms`."""
    objective_ms: float = 100
    route: Callable[[], Route] | None = None
    percentiles: Sequence[str] = ("p50_s", "p99_s")
    """Latencies at the held rate that the simulation knows."""
    duration_s: float = 60
    """Time for the latencies: a p99 needs 1,000 requests."""


BUSY = ("cpu", "load tool")
"""Limits of servers that wait for nothing; the load tool may be the slower one on few cores."""
TRUTHS = {
    "cpu 200000": Truth(("cpu",)),
    "sleep 100": Truth(("not reached", *BUSY), route=slots(ANY_NUMBER, 100)),
    "pool 8 10": Truth(slots=8, capacity=800, route=slots(8, 10)),
    "lock 7": Truth(slots=1, capacity=1000 / 7, route=slots(1, 7), duration_s=120),
    "pool-cpu 8 10 20000": Truth(slots=8, capacity=800, route=slots(8, 10)),
    "workers 10 40": Truth(
        capacity=50, objective_ms=200, route=lambda: workers(10, 40), percentiles=("p99_s",), duration_s=200
    ),
    "tail 100": Truth(BUSY, route=lambda: tail(100), percentiles=("p999_s",)),
    "refuse 200": Truth(("rate",), capacity=200),
    "delay 200": Truth(("rate",), capacity=200),
    "database 4 20": Truth(slots=4, capacity=200, route=slots(4, 20)),
    "gunicorn 2": Truth(slots=2, capacity=100, objective_ms=200, route=slots(2, 20), duration_s=120),
    "gunicorn 4": Truth(slots=4, capacity=200, objective_ms=200, route=slots(4, 20)),
    # PHP's own server serves in its first process, too.
    "php 4": Truth(slots=5, capacity=250, objective_ms=200, route=slots(5, PHP_MS)),
    "nginx pool 4 20": Truth(slots=4, capacity=200, objective_ms=200, route=slots(4, 20)),
}


@pytest.fixture
def command(request: pytest.FixtureRequest, waiting_server: Path) -> Callable[[str], str]:
    """Return the command line of a server by its name."""

    def command_of(name: str) -> str:
        kind, _, numbers = name.partition(" ")
        match kind:
            case "gunicorn":
                return gunicorn(int(numbers), "wait(20)")
            case "php":
                return php(int(numbers))
            case "nginx":
                return behind_nginx(waiting_server, numbers)
            case "database":
                return kit(waiting_server, f"{name} {request.getfixturevalue('postgres')}")
        return kit(waiting_server, name)

    return command_of


def benchkit(store: Path, *arguments: object) -> dict[str, Any]:
    """Return the document of a command."""
    program = Path(sys.executable).with_name("benchkit")
    done = subprocess.run(
        [program, *map(str, arguments), "--json", "--quiet", "--store", store],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


class Checked:
    """Figures of a server beside what they should be, and those that are not."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []
        self.missed: list[tuple[str, str, str]] = []

    def add(self, figure: str, measured: object, wanted: object, *, is_right: bool) -> None:
        """Add a figure."""
        row = (figure, str(measured), str(wanted))
        self.rows.append(row)
        if not is_right:
            self.missed.append(row)

    def add_number(self, figure: str, measured: float | None, true: float) -> None:
        """Add a figure that must be within 5 % of the truth."""
        is_right = measured is not None and abs(measured / true - 1) <= WITHIN
        self.add(figure, "none" if measured is None else f"{measured:.4g}", f"{true:.4g}", is_right=is_right)


def simulated(route: Route, rate: float) -> Answers:
    """Simulate requests an interval apart, as the load tool holds a rate."""
    return open_loop(route, np.arange(SIMULATED) / rate)


@pytest.mark.parametrize("name", TRUTHS)
def test_a_server(name: str, command: Callable[[str], str], tmp_path: Path) -> None:
    truth, checked = TRUTHS[name], Checked()
    document = benchkit(tmp_path, "versus", command(name), "--duration", truth.duration_s)
    (curve,) = document["load_curves"]
    limit = curve["limit"]
    checked.add("limit", limit["sentence"], " or ".join(truth.limits), is_right=limit["kind"] in truth.limits)
    if truth.slots is not None:
        checked.add_number("slots", limit["slots"], truth.slots)
    if truth.route is not None:
        (server,) = document["held"]["servers"]
        answers = simulated(truth.route(), document["held"]["rate"])
        for field in truth.percentiles:
            percent = {"p50_s": 50, "p99_s": 99, "p999_s": 99.9}[field]
            checked.add_number(field, server[field], answers.percentile_s(percent))
    if truth.capacity is not None:
        document = benchkit(tmp_path, "capacity", command(name), "--p99", f"{truth.objective_ms}ms")
        (capacity,) = document["capacities"]
        checked.add_number("capacity", capacity["rps"], truth.capacity)
    print("\n" + table((name, "measured", "true"), checked.rows))
    assert not checked.missed


def ratio_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the ratio of the rates of two servers."""
    ratio: dict[str, Any] = document["servers"][1]["ratio"]
    return ratio


def test_known_ratio(command: Callable[[str], str], tmp_path: Path) -> None:
    rows, covered = [], 0
    for number in range(RUNS):
        pair = HALF[number % len(HALF)]
        document = benchkit(tmp_path, "versus", *map(command, pair), "--names", "a,b", "--duration", RUN_S)
        ratio = ratio_of(document)
        is_covered = ratio["low"] is not None and ratio["low"] <= 0.5 <= ratio["high"]
        covered += is_covered
        figures = [f"{ratio[each]:.4f}" if ratio[each] is not None else "" for each in ("ratio", "low", "high")]
        rows.append((*pair, *figures, str(is_covered)))
        print(" | ".join(rows[-1]), flush=True)
    print("\n" + table(("a", "b", "ratio", "low", "high", "covers 0.5"), rows))
    assert covered >= LEAST_COVERED * RUNS


def test_equal_servers(command: Callable[[str], str], tmp_path: Path) -> None:
    compared, shown = 0, 0
    for number in range(EQUAL_RUNS):
        name = EQUAL[number % len(EQUAL)]
        same = command(name)
        document = benchkit(tmp_path, "versus", same, f"{same} ", "--names", "one,other", "--duration", RUN_S)
        ratios = [ratio_of(document), *document["held"]["ratios"]]
        compared += sum(ratio["low"] is not None for ratio in ratios)
        shown += sum(ratio["outcome"] in {"higher", "lower"} for ratio in ratios)
        print(
            f"{name}: " + ", ".join(f"{each['metric']} {each['ratio']} {each['outcome']}" for each in ratios),
            flush=True,
        )
    print(f"\nequal servers: {shown} of {compared} ratios shown to differ")
    assert compared >= EQUAL_RUNS
    assert shown <= LARGEST_SHOWN * compared
