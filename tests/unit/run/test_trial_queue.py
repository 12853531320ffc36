from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchkit.comparison.adaptive import StopDecision, StopRule, stop_rule
from benchkit.models.design import StopCondition
from benchkit.models.rows import TrialRow
from benchkit.models.run import CellRecord, Manifest
from benchkit.run.events import Event, Notice
from benchkit.run.trial_queue import TrialQueue
from benchkit.scenario.trial_order import PlannedTrial, ProfilePass, calibration_trials, pass_trials, planned_trials
from benchkit.stats.cell_pairs import ComparedCells
from tests.support.run.fixtures import OpenRecorder

BLOCKS = 20
ORDER = planned_trials("blocks", ["a", "b"], BLOCKS, 1)
MANIFEST = Manifest.model_validate(
    {
        "run_id": "r1",
        "scenario": {"name": "small", "baseline": {"cell": "a"}},
        "scale": "lab",
        "seed": 1,
        "blocks": 6,
        "cells": [{"cell_id": name, "levels": {"cell": name}} for name in "ab"],
        "hosts": (),
        "versions": {},
        "started_at": "2026-03-01T10:00:00Z",
    }
)
LONG = MANIFEST.model_copy(update={"blocks": BLOCKS})
RULE = StopRule(StopCondition(precision=0.05), (("rps", ComparedCells("b", "a")),), LONG)


def row(planned_trial: PlannedTrial, spread: float) -> TrialRow:
    noise = np.random.default_rng([planned_trial.block, planned_trial.position]).standard_normal()
    rate = {"a": 100, "b": 50}[planned_trial.cell_id] * float(np.exp(spread * noise))
    return TrialRow(
        cell_id=planned_trial.cell_id,
        trial_id=f"t{planned_trial.block}.{planned_trial.position}",
        block=planned_trial.block,
        position=planned_trial.position,
        kind=planned_trial.kind,
        rps=rate,
    )


def run_queue(
    queue: TrialQueue, spread: float, *, took_s: float = 1.0, failing: frozenset[int] = frozenset()
) -> tuple[list[PlannedTrial], list[StopDecision]]:
    """Run the queue, the trials of the `failing` blocks without success; return the trials and the decisions."""
    ran, decisions = [], []
    for (planned_trial,) in queue.batches():
        ran.append(planned_trial)
        decision = queue.finish(
            planned_trial, None if planned_trial.block in failing else row(planned_trial, spread), took_s
        )
        decisions += [decision] if decision else []
    return ran, decisions


def test_without_a_rule_everything_runs_in_the_order_of_the_plan() -> None:
    queue = TrialQueue(ORDER)
    ran, decisions = run_queue(queue, 0.001)
    assert tuple(ran) == ORDER
    assert decisions == []
    assert queue.early_stop is None


def test_a_run_with_the_wanted_precision_ends_after_a_whole_block() -> None:
    queue = TrialQueue(ORDER, RULE)
    ran, decisions = run_queue(queue, 0.01)
    assert tuple(ran) == ORDER[: 2 * 7]
    assert [decision.blocks for decision in decisions] == [1, 2, 3, 4, 5, 6, 7]
    assert [decision.stop for decision in decisions] == [False] * 6 + [True]
    assert queue.early_stop == decisions[-1]


def test_load_curves_are_part_of_the_time_of_a_run() -> None:
    rule = replace(RULE, until=StopCondition(precision=0.05, budget_s=40))
    queue = TrialQueue((*calibration_trials(["a", "b"]), *ORDER), rule)
    ran, decisions = run_queue(queue, 0.5, took_s=5.0)
    assert ran[-1].block == 3, "10 s for two curves, and 10 s for each block"
    assert decisions[-1].reason == "the time budget is spent (40 s)"


def test_an_early_stop_is_recorded_and_reported_once_also_by_a_resumed_run(open_recorder: OpenRecorder) -> None:
    queue = TrialQueue(ORDER, RULE)
    shown: list[Event] = []
    run_queue(queue, 0.01)
    with open_recorder(blocks=BLOCKS) as recorder:
        recorder.show = shown.append
        recorder.record_early_stop(queue.early_stop)
        recorder.record_early_stop(queue.early_stop)
    run = recorder.run.manifest()
    assert run.blocks == 7
    (text,) = run.notes
    assert shown == [Notice(text)]
    assert text.startswith("Ended after 7 of at most 20 blocks: ")


