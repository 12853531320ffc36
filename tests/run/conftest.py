from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.chaos.conftest import new_bench, stores, zygote
from tests.chaos.kit import Bench

__all__ = ["new_bench", "stores", "zygote"]


@pytest.fixture
def bench(new_bench: Callable[[], Bench]) -> Bench:
    return new_bench()
