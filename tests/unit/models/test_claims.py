"""Claims and published figures of a study."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from benchkit.errors import InputError
from benchkit.models.claims import Claim, published_of
from benchkit.scenario.experiment import Experiment
from tests.support.builders import read_scenario, stacks

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
        {"at_least": 1, "because": "x"},
    ],
)
def test_what_is_no_claim_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        claim(**fields)


def read(folder: Path, **published: object) -> Experiment:
    return read_scenario(
        folder,
        stacks=stacks(go={"gomaxprocs": "$procs"}),
        factors={"procs": [1, "all"]},
        scales={"lab": {}, "paper": {"factors": {"procs": [8]}}},
        published=[published],
    )


def test_figures_are_read_with_their_cell(tmp_path: Path) -> None:
    figures = {"rps": 128403, "errors_timeout": 0}
    experiment = read(tmp_path, cell={"procs": 8}, figures=figures, shares={"mcall": 0.4})
    (published,) = experiment.scenario.published
    assert published.cell == {"procs": 8}  # a level of another scale
    assert published.figures == figures
    assert published.shares == {"mcall": 0.4}
    assert published_of(experiment.document.data) == experiment.scenario.published
    assert published_of({}) == ()


@pytest.mark.parametrize(
    ("published", "message"),
    [
        ({"cell": {"procs": 2}, "figures": {"rps": 1}}, "cell.procs: no level '2' at any scale"),
        ({"cell": {"cores": 1}, "figures": {"rps": 1}}, "cell.cores: no factor 'cores'"),
        ({"cell": {"procs": 1}, "figures": {"rsp": 1}}, "figures.rsp: no such figure; did you mean"),
        ({"cell": {"procs": 1}, "shares": {"mcal": 0.1}}, "shares.mcal: no such figure; did you mean"),
        ({"cell": {"procs": 1}, "shares": {"mcall": 40.1}}, "shares.mcall"),
        ({"cell": {"procs": 1}, "figures": {"rps": -1}}, "figures.rps"),
    ],
)
def test_figures_that_no_run_can_measure_are_refused(
    tmp_path: Path, published: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, **published)
    assert f"small.yaml:9: published.0.{message}" in str(caught.value)
