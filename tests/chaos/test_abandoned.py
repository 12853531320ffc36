"""A controller that vanishes: within its lease and a little, its hosts are as they were."""

from __future__ import annotations

import signal

import pytest

from tests.chaos.kit import SCENARIO, Bench

pytestmark = pytest.mark.lab


def test_a_killed_controller_leaves_hosts_as_they_were(bench: Bench) -> None:
    before = bench.snapshot()
    killed = bench.run(str(SCENARIO), "--set", "load.requests=1000000", crash="under-load")
    assert killed.code == -signal.SIGKILL
    bench.wait_until_like(before)
    reports = bench.restored_changes()
    assert any("process nethttp" in text and "net.core.somaxconn (was " in text for text in reports), reports
    restored = bench.cli("hosts", "restore", "-i", str(bench.inventory))
    assert "was put back already" in restored.out
    assert bench.restored_changes() == []
