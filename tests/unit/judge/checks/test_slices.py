"""Tests of checks of sliced blocks."""

from __future__ import annotations

import numpy as np
import pytest

from benchkit.judge.check import LOAD
from benchkit.judge.checks.slices import carry_over
from benchkit.judge.evidence import RunEvidence
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import (
    SERVERS,
    SLICED_CELLS,
    build_slices,
    build_trial,
    finding_of,
    host_rows,
    run_findings,
    slices_with,
    trial_ids,
)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.009, 0.0, 0.0), {}),
        ((0.011, 0.0, 0.0), {"a": "suspect"}),
        ((0.03, 0.03, 0.0), {"a": "suspect", "b": "suspect"}),
        ((0.015, 0.012, 0.013), {"a": "suspect", "b": "suspect", "c": "suspect"}),
        ((0.015, 0.009, 0.006), {"a": "suspect"}),
    ],
    ids=["little", "one cell", "one server works for two", "alike", "nearly alike"],
)
def test_work_of_idle_servers_counts_as_far_as_it_is_unequal(
    shares: tuple[float, ...], expected: dict[str, str]
) -> None:
    trials = trials_of({f"stack={name}": [1e4] for name in "abc"}, slices=20).assign(neighbour_share=shares)
    findings = run_findings("busy-neighbour", manifest_of(SERVERS), trials)
    assert {trial_id: found.severity for trial_id, found in findings.items()} == {
        f"r1.stack={name}.b1": severity for name, severity in expected.items()
    }
    assert all(found.metrics == LOAD for found in findings.values())


@pytest.mark.parametrize("effects", [(-0.2, 0.0), (0.0, 0.1, -0.3)])
def test_effects_are_found_in_spite_of_drift_and_differences(effects: tuple[float, ...]) -> None:
    cells = SLICED_CELLS[: len(effects)]
    trials = trials_of({cell: [1e4] * 6 for cell in cells}, slices=20)
    slices = slices_with(np.array(effects), noise=0.02)
    found = carry_over(RunEvidence(manifest_of(SERVERS[: len(cells)]), trials, host_rows(), slices))
    assert {cell: round(each.log_effect, 1) for cell, each in found.items()} == dict(zip(cells, effects, strict=True))


def test_finding_names_the_cell() -> None:
    trials = trials_of({cell: [1e4] * 6 for cell in SLICED_CELLS[:2]}, slices=20)
    slices = slices_with(np.array([-0.2, 0.0]))
    findings = run_findings("carry-over", manifest_of(SERVERS[:2]), trials, slices=slices)
    assert set(findings) == trial_ids("stack=a", 6)
    assert {(each.severity, each.metrics) for each in findings.values()} == {("suspect", LOAD)}


@pytest.mark.parametrize(("answers", "expected"), [(20, False), (19, True)])
def test_answers_of_each_connection(answers: int, *, expected: bool) -> None:
    trial = build_trial(slices=build_slices(12), row={"requests": 12 * 64 * answers})
    found = finding_of("few-requests-in-slice", trial)
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)
