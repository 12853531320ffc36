"""The functions and constants that this suite names by strings: a rename must not break them silently."""

from __future__ import annotations

import importlib
from functools import reduce

import pytest

from tests.qualify.chaos.crash import MOMENTS, POINTS
from tests.qualify.chaos.kit import SHORT_TIMEOUTS


@pytest.mark.parametrize("where", sorted({point.where for point in (*POINTS.values(), *MOMENTS.values())}))
def test_every_crash_point_names_a_function(where: str) -> None:
    module, _, path = where.partition(":")
    assert callable(reduce(getattr, path.split("."), importlib.import_module(module)))


@pytest.mark.parametrize("where", SHORT_TIMEOUTS)
def test_every_shortened_time_names_a_constant_of_the_same_type(where: str) -> None:
    module, _, name = where.partition(":")
    assert type(getattr(importlib.import_module(module), name)) is type(SHORT_TIMEOUTS[where])
