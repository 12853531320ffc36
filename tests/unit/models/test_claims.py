from __future__ import annotations

import pytest
from pydantic import ValidationError

from benchkit.models.claims import Claim

RATIO = {"of": {"stack": "nginx"}, "to": {"stack": "go"}}


def claim(**fields: object) -> Claim:
    return Claim.model_validate({"text": "a sentence", "ratio": RATIO, **fields})


@pytest.mark.parametrize(
    ("fields", "low", "high", "words"),
    [
        ({"at_least": 2}, 2, None, "at least 2"),
        ({"at_most": 0.6}, None, 0.6, "at most 0.6"),
        ({"between": [1.3, 1.7]}, 1.3, 1.7, "between 1.3 and 1.7"),
        ({"about": 1.2, "within": 0.25}, 0.96, 1.5, "about 1.2 (within 25%)"),
    ],
)
def test_an_expectation_is_a_range(
    fields: dict[str, object], low: float | None, high: float | None, words: str
) -> None:
    found = claim(**fields)
    assert found.expected == (low, high)
    assert found.expectation == words


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"at_least": 1, "at_most": 2},
        {"about": 1.2},
        {"at_least": 1, "within": 0.1},
        {"between": [2, 1]},
        {"at_least": -1},
        {"at_least": 1, "ratio": {"of": {}, "to": {"stack": "go"}}},
        {"at_least": 1, "needs": {"sut": {"cpus": 0}}},
        {"at_least": 1, "needs": {"sut": {"link_at_most_bps": 0}}},
        {"at_least": 1, "needs": {"sut": {"link_bps": 2e9, "link_at_most_bps": 1e9}}},
        {"at_least": 1, "because": "x"},
    ],
)
def test_what_is_no_claim_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        claim(**fields)
