"""Tests of the check busy-neighbour."""

from __future__ import annotations

import pytest

from benchkit.judge.check import LOAD
from benchkit.judge.sliced_blocks import neighbour_share
from tests.support.comparison.fixtures import MakeManifest, MakeTrials
from tests.support.judge.builders import (
    SERVERS,
    build_service,
    build_slices,
    build_trial,
    finding_of,
    run_findings,
    skip_reason,
)


def test_share_of_the_servers_cpus_over_all_slices() -> None:
    slices = (*build_slices(11, neighbour_cpu_s=0.0), *build_slices(1, neighbour_cpu_s=0.06))
    assert neighbour_share(build_trial(slices=slices).record) == pytest.approx(0.06 / (12 * 0.25))
    two_cpus = build_trial(slices=slices, services=(build_service(cpus=(0, 1)),))
    assert neighbour_share(two_cpus.record) == pytest.approx(0.03 / (12 * 0.25))


def test_trial_of_another_design_has_no_neighbours() -> None:
    assert neighbour_share(build_trial().record) is None
    assert finding_of("busy-neighbour", build_trial()) is None


def test_missing_telemetry() -> None:
    trial = build_trial(slices=build_slices())
    assert neighbour_share(trial.record) is None
    assert "is unknown" in skip_reason("busy-neighbour", trial)


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
    make_manifest: MakeManifest, make_trials: MakeTrials, shares: tuple[float, ...], expected: dict[str, str]
) -> None:
    trials = make_trials({f"stack={name}": [1e4] for name in "abc"}, slices=20).assign(neighbour_share=shares)
    findings = run_findings("busy-neighbour", make_manifest(SERVERS), trials)
    assert {trial_id: found.severity for trial_id, found in findings.items()} == {
        f"r1.stack={name}.b1": severity for name, severity in expected.items()
    }
    assert all(found.metrics == LOAD for found in findings.values())
