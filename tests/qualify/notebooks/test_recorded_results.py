"""Recorded runs keep their ratios, claims and verdicts: a fixture has an earlier version's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import pytest

from benchkit.store.store import Store
from tests.qualify.notebooks.record_store import READ, fields_today
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


def test_recorded_runs_have_the_claims_of_their_scenarios() -> None:
    """Compare with the files: `record_store.py --claims notebooks/recorded` writes them again."""
    for run in Store(STORES["runs"]).runs():
        manifest = json.loads((run.path / "manifest.json").read_text(encoding="utf-8"))
        stored = {name: manifest["scenario"][name] for name in READ if name in manifest["scenario"]}
        assert stored == fields_today(manifest["scenario"]["name"], manifest["scale"]), run.run_id
