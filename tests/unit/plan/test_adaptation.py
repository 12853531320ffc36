"""The load tool, quota and design of a comparison, adapted to what its run shows. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchkit.models.request import Request
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import TrialRecord
from benchkit.plan.adaptation import adapt
from benchkit.scenario.versus import ServerComparison
from tests.support.judge.builders import build_slices, build_trial

COMPARISON = ServerComparison((Request(),), "h2load", budget_s=60, precision=0.03)


def idle_use(taken: float) -> list[TrialRecord]:
    """Return two trials, of whose second idle servers take this share of the CPU time."""
    record = build_trial().record
    slices = [build_slices(neighbour_cpu_s=0.25 * share) for share in (0.0, taken)]
    return [record.model_copy(update={"slices": each}) for each in slices]


@pytest.mark.parametrize(
    ("seen", "changes"),
    [
        ({}, None),
        ({"causes": ["load-tool"]}, {"tool": "hey", "keepalive": False}),
        ({"causes": ["server"]}, None),
        ({"measured": idle_use(0.03)}, {"is_sliced": False}),
        ({"measured": idle_use(0.009)}, None),
        ({"limited_at": [0.9, 0.7]}, {"quota": 0.5}),
        ({"limited_at": [0.9, 0.4]}, {"quota": 0.25}),
    ],
)
def test_a_comparison_is_adapted_to_its_servers(seen: dict[str, Any], changes: dict[str, object] | None) -> None:
    adaptation = adapt(COMPARISON, Thresholds(), **seen)
    assert (adaptation and adaptation.comparison) == (changes and replace(COMPARISON, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("seen", [{"causes": ["load-tool"]}, {"limited_at": [0.7]}])
def test_what_was_given_is_not_adapted(seen: dict[str, Any]) -> None:
    assert adapt(replace(COMPARISON, fixed=frozenset({"tool", "quota"})), Thresholds(), **seen) is None


def test_adapting_ends() -> None:
    worst: dict[str, Any] = {"limited_at": [0.7], "causes": ["load-tool"], "measured": idle_use(0.03)}
    comparison, count = COMPARISON, 0
    while (adaptation := adapt(comparison, Thresholds(), **worst)) is not None:
        comparison, count = adaptation.comparison, count + 1
    assert count == 4
    assert (comparison.tool, comparison.is_sliced, comparison.quota) == ("hey", False, 0.25)
