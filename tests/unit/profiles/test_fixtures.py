"""Recorded profiles: small, each with the commands that made it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "profiles"
RECORDED = sorted(FIXTURES.glob("*.gz"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_a_recorded_profile_is_small_and_states_how_it_was_recorded(path: Path) -> None:
    assert path.stat().st_size <= 50_000
    made = json.loads(
        (FIXTURES / f"{path.name.removesuffix('.gz').removesuffix('.pb').removesuffix('.txt')}.made.json").read_text()
    )
    assert set(made["versions"]) == {"go", "kernel", "perf", "node", "nginx"}
    assert any(command.startswith(("perf script", "TMP/")) for command in made["commands"])
