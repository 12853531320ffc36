from __future__ import annotations

import pytest
from pydantic import ValidationError

from benchkit.document import parse_document
from benchkit.errors import InputError
from benchkit.scenario.claims import Claim, check_claims

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
        {"at_least": 1, "because": "x"},
    ],
)
def test_what_is_no_claim_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        claim(**fields)


SCENARIO = """\
name: x
claims:
  - text: costs little
    ratio: {of: {stack: nginx, cores: 1}, to: {stack: go}}
    at_least: 0.9
  - text: many faults
    ratio:
      of: {stak: nginx}
      to: {stack: gone}
    metric: rpss
    at_most: 1
    needs: {sud: {cpus: 6}}
"""


def test_faults_name_file_line_and_field() -> None:
    document = parse_document(SCENARIO, "s.yaml")
    claims = [Claim.model_validate(each) for each in document.data["claims"]]
    factors: dict[str, list[object]] = {"stack": ["go", "nginx"], "cores": [1, 8]}
    roles, metrics = ["sut", "load"], ["rps", "latency_p99_s"]
    check_claims(claims[:1], document, factors=factors, roles=roles, metrics=metrics)
    with pytest.raises(InputError) as caught:
        check_claims(claims, document, factors=factors, roles=roles, metrics=metrics)
    assert str(caught.value).splitlines() == [
        "s.yaml:8: claims.1.ratio.of.stak: no factor 'stak'; did you mean 'stack'? allowed: stack, cores",
        "s.yaml:9: claims.1.ratio.to.stack: no level 'gone' at any scale; did you mean 'go'? allowed: go, nginx",
        "s.yaml:12: claims.1.needs.sud: no role 'sud'; did you mean 'sut'? allowed: sut, load",
        "s.yaml:10: claims.1.metric: no metric 'rpss'; did you mean 'rps'? allowed: rps, latency_p99_s",
    ]
