"""Recorded runs keep their ratios, claims and verdicts: those of an earlier version stand in a fixture."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.store.recorded_results import FIXTURE, STORES, results_of_store

EXPECTED: dict[str, Any] = json.loads(FIXTURE.read_text(encoding="utf-8"))
TOLERANCE = 1e-9


def differences(expected: object, found: object, where: str = "") -> Iterator[str]:
    """Yield each value that differs, with its place."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        for key in expected:
            yield from differences(expected[key], found[key], f"{where}/{key}")
    elif isinstance(expected, list) and isinstance(found, list | tuple) and len(expected) == len(found):
        for index, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{where}/{index}")
    elif isinstance(expected, float) and isinstance(found, float):
        if not math.isclose(expected, found, rel_tol=TOLERANCE):
            yield f"{where}: {expected} became {found}"
    elif expected != found:
        yield f"{where}: {expected} became {found}"


@pytest.mark.parametrize("name", STORES)
def test_recorded_runs_keep_their_ratios_claims_and_verdicts(name: str) -> None:
    assert list(differences(EXPECTED[name], results_of_store(STORES[name]))) == []
