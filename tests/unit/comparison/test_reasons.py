"""Reasons for exclusions as text: each check once, with the number of trials that it invalidates."""

from __future__ import annotations

import pytest

from benchkit.stats.samples import ExcludedTrial, describe_reasons


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        (["invalid: cold"], "invalid: cold"),
        (["invalid: cold, errors"] * 2, "invalid: cold, errors (2 trials)"),
        (
            ["invalid: cold", "invalid: cold, errors", "the tool reports no rps"],
            "invalid: cold (2 trials), errors (1 trial); the tool reports no rps",
        ),
    ],
)
def test_every_check_is_named_once(reasons: list[str], text: str) -> None:
    excluded = [
        ExcludedTrial(trial_id=f"t{i}", cell_id="c", block=i, reason=reason) for i, reason in enumerate(reasons)
    ]
    assert describe_reasons(excluded) == text
