"""A killed controller: its hosts are restored when its lease has ended."""

from __future__ import annotations

import signal

from tests.qualify.chaos.kit import SCENARIO, Bench


def test_hosts_of_a_killed_controller_are_restored(bench: Bench) -> None:
    before = bench.snapshot()
    killed = bench.run(str(SCENARIO), "--set", "load.request_count=1000000", crash="under-load")
    assert killed.code == -signal.SIGKILL
    bench.wait_until_like(before)
    reports = bench.restored_changes()
    assert any("process nethttp" in text and "net.core.somaxconn (was " in text for text in reports), reports
    restored = bench.cli("hosts", "restore", "-i", str(bench.inventory))
    assert "restored before" in restored.out
    assert bench.restored_changes() == []
