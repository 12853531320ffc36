"""A controller that vanishes: within its lease and a little, its hosts are as they were."""

from __future__ import annotations

import signal

import pytest

from tests.chaos.kit import SCENARIO, Bench

pytestmark = pytest.mark.lab


def test_a_killed_controller_leaves_hosts_as_they_were(bench: Bench) -> None:
    before = bench.look()
    killed = bench.run(str(SCENARIO), "--set", "load.requests=1000000", crash="under-load")
    assert killed.code == -signal.SIGKILL
    bench.wait_until_as(before)
    told = bench.put_back()
    assert any("process nethttp" in text and "net.core.somaxconn (was " in text for text in told), told
    restored = bench.cli("hosts", "restore", "-i", str(bench.inventory))
    assert "was put back already" in restored.out
    assert bench.put_back() == []