def test_blocks_of_failed_trials_add_nothing_to_the_precision() -> None:
    queue = TrialQueue(ORDER, RULE)
    ran, _ = run_queue(queue, 0.01, failing=frozenset({2, 5}))
    assert ran[-1].block == 9
    assert queue.early_stop is not None
    assert queue.early_stop.blocks == 9


def test_a_resumed_queue_decides_as_an_uninterrupted_one() -> None:
    whole, resumed = TrialQueue(ORDER, RULE), TrialQueue(ORDER, RULE)
    ran, _ = run_queue(whole, 0.06)
    assert 14 < len(ran) < len(ORDER)
    before = ran[:9]
    for planned_trial in before:
        resumed.finish(planned_trial, row(planned_trial, 0.06), 1.0)
    after = [
        planned_trial
        for (planned_trial,) in resumed.batches()
        if planned_trial not in before and (resumed.finish(planned_trial, row(planned_trial, 0.06), 1.0) or True)
    ]
    assert before + after == ran


def test_the_profile_pass_runs_however_early_the_blocks_before_it_ended() -> None:
    profiled = pass_trials(ProfilePass(blocks=1), ["a", "b"], BLOCKS, 1)
    queue = TrialQueue((*ORDER, *profiled), RULE)
    ran, decisions = run_queue(queue, 0.01)
    assert tuple(ran) == (*ORDER[: 2 * 7], *profiled)
    assert len(decisions) == 7


@pytest.mark.parametrize("until", [None, {"precision": 0.1}])
def test_the_rule_of_a_run_has_the_ratios_to_its_baseline_and_of_its_claims(until: dict[str, float] | None) -> None:
    cells = tuple(CellRecord(cell_id=f"stack={name}", levels={"stack": name}) for name in ("go", "nginx", "node"))
    claims = [
        {"text": "x", "ratio": {"of": {"stack": "node"}, "to": {"stack": "nginx"}}, "at_least": 1},
        {"text": "at another scale", "ratio": {"of": {"stack": "zig"}, "to": {"stack": "nginx"}}, "at_least": 1},
    ]
    manifest = Manifest.model_validate(
        {
            "run_id": "r1",
            "scenario": {"name": "small", "baseline": {"stack": "go"}, "claims": claims, "until": until},
            "scale": "lab",
            "seed": 1,
            "blocks": 9,
            "cells": cells,
            "hosts": (),
            "versions": {},
            "started_at": "2026-03-01T10:00:00Z",
        }
    )
    rule = stop_rule(manifest)
    if until is None:
        assert rule is None
        return
    assert rule is not None
    assert rule.manifest.blocks == 9
    assert rule.ratios == (
        ("rps", ComparedCells("stack=nginx", "stack=go")),
        ("rps", ComparedCells("stack=node", "stack=go")),
        ("rps", ComparedCells("stack=node", "stack=nginx")),
    )


def test_the_trials_of_a_block_run_together_where_the_design_asks_for_it() -> None:
    profiled = pass_trials(ProfilePass(blocks=1), ["a", "b"], 2, 1)
    order = (*planned_trials("sliced", ["a", "b"], 2, 1), *profiled)
    queue = TrialQueue(order, together=True)
    batches = []
    for batch in queue.batches():
        batches.append(batch)
        for trial in batch:
            queue.finish(trial, None, 1.0)
    assert [len(batch) for batch in batches] == [2, 2, 1, 1, 1, 1]
    assert [trial for batch in batches for trial in batch] == list(order)
    assert [len(batch) for batch in TrialQueue(order).batches()] == [1] * 8


def test_an_interrupted_batch_is_repeated_whole() -> None:
    queue = TrialQueue(planned_trials("sliced", ["a", "b", "c"], 2, 1), together=True)
    batches = queue.batches()
    first = next(batches)
    assert queue.interrupt(first[0]) == ()
    again = next(batches)
    assert [(trial.cell_id, trial.block, trial.round) for trial in again] == [(trial.cell_id, 1, 2) for trial in first]
