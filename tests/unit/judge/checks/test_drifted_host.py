"""Tests of the check drifted-host."""

from __future__ import annotations

from benchkit.judge.check import ALL
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import SERVERS, host_rows, run_findings


def test_blocks_after_a_change_are_suspect() -> None:
    fact = "sysctls.net.core.somaxconn"
    looks = [("sut", f"block {block}", fact, "4096" if block < 3 else "128") for block in (1, 2, 3)]
    moved = ("sut", "block 2", "clock_offset_s", "0.3")
    trials = trials_of({"stack=a": [1, 2, 3], "stack=b": [1, 2, 3]})
    reasons = run_findings("drifted-host", manifest_of(SERVERS[:2]), trials, host_rows(*looks, moved))
    assert set(reasons) == {"r1.stack=a.b3", "r1.stack=b.b3"}
    assert all((each.severity, each.metrics) == ("suspect", ALL) for each in reasons.values())
    assert "was 4096, is 128" in reasons["r1.stack=a.b3"].seen


def test_change_during_the_last_block_is_detected() -> None:
    looks = [("sut", at, "governor", "performance") for at in ("block 1", "block 2", "block 3")]
    trials = trials_of({"stack=a": [1, 2, 3]})
    for at_end, marked in (("performance", set()), ("powersave", {"r1.stack=a.b3"})):
        end = [("sut", "end", "governor", at_end), ("sut", "end", "clock_offset_s", "0.3")]
        reasons = run_findings("drifted-host", manifest_of(SERVERS[:1]), trials, host_rows(*looks, *end))
        assert set(reasons) == marked


def test_replaced_program_is_named() -> None:
    files = ("1240 bytes of 2026-03-01 10:00:00.0", "1260 bytes of 2026-03-02 10:00:00.0")
    looks = [("sut", f"block {block}", "executables.nginx", files[block > 1]) for block in (1, 2)]
    trials = trials_of({"stack=a": [1, 2]})
    reasons = run_findings("drifted-host", manifest_of(SERVERS[:1]), trials, host_rows(*looks))
    assert set(reasons) == {"r1.stack=a.b2"}
    assert f"executables.nginx of host sut was {files[0]}, is {files[1]}" in reasons["r1.stack=a.b2"].seen
