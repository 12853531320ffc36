from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from benchkit.models.run import Manifest
from benchkit.validation import first_fault

FIELDS: dict[str, Any] = {
    "run_id": "r1",
    "scale": "lab",
    "seed": 1,
    "blocks": 2,
    "cells": (),
    "hosts": (),
    "versions": {},
    "started_at": datetime(2026, 1, 1, tzinfo=UTC),
}


@pytest.mark.parametrize("name", ["x/../../../evil/y", "..", "a b", "", None, 5, "A"])
def test_the_name_of_a_stored_scenario_is_checked_as_that_of_a_file(name: object) -> None:
    Manifest(scenario={"name": "small"}, **FIELDS)
    with pytest.raises(ValidationError) as caught:
        Manifest(scenario={"name": name}, **FIELDS)
    assert first_fault(caught.value, Manifest).startswith(
        f"scenario: name: found {name!r}; allowed: up to 64 lower-case letters"
    )
