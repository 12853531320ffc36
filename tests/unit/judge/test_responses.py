from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest

from benchkit.comparison.notes import with_response_notes
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.runs.run_data import RunData
from benchkit.judge.responses import (
    UNDECLARED,
    answers_by_cell,
    mismatch_notes,
    response_mismatches,
    with_declared_reasons,
)
from benchkit.models.run import Manifest
from tests.support.comparison.fixtures import manifest_of, trials_of

CELLS = [{"stack": "go", "kind": "fair"}, {"stack": "nginx", "kind": "fair"}]
GO, NGINX = "stack=go,kind=fair", "stack=nginx,kind=fair"
RATES = {GO: [100, 101, 102, 99, 100, 101], NGINX: [50, 51, 52, 49, 50, 51]}
SAME: dict[str, Any] = {
    "probe_status": 200,
    "probe_header_bytes": 141,
    "probe_body_bytes": 12,
    "probe_body_sha256": "aa",
}


def probed(trials: pd.DataFrame, cell: str, **probe: Any) -> pd.DataFrame:  # noqa: ANN401 - values of columns
    """Return the trials with the probes of a cell set; a list has a value for each block."""
    made = trials.copy()
    for name, value in probe.items():
        made.loc[made["cell_id"] == cell, f"probe_{name}"] = value
    return made


def mismatches(trials: pd.DataFrame, manifest: Manifest) -> tuple[str, ...]:
    answers = answers_by_cell(trials)
    return mismatch_notes(with_declared_reasons(response_mismatches(NGINX, GO, answers, answers), manifest))


@pytest.mark.parametrize(
    ("probe", "reported"),
    [
        ({"status": 304}, "status 304 against 200"),
        ({"header_bytes": 145}, "145 bytes of headers against 141"),
        ({"body_bytes": 13, "body_sha256": "bb"}, "13 bytes of body against 12"),
        ({"body_sha256": "bb"}, "another body of the same length"),
        ({"body_sha256": ["ba", "bb", "bc", "bd", "be", "bf"]}, "bodies of the same length that vary"),
        ({"header_bytes": 142, "body_bytes": 1600, "body_sha256": "bb"}, "142 bytes of headers against 141; 1600 bytes of body against 12"),
        ({"body_bytes": [97, 98, 12, 100, 97, 97]}, "12 to 100 bytes of body against 12"),
        ({"body_bytes": [12, 13, 12, 12, 12, 12]}, "12 or 13 bytes of body against 12"),
    ],
)  # fmt: skip
def test_every_different_trait_is_reported(probe: Mapping[str, Any], reported: str) -> None:
    trials = probed(trials_of(RATES, **SAME), NGINX, **probe)
    assert mismatches(trials, manifest_of(CELLS)) == (f"different answers: {reported} ({UNDECLARED})",)


def test_bodies_of_one_length_that_vary_in_both_cells_are_not_serious() -> None:
    digests = [f"b{number}" for number in range(6)]
    trials = probed(probed(trials_of(RATES, **SAME), NGINX, body_sha256=digests), GO, body_sha256=digests[::-1])
    run = RunData(manifest_of(CELLS), trials)
    (ratio,) = with_response_notes([Ratio(metric="rps", cell_id=NGINX, baseline=GO, blocks=6)], run, run)
    assert ratio.notes == ("different answers: bodies of the same length that vary",)
    assert ratio.serious_notes == ()


def test_declared_difference_covers_only_its_traits() -> None:
    trials = probed(trials_of(RATES, **SAME), NGINX, header_bytes=145, body_bytes=1600)

    def with_declared(*declared: Mapping[str, Any]) -> tuple[str, ...]:
        return mismatches(trials, manifest_of(CELLS, scenario={"differs": list(declared)}))

    body = {"what": ["body_bytes"], "why": "as it was\n  published"}
    assert with_declared(body) == (
        f"different answers: 145 bytes of headers against 141 ({UNDECLARED})",
        "different answers: 1600 bytes of body against 12 (declared by the scenario: as it was published)",
    )
    both = {"what": ["body_bytes", "header_bytes"], "why": "as published"}
    assert len(with_declared({**both, "cells": {"stack": "nginx"}})) == 1
    assert "declare" in with_declared({**both, "cells": {"stack": "other"}})[0]
