"""Detection of wall clocks that are set, on values."""

from __future__ import annotations

from benchkit.run.testbed import WallClocks

HOUR_NS = 3600 * 10**9


def test_a_clock_that_is_set_is_reported_once_with_its_step() -> None:
    clocks = WallClocks()
    start = 1_700_000_000 * 10**9
    assert clocks.compare(start, {"sut": start, "load": start}) is None
    assert clocks.compare(start + 10**8, {"sut": start - 10**8, "load": start}) is None, (
        "clocks are adjusted all the time"
    )
    clause = clocks.compare(start, {"sut": start + HOUR_NS, "load": start - 2 * HOUR_NS})
    assert clause is not None
    assert clause.endswith(": sut by 3600.1 s forward, load by 7200.0 s back")
    assert clocks.compare(start, {"sut": start + HOUR_NS, "load": start - 2 * HOUR_NS}) is None
    back = clocks.compare(start - HOUR_NS, {"sut": start + HOUR_NS})
    assert back is not None
    assert back.endswith(": this machine by 3600.0 s back")


def test_the_new_clock_of_a_rebooted_host_is_not_reported() -> None:
    clocks = WallClocks()
    clocks.compare(0, {"sut": 0})
    clocks.forget("sut")
    assert clocks.compare(0, {"sut": HOUR_NS}) is None
    assert clocks.compare(0, {"sut": HOUR_NS, "late": HOUR_NS}) is None
