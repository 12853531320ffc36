"""Connections and target rates that a run finds itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from benchkit import units
from benchkit.document import SourceMap
from benchkit.errors import InputError
from benchkit.judge.load_curve import knee_of
from benchkit.loadtools.generators.generator import plan_generators
from benchkit.loadtools.tool import Target
from benchkit.models.design import held_of
from benchkit.models.load import Load
from benchkit.models.rows import LoadCurveRow, TrialRow
from benchkit.plan.design import calibrations
from benchkit.plan.model import PlannedCell, RunPlan
from benchkit.run.found_loads import LONGEST_SLICE_S, FoundLoads
from benchkit.scenario.experiment import Cell, Experiment
from benchkit.scenario.trial_order import PlannedTrial
from tests.support.loadtools.fixtures import place
from tests.unit.judge.test_load_curve import point

LOAD = Load.model_validate(
    {"tool": "vegeta", "connections": 8, "duration_s": 10, "processes": 2, "rate": {"share_of_slowest": 0.5}}
)
TRIAL = PlannedTrial(1, 1, "stack=go")


def planned(load: Load, cell_id: str = "stack=go") -> PlannedCell:
    spec = Cell(cell_id, {}, "app", (), load, SourceMap.__new__(SourceMap))
    return PlannedCell(spec, (), load, plan_generators(load, Target("10.0.0.2:8080"), [place("a")]), "")


SLICED = cast("Experiment", SimpleNamespace(scenario=SimpleNamespace(slice_s=0.25)))


def plan(load: Load = LOAD) -> RunPlan:
    cells = (planned(load),)
    return RunPlan(cast("object", None), 1, {}, cells, (), (), (), (), frozenset())  # type: ignore[arg-type]


def full_speed(cell_id: str, rps: float | None, kind: str = "calibrate", connections: int = 8) -> TrialRow:
    return TrialRow(cell_id=cell_id, trial_id=cell_id, block=0, position=1, kind=kind, rps=rps, connections=connections)


def at_knees(points: Mapping[str, Sequence[LoadCurveRow]]) -> list[TrialRow]:
    """Return the trials of load curves, which have the load at the knee."""
    knees = {
        cell: next(each for each in of_cell if each.connections == knee_of(of_cell)) for cell, of_cell in points.items()
    }
    return [full_speed(cell, knee.rps, connections=knee.connections) for cell, knee in knees.items()]


def test_the_share_is_one_of_two_forms_and_never_both() -> None:
    assert (LOAD.rate, LOAD.share_of_slowest) == (None, 0.5)
    for rate in ({"share_of_slowest": 1.5}, {"share": 0.5}, {}):
        with pytest.raises(ValueError, match="share_of_slowest"):
            Load.model_validate({"tool": "vegeta", "connections": 8, "rate": rate})
    with pytest.raises(ValueError, match="give one of them"):
        Load.model_validate({**LOAD.model_dump(), "rate": {"share_of_slowest": 0.5}})


def test_the_rate_is_a_share_of_the_slowest_and_divided_among_generators() -> None:
    rows = [full_speed("stack=go", 8001.0), full_speed("stack=node", 4003.0), full_speed("stack=c", 100.0, "measure")]
    both = replace(plan(), cells=(planned(LOAD), planned(LOAD, "stack=node")))
    cell, (note,) = FoundLoads([*rows, full_speed("stack=broken", None)]).cell_of(TRIAL, both)
    assert cell.load.rate == 2001
    assert [each.load.rate for each in cell.generators] == [1000.5, 1000.5]
    assert [each.argv[-2] for each in cell.generators] == ["-rate=1000500/1000s"] * 2
    assert {each.reducer for each in cell.generators} == {
        ("/w/tools/reduce", "-tool", "vegeta", "-interval", "999500ns")
    }
    assert note == ("Target rate: 2,001 requests/s, 50.0 % of the 4,003 requests/s of the slowest cell, stack=node.")


@pytest.mark.parametrize(
    ("knees", "connections", "note"),
    [
        ((8, 8), (16, 16), "Each cell has 16 connections, by the load curves."),
        ((8, 16), (16, 16), "Each cell has 16 connections, by the load curves."),
        (
            (4, 16),
            (8, 32),
            "Connections by the load curves, at most twice those at each server's knee: stack=go 8, stack=node 32.",
        ),
        ((32, 64), (64, 64), "Each cell has 64 connections, by the load curves."),
        (
            (8, 128),
            (16, 128),
            "Connections by the load curves, at most twice those at each server's knee: stack=go 16, stack=node 128.",
        ),
    ],
)
def test_connections_are_at_most_twice_those_of_every_knee(
    knees: tuple[int, int], connections: tuple[int, int], note: str
) -> None:
    load = Load.model_validate({"tool": "h2load", "connections": 16, "duration_s": 1, "at_knee": True})
    cells = (planned(load, "stack=go"), planned(load, "stack=node"))
    at_knee = replace(plan(), cells=cells, design="sliced", experiment=SLICED)
    rates = FoundLoads(
        full_speed(cell.cell_id, 1000.0, connections=knee) for cell, knee in zip(cells, knees, strict=True)
    )
    found = [rates.cell_of(PlannedTrial(1, 1, cell.cell_id), at_knee) for cell in cells]
    assert tuple(cell.load.connections for cell, _ in found) == connections
    assert {text for _, texts in found for text in texts} == {note}
    slice_s = rates.slice_s(PlannedTrial(1, 1, "stack=go"), at_knee)
    assert slice_s is not None
    assert slice_s == pytest.approx(1.5 * 20 * max(connections) / 1000, abs=0.05)
    assert all(
        cell.load.duration_s == pytest.approx(max(1.0, slice_s * (2 if slice_s <= 0.5 else 1))) for cell, _ in found
    )


@pytest.mark.parametrize(("slots", "connections"), [((8, 4), (16, 8)), ((6, 4), (8, 8))])
def test_servers_with_slots_have_more_connections_than_slots(
    slots: tuple[int, int], connections: tuple[int, int]
) -> None:
    """With 8 connections a pool of 8 has less than its rate, because the load tool needs time between two requests."""
    load = Load.model_validate({"tool": "h2load", "connections": 16, "duration_s": 1, "at_knee": True})
    cells = (planned(load, "stack=go"), planned(load, "stack=node"))
    points = {
        cell.cell_id: [
            point(number, min(number / 0.0103, places / 0.01), trial_id=cell.cell_id) for number in (1, 2, 4, 8, 16, 32)
        ]
        for cell, places in zip(cells, slots, strict=True)
    }
    rates = FoundLoads(at_knees(points), [each for of_cell in points.values() for each in of_cell])
    whole = replace(plan(), cells=cells, design="sliced", experiment=SLICED)
    found = [rates.cell_of(PlannedTrial(1, 1, cell.cell_id), whole)[0] for cell in cells]
    assert tuple(cell.load.connections for cell in found) == connections


@pytest.mark.parametrize(("tool", "slice_s"), [("h2load", 0.9), ("wrk", 1.0)])
def test_a_slice_is_long_enough_for_connections_that_are_given(tool: str, slice_s: float) -> None:
    """Answers of 20 and 30 ms, whose rates grow up to 1,024 connections: half of 64 / 30 ms can be held with 64."""
    load = Load.model_validate({"tool": tool, "connections": 64, "duration_s": 1, "rate": "half"})
    at_rate = {"tool": "vegeta", "connections": 64, "duration_s": 0.25, "rate": {"share_of_slowest": 0.5}}
    held = planned(Load.model_validate(at_rate), held_of("stack=go"))
    cells = (planned(load, "stack=go"), planned(load, "stack=node"), held)
    points = {
        cell.cell_id: [
            point(2**power, 2**power / answer_s, trial_id=cell.cell_id, in_flight=0.9 * 2**power) for power in range(11)
        ]
        for cell, answer_s in zip(cells, (0.02, 0.03), strict=False)
    }
    loads = FoundLoads(at_knees(points), [each for of_cell in points.values() for each in of_cell])
    whole = replace(plan(), cells=cells, design="sliced", experiment=SLICED)
    trials = [PlannedTrial(1, 1, "stack=go"), PlannedTrial(1, 1, held.cell_id, "held")]
    (measured, (slices,)), (at_half, (_, rate)) = (loads.cell_of(trial, whole) for trial in trials)
    assert [loads.slice_s(trial, whole) for trial in trials] == [slice_s, slice_s]
    assert (measured.load.connections, measured.load.duration_s, at_half.load.duration_s) == (64, 1, slice_s)
    assert slices == f"Slices take {units.seconds(slice_s)}, because each connection needs 20 answers."
    assert (at_half.load.connections, at_half.load.rate) == (64, 1066)
    assert measured.drain_s == pytest.approx(0.02)
    assert at_half.drain_s == 0
    longer_s = measured.pauses.margin_s - replace(measured, drain_s=0.0).pauses.margin_s
    assert longer_s == pytest.approx(0.02), "the server still answers 64 requests when the load tool ends"
    assert "2,133 requests/s of the slowest cell, stack=node" in rate


def test_slices_for_too_many_connections_are_not_longer_than_two_seconds() -> None:
    load = Load.model_validate({"tool": "h2load", "connections": 1024, "duration_s": 1, "rate": "half"})
    points = [point(2**power, min(2**power, 8) / 0.01, trial_id="stack=go") for power in range(6)]
    whole = replace(plan(), cells=(planned(load),), design="sliced", experiment=SLICED)
    assert FoundLoads(at_knees({"stack=go": points}), points).slice_s(TRIAL, whole) == LONGEST_SLICE_S, "and not 38 s"


def test_points_without_answers_are_no_rates() -> None:
    load = Load.model_validate({"tool": "h2load", "connections": 1, "duration_s": 1, "rate": "half"})
    points = [
        point(1, 0.0, trial_id="stack=go"),
        *(point(2**n, min(2**n, 8) / 0.01, trial_id="stack=go") for n in range(1, 6)),
    ]
    whole = replace(plan(), cells=(planned(load),), design="sliced", experiment=SLICED)
    loads = FoundLoads(at_knees({"stack=go": points}), points)
    assert loads.cell_of(TRIAL, whole)[0].drain_s == pytest.approx(1 / 200)


def test_a_cell_at_a_rate_has_slices_as_planned() -> None:
    """A rate needs few of its connections."""
    load = LOAD.model_copy(update={"connections": 256})
    points = [point(2**power, min(2**power, 8) / 0.01, trial_id="stack=go") for power in range(6)]
    whole = replace(plan(), cells=(planned(load),), design="sliced", experiment=SLICED)
    loads = FoundLoads(at_knees({"stack=go": points}), points)
    assert loads.slice_s(TRIAL, whole) == 0.25
    assert loads.cell_of(TRIAL, whole)[0].load.duration_s == load.duration_s


def test_a_cell_that_reaches_no_limit_has_no_more_connections_than_its_curve() -> None:
    load = Load.model_validate({"tool": "h2load", "connections": 16, "duration_s": 1, "at_knee": True})
    rates = FoundLoads([full_speed("stack=go", 50_000.0, connections=1024)])
    found, _ = rates.cell_of(TRIAL, replace(plan(), cells=(planned(load, "stack=go"),), experiment=SLICED))
    assert found.load.connections == 1024


def test_a_cell_has_no_more_connections_than_its_server_serves() -> None:
    """A thread for each of at most 100 connections, as in webrick, makes the rate flat from 128 on."""
    load = Load.model_validate({"tool": "h2load", "connections": 16, "duration_s": 1, "at_knee": True})
    rows = [full_speed("stack=go", 2100.0, connections=128), full_speed("stack=node", 1000.0, connections=32)]
    points = [point(connections, 2100.0, trial_id="stack=go", in_flight=98.0) for connections in (128, 256, 512)]
    cells = (planned(load, "stack=go"), planned(load, "stack=node"))
    rates = FoundLoads(rows, points)
    found = [
        rates.cell_of(PlannedTrial(1, 1, each.cell_id), replace(plan(), cells=cells, experiment=SLICED))
        for each in cells
    ]
    assert [cell.load.connections for cell, _ in found] == [88, 64]


def test_a_rate_that_the_load_tool_does_not_hold_in_the_first_blocks_is_lowered() -> None:
    rates = FoundLoads([full_speed("stack=go", 4000.0)])
    rates.lowers_held_rates = True

    def rate_after(block: int, verdict: str, *checks: str) -> float | None:
        row = replace(full_speed("stack=go", 1.0, "held"), block=block, verdict=verdict)
        rates.add(row, checks=checks)
        return rates.cell_of(TRIAL, plan())[0].load.rate

    assert rate_after(1, "invalid", "errors") == 2000
    assert rate_after(1, "suspect", "rate-held") == 2000
    assert rate_after(1, "invalid", "rate-held") == 1200
    assert rate_after(1, "invalid", "generator-saturated") == 1200, "the other cell of the same block"
    assert rate_after(3, "invalid", "rate-held") == 1200, "it was held in block 2"
    assert rate_after(2, "invalid", "tool-limit") == 800
    assert rate_after(3, "invalid", "rate-held") == 800
    assert rates.cell_of(TRIAL, plan())[1][0].endswith("; the load tool did not hold more.")
    of_scenario = FoundLoads([full_speed("stack=go", 4000.0)])
    of_scenario.add(replace(full_speed("stack=go", 1.0, "held"), block=1, verdict="invalid"), checks=["rate-held"])
    assert of_scenario.cell_of(TRIAL, plan())[0].load.rate == 2000, "a scenario states its share"


def test_refused_answers_are_not_carried() -> None:
    limited = replace(full_speed("stack=go", 4000.0), requests=2000, non_2xx=1500)
    cell, _ = FoundLoads([limited]).cell_of(TRIAL, plan())
    assert cell.load.rate == 500


def test_no_rate_is_invented() -> None:
    with pytest.raises(InputError, match="no cell has answered at full speed"):
        FoundLoads([full_speed("stack=go", None)]).cell_of(TRIAL, plan())


def test_only_supported_cells_with_a_share_are_calibrated() -> None:
    cells = [
        planned(LOAD),
        planned(LOAD, "stack=go~control"),
        replace(planned(LOAD, "stack=c"), unsupported="no"),
        planned(LOAD.model_copy(update={"share_of_slowest": None}), "stack=d"),
    ]
    assert calibrations(cells) == (PlannedTrial(0, 1, "stack=go", "calibrate"),)


def with_shares(*shares: float, tool: str = "vegeta") -> RunPlan:
    fields = {"tool": tool, "connections": 8, "duration_s": 10, "capacity": {"slo": {"p99_s": 0.01}}}
    loads = [Load.model_validate({**fields, "rate": {"share_of_capacity": share}}) for share in shares]
    cells = tuple(planned(load, f"share={load.share_of_capacity}") for load in loads)
    return replace(plan(), cells=cells)


def searched(cell_id: str, rps: float, high: float | None) -> TrialRow:
    return replace(full_speed(cell_id, rps), capacity_rps=rps, capacity_low=0.96 * rps, capacity_high=high)


def test_cells_that_differ_in_their_share_alone_have_one_search() -> None:
    shares = with_shares(0.1, 0.5, 1.2)
    control = replace(shares.cells[1], spec=replace(shares.cells[1].spec, cell_id="share=0.5~control"))
    other = with_shares(0.5, tool="h2load").cells[0]
    other = replace(other, spec=replace(other.spec, cell_id="tool=h2load,share=0.5"))
    several = replace(shares, cells=(*shares.cells, control, other))
    assert calibrations(several.cells) == (
        PlannedTrial(0, 1, "share=0.1", "calibrate"),
        PlannedTrial(0, 2, "tool=h2load,share=0.5", "calibrate"),
    )
    rates = FoundLoads([searched("share=0.1", 1001.0, 1050.0)])
    found = {
        cell_id: rates.cell_of(PlannedTrial(1, 1, cell_id), several)
        for cell_id in ("share=0.1", "share=0.5", "share=1.2", "share=0.5~control")
    }
    assert [cell.load.rate for cell, _ in found.values()] == [100.0, 500.0, 1201.0, 500.0]
    assert {note for _, notes in found.values() for note in notes} == {
        "Capacity of share=0.1: 1,001 requests/s [961, 1,050]; target rates are shares of it."
    }
    assert not any(cell.load.searches_capacity for cell, _ in found.values())
    with pytest.raises(InputError, match="the capacity is unknown"):
        rates.cell_of(PlannedTrial(1, 1, "tool=h2load,share=0.5"), several)
    _, (note,) = FoundLoads([searched("share=0.1", 1001.0, None)]).cell_of(PlannedTrial(1, 1, "share=0.5"), several)
    assert note.startswith("Capacity of share=0.1: at least 1,001 requests/s [961, unknown]")
