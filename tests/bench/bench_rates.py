"""Figures at rates on the lab: capacities against a queueing model, precision at a held rate.

Each takes some minutes, and can be measured by itself:

    make bench ARGS="-k capacity_is_that_of_the_model"
    make bench ARGS="-k cost_at_a_held_rate"
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from scipy.optimize import brentq

from benchkit.comparison.compare import compare
from benchkit.comparison.ratios import Ratio
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab
from benchkit.store.store import Store
from tests.bench.real_runs import run_once, table
from tests.support.builders import experiment, stack, stacks

SEARCHES = 20
MOST_APART = 0.05
AS_MODELLED = 18
"""Searches of 20 that must find a capacity near the model's."""
LIMIT_S, QUANTILE = 0.010, 0.9
"""Objective: a limit of the p90 latency. The p99 of a second is the lab's, whose cores stall for tens of ms."""
BUDGET_S = 30
"""Time of a search, s: its interval is as narrow as asked for, or it is over."""
QUEUE = "queue:1ms"
"""Queue that each request passes without using the CPU: its service time is known, and depends on no core's speed."""

PAIRS = 20
HALF = 0.5
"""Largest half-width of the ratio of CPU time per request, as a share of the half-width for rates at full speed."""


@pytest.fixture(scope="module")
def hosts(lab: Lab) -> Iterator[Hosts]:
    """Connections to the lab."""
    with connect_all(lab.inventory()) as connected:
        yield connected


def utilisation(ceiling_rps: float, limit_s: float, quantile: float) -> float:
    """Return the highest utilisation at which that share of the requests of an M/D/1 queue take at most the limit.

    Service takes one over the ceiling, s. The tail of the wait W is exponential, with r the utilisation: P(W > t) ≈ a
    exp(-q t). There q is the positive root of r (exp(q s) - 1) = q s, and a = (1 - r) / (r exp(q s) - 1). (Cramér and
    Lundberg; Asmussen, Applied Probability and Queues, 2003, XIII.5.) It is close for all but waits shorter than s.
    """
    room = limit_s * ceiling_rps - 1  # in service times

    def excess(r: float) -> float:
        decay = brentq(lambda q: r * math.expm1(q) - q, 1e-9, 50)
        tail = (1 - r) / (r * math.exp(decay) - 1)
        return tail * math.exp(-decay * room) - (1 - quantile)

    return float(brentq(excess, 0.05, 0.999))


@dataclass(frozen=True)
class Search:
    """Result of a search, in requests/s."""

    found: float
    precision: float
    """Largest relative distance to an end of its interval."""
    ceiling: float
    probes: int


def _searches(store: Path, hosts: Hosts) -> list[Search]:
    """Return the searches of a run, under random arrivals."""
    goal = {"slo": {"p90_s": LIMIT_S, "error_share": 0.001}, "precision": MOST_APART, "budget_s": BUDGET_S}
    load = {"tool": "openloop", "connections": 64, "duration_s": 1, "capacity": goal, "arrivals": "poisson"}
    stacks = {"queue": stack(inject_fault=[QUEUE])}
    run_id = run_once(store, experiment(load=load, telemetry="off", blocks=SEARCHES, stacks=stacks), hosts)
    return [
        Search(capacity.rps, capacity.precision, capacity.ceiling_rps, len(capacity.probes))
        for record in Store(store).run(run_id).records()
        if record.kind == "measure" and (capacity := record.capacity) is not None
    ]


def test_the_capacity_is_that_of_the_model(hosts: Hosts, tmp_path: Path) -> None:
    """Search for the capacity of an M/D/1 queue, whose service time is one over the closed-loop ceiling."""
    rows, within = [], 0
    began_s = time.monotonic()
    searches = _searches(tmp_path, hosts)
    took_s = (time.monotonic() - began_s) / SEARCHES
    for search in searches:
        modelled = search.ceiling * utilisation(search.ceiling, LIMIT_S, QUANTILE)
        apart = search.found / modelled - 1
        within += abs(apart) <= MOST_APART
        rates = (f"{rate:,.0f}" for rate in (search.ceiling, modelled, search.found))
        rows.append([*rates, f"{apart:+.1%}", f"{search.precision:.1%}", str(search.probes)])
    print("\n" + table(["closed-loop ceiling", "modelled capacity", "found", "apart", "half-width", "probes"], rows))
    print(f"{within} of {len(rows)} within {MOST_APART:.0%} of the model; {took_s:.0f} s a search")
    assert len(searches) == SEARCHES
    assert within >= AS_MODELLED


def _half_width(ratio: Ratio) -> float:
    assert ratio.low is not None, ratio.reason
    assert ratio.high is not None
    return math.log(ratio.high / ratio.low) / 2


def test_the_cost_at_a_held_rate_is_more_precise_than_the_rate_at_full_speed(hosts: Hosts, tmp_path: Path) -> None:
    """Run both loads in the same blocks, for the same time."""
    scenario = experiment(
        stacks=stacks(go={"listen": 8080, "work": "loop:50000"}, more={"listen": 8080, "work": "loop:60000"}),
        factors={"tool": ["wrk", "openloop"], "stack": ["go", "more"]},
        baseline={"stack": "go"},
        load={"tool": "$tool", "connections": 16, "duration_s": 3, "warmup_s": 1},
        tools={"openloop": {"rate": {"share_of_slowest": 0.5}}},
        blocks=15,
    )
    run_id = run_once(tmp_path, scenario, hosts)
    widths = {}
    for tool, metric in (("wrk", "rps"), ("openloop", "server_cpu_s_per_request")):
        ratios = compare(run_id, metrics=[metric], store=tmp_path).ratios
        (ratio,) = (each for each in ratios if f"tool={tool}" in each.cell_id)
        widths[metric] = _half_width(ratio)
        print(
            f"{tool}: {metric} {ratio.ratio:.3f} [{ratio.low:.3f}, {ratio.high:.3f}], {len(ratio.exclusions)} excluded"
        )
    share = widths["server_cpu_s_per_request"] / widths["rps"]
    print(f"half-width at the held rate: {share:.2f} of that at full speed")
    assert share <= HALF
