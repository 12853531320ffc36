"""The search for the capacity of a cell, with probes that a simulated server answers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from benchkit.models.capacity import CapacityEstimate, CapacityGoal, Objective
from benchkit.models.load import Load
from benchkit.models.rows import TrialRow, VerdictRow
from benchkit.models.thresholds import Thresholds
from benchkit.plan.model import PlannedCell
from benchkit.run.found_loads import BACK_OFF, find_capacity
from benchkit.store.parquet_files import arrow_schema
from benchkit.store.trial_tables import TrialTables
from tests.unit.judge.test_load_curve import point
from tests.unit.run.test_found_loads import planned

CEILING = 4000.0
GOAL = CapacityGoal(slo=Objective(p99_s=0.01), precision=0.05, budget_s=100)
LOAD = Load(tool="vegeta", connections=8, duration_s=1, capacity=GOAL)


class Server:
    """A server that keeps the objective up to its capacity, under a load tool that sends in time up to its own."""

    def __init__(
        self, capacity: float, tool: float = 1e9, disturbed: tuple[int, ...] = (), took_s: float = 1.0
    ) -> None:
        self.capacity, self.tool, self.disturbed, self.took_s = capacity, tool, disturbed, took_s
        self.rates: list[float | None] = []
        self.windows_s: list[float] = []

    def __call__(self, number: int, cell: PlannedCell) -> TrialTables:
        rate = cell.load.rate
        self.rates.append(rate)
        self.windows_s.append(cell.load.duration_s or 0.0)
        assert number == len(self.rates)
        assert sum(each.load.rate or 0 for each in cell.generators) == (rate or 0)
        achieved = min(rate or CEILING, self.capacity, self.tool) if rate else CEILING
        missed = rate is not None and achieved < rate
        row = TrialRow(
            cell_id=cell.cell_id,
            trial_id=f"r.q{number}",
            block=1,
            position=1,
            kind="probe",
            rps=achieved,
            requests=round(achieved),
            rate_requested=rate,
            rate_achieved=achieved if rate else None,
            latency_p99_s=0.5 if missed else 0.001,
            send_lag_p99_s=0.4 if missed and self.tool < self.capacity else 1e-6,
        )
        noise = VerdictRow(
            trial_id=row.trial_id,
            check="noisy-host",
            severity="invalid",
            metrics=(),
            seen="",
            threshold="",
            text="",
            scope="trial",
        )
        return TrialTables(
            trial=row,
            notes=(),
            latency=arrow_schema("latency").empty_table(),
            telemetry=arrow_schema("telemetry").empty_table(),
            verdicts=(noise,) if number in self.disturbed else (),
            load_curve=() if rate else tuple(point(connections, achieved) for connections in (8, 16, 32)),
        )

    def clock(self) -> float:
        return self.took_s * len(self.rates)


def find(server: Server, goal: CapacityGoal = GOAL, report: Callable[[str], None] = lambda _: None) -> CapacityEstimate:
    return find_capacity(planned(LOAD), goal, Thresholds(), server, report=report, clock=server.clock)


def test_the_capacity_is_found_after_a_probe_at_full_speed() -> None:
    server = Server(capacity=2500)
    found = find(server)
    assert found.rps == pytest.approx(2500, rel=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 2500 <= found.high
    assert server.rates[0] is None
    assert found.ceiling_rps == pytest.approx(CEILING)
    assert [probe.rate for probe in found.probes] == server.rates[1:]
    assert [probe.outcome for probe in found.probes] == [
        "held" if probe.rate <= 2500 else "missed" for probe in found.probes
    ]
    assert found.reason.startswith("its interval reaches ")


def test_probes_of_a_slow_server_have_enough_requests_for_the_percentile() -> None:
    server = Server(capacity=40)
    find(server)
    of_probes = zip(server.rates[1:], server.windows_s[1:], strict=True)
    assert min((rate or 0) * window_s for rate, window_s in of_probes) >= 100, "1 % of them are one request"
    assert max(server.windows_s) <= GOAL.budget_s / 5


def test_a_load_tool_that_is_the_limit_gives_a_lower_bound() -> None:
    found = find(Server(capacity=3500, tool=1500))
    assert found.high is None
    assert found.low == pytest.approx(1500, rel=0.06)
    assert found.rps == found.low == found.highest_held, "no rate is stated that was not tried"
    assert {probe.outcome for probe in found.probes} == {"held", "generator"}


def test_a_search_without_a_usable_probe_knows_no_capacity() -> None:
    found = find(Server(capacity=0.5, disturbed=tuple(range(2, 200)), took_s=10.0))
    assert (found.low, found.high, found.highest_held) == (None, None, None)
    assert found.reason == "its time of 1 min 40 s is over, and none of its 9 probes can be used"


def test_a_search_without_a_usable_probe_in_its_time_goes_on_to_a_rate_that_holds() -> None:
    found = find(Server(capacity=500, disturbed=tuple(range(2, 200)), took_s=25.0))
    assert [probe.outcome for probe in found.probes] == ["unusable"] * 4 + ["held"]
    assert (found.rps, found.low, found.high) == (found.highest_held, found.highest_held, None)


def test_every_probe_is_reported() -> None:
    lines: list[str] = []
    found = find(Server(capacity=2500), report=lines.append)
    assert lines[0] == "stack=go: carries 4,000 requests/s by its load curve, whose knee is at 8 connections"
    assert len(lines) == 1 + len(found.probes)
    assert re.fullmatch(
        r"stack=go: probe 1 at [0-9,]+ requests/s \w+, .*; the capacity is [0-9,]+ to [0-9,]+", lines[1]
    )


def test_a_probe_that_cannot_be_used_is_followed_by_one_at_a_lower_rate() -> None:
    found = find(Server(capacity=1500, disturbed=(2, 3)))
    rates = [probe.rate for probe in found.probes]
    assert [probe.outcome for probe in found.probes[:2]] == ["unusable"] * 2
    assert rates[1] == pytest.approx(BACK_OFF * rates[0], rel=0.001)
    assert found.rps == pytest.approx(1500, rel=0.03)


def test_a_search_ends_with_its_time_and_says_so() -> None:
    found = find(Server(capacity=2500, took_s=30.0))
    assert found.reason == "its time of 1 min 40 s is over"
    assert len(found.probes) == 3
    assert found.low is not None
    assert found.high is not None
    assert found.high / found.low > 1.1
