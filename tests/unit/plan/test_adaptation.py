"""The load of a comparison, adapted to what a block of its servers shows. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchkit.models.load_result import LoadResult
from benchkit.models.request import Request
from benchkit.models.thresholds import Thresholds
from benchkit.plan.adaptation import ObservedBlock, adapt
from benchkit.scenario.versus import ServerComparison
from tests.support.judge.builders import build_slices, build_trial

COMPARISON = ServerComparison((Request(),), "h2load", 64, budget_s=60, precision=0.03)


def observed(
    *checks: str,
    busy: float = 0.1,
    server: float = 0.9,
    queue: int | None = 511,
    is_closing: bool = False,
    taken: float = 0.0,
    rate: float = 50_000,
) -> ObservedBlock:
    """Return a block whose load tool and server use these shares of their CPU, at this rate.

    Idle servers take theirs from the second cell.
    """
    record = build_trial().record
    generators = tuple(
        each.model_copy(
            update={
                "cpu_s": busy * each.wall_s,
                "cpus": (1,),
                "threads": 1,
                "result": LoadResult(tool="h2load", rps=rate),
            }
        )
        for each in record.generators
    )
    services = tuple(
        each.model_copy(update={"cpu_s": server * record.window_s, "cpus": (0,)}) for each in record.services
    )
    record = record.model_copy(update={"generators": generators, "services": services})
    slices = [build_slices(neighbour_cpu_s=0.25 * share) for share in (0.0, taken)]
    records = tuple(record.model_copy(update={"slices": each}) for each in slices)
    return ObservedBlock(records, frozenset(checks), Thresholds(), queue, is_closing=is_closing)


@pytest.mark.parametrize(
    ("seen", "changes"),
    [
        (observed(), None),
        (observed("noisy-host", "server-idle"), None),
        (observed("accept-overflow", queue=5), {"connections": 5}),
        (observed("missing-connections", queue=5), {"connections": 5}),
        (observed(queue=5), None),
        (observed("missing-connections"), {"tool": "hey", "keepalive": False}),
        (observed(is_closing=True), {"tool": "wrk"}),
        (observed(taken=0.03), {"is_sliced": False}),
        (observed(taken=0.009), None),
        (observed(busy=0.91), {"quota": 0.5}),
        (observed("missing-connections", queue=None), None),
        (observed(server=0.25), {"connections": 256}),
        (observed(server=0.001), {"connections": 511}),
        (observed(server=0.2, queue=100), {"connections": 100}),
        (observed(server=0.2, queue=64), {"tool": "hey", "keepalive": False}),
        (observed(server=0.5), None),
        (observed(rate=1_000), None),
        (observed(rate=900), {"connections": 16}),
        (observed(rate=280), {"connections": 8}),
        (observed(rate=20), {"connections": 8}),
        (observed(rate=280, server=0.25), {"connections": 256}),
        (observed(server=0.1, busy=0.95), {"quota": 0.5}),
        (replace(observed(server=0.25), foreign_share=0.5), None),
        (replace(observed(server=0.05), foreign_share=0.9), {"connections": 128}),
        (replace(observed(server=0.05, queue=64), foreign_share=0.9), {"tool": "hey", "keepalive": False}),
    ],
)
def test_a_comparison_is_adapted_to_its_servers(seen: ObservedBlock, changes: dict[str, object] | None) -> None:
    adaptation = adapt(COMPARISON, seen)
    assert (adaptation and adaptation.comparison) == (changes and replace(COMPARISON, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "seen",
    [
        observed("missing-connections", queue=5),
        observed(is_closing=True),
        observed(busy=0.95),
        observed(server=0.1),
        observed(rate=280),
    ],
)
def test_what_was_given_is_not_adapted(seen: ObservedBlock) -> None:
    assert adapt(replace(COMPARISON, fixed=frozenset({"tool", "connections", "quota"})), seen) is None


@pytest.mark.parametrize(
    "seen", [observed(rate=175, server=0.25), replace(observed(rate=160, server=0.5), rate_before=360.0)]
)
def test_a_slow_server_that_needs_more_kept_connections_gets_new_ones(seen: ObservedBlock) -> None:
    few = replace(COMPARISON, connections=8)
    adaptation = adapt(few, seen)
    assert adaptation is not None
    assert adaptation.comparison == replace(few, tool="hey", keepalive=False)
    given = adapt(replace(few, fixed=frozenset({"tool"})), observed(rate=175, server=0.25))
    assert given is not None
    assert given.comparison == replace(few, connections=32, fixed=frozenset({"tool", "connections"}))
    assert adapt(given.comparison, observed(rate=300)) is None


def test_adapting_ends() -> None:
    worst = observed("missing-connections", "server-idle", busy=1.0, server=0.1, queue=5, is_closing=True, taken=0.03)
    comparison, count = COMPARISON, 0
    while (adaptation := adapt(comparison, worst, reserve=0.034)) is not None:
        comparison, count = adaptation.comparison, count + 1
    assert count == 6
    assert (comparison.tool, comparison.connections, comparison.quota) == ("hey", 5, 0.25)
