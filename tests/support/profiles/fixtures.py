"""Recorded profiles, each read once."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache

import pytest

from benchkit.models.profile import Profile
from benchkit.profiles.profile_file import read_profile
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "profiles"


@cache
def _read(name: str) -> Profile:
    return read_profile((FIXTURES / name).read_bytes())


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], Profile]:
    """A function that returns the profile in a recorded file of that name."""
    return _read


@pytest.fixture(scope="session")
def unpacked() -> Callable[[str], bytes]:
    """A function that returns the content of a recorded file of that name."""
    return lambda name: gzip.decompress((FIXTURES / name).read_bytes())
