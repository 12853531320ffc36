"""The load tool, quota and design of a comparison, adapted to what its run shows. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from benchkit.models.request import Request
from benchkit.models.thresholds import Thresholds
from benchkit.plan.adaptation import Observed, adapt
from benchkit.scenario.versus import ServerComparison
from benchkit.store.journal import FailureCause
from tests.support.judge.builders import build_slices, build_trial

COMPARISON = ServerComparison((Request(),), "h2load", budget_s=60, precision=0.03)


def observed(
    *checks: str,
    limited_at: Collection[float] = (),
    causes: Collection[FailureCause] = (),
    taken: float = 0.0,
) -> Observed:
    """Return what two trials show; idle servers take their CPU time from the second."""
    record = build_trial().record
    slices = [build_slices(neighbour_cpu_s=0.25 * share) for share in (0.0, taken)]
    records = tuple(record.model_copy(update={"slices": each}) for each in slices)
    return Observed(records, Thresholds(), limited_at, causes, frozenset(checks))


@pytest.mark.parametrize(
    ("seen", "changes"),
    [
        (observed(), None),
        (observed("noisy-host"), None),
        (observed(causes=["load-tool"]), {"tool": "hey", "keepalive": False}),
        (observed(causes=["server"]), None),
        (observed("missing-connections"), {"tool": "hey", "keepalive": False}),
        (observed(taken=0.03), {"is_sliced": False}),
        (observed(taken=0.009), None),
        (observed(limited_at=[0.9, 0.7]), {"quota": 0.5}),
        (observed(limited_at=[0.9, 0.4]), {"quota": 0.25}),
    ],
)
def test_a_comparison_is_adapted_to_its_servers(seen: Observed, changes: dict[str, object] | None) -> None:
    adaptation = adapt(COMPARISON, seen)
    assert (adaptation and adaptation.comparison) == (changes and replace(COMPARISON, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "seen", [observed("missing-connections"), observed(causes=["load-tool"]), observed(limited_at=[0.7])]
)
def test_what_was_given_is_not_adapted(seen: Observed) -> None:
    assert adapt(replace(COMPARISON, fixed=frozenset({"tool", "quota"})), seen) is None


def test_adapting_ends() -> None:
    worst = observed("missing-connections", limited_at=[0.7], causes=["load-tool"], taken=0.03)
    comparison, count = COMPARISON, 0
    while (adaptation := adapt(comparison, worst)) is not None:
        comparison, count = adaptation.comparison, count + 1
    assert count == 4
    assert (comparison.tool, comparison.is_sliced, comparison.quota) == ("hey", False, 0.25)
