"""What nobody looked at on one of several hosts is said, unless what was seen of the others is enough."""

from __future__ import annotations

import pytest

from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.trial import WatchRecord
from tests.analysis.verdicts.builders import (
    WINDOW_S,
    Key,
    cores,
    generator,
    load,
    look,
    service,
    trial,
    unchecked,
    watch,
)


def beside(samples: dict[Key, dict[float, float]] | None = None, **fields: object) -> Evidence:
    """A trial whose second generator and second service are on a host that nobody watched."""
    generators = (generator(), generator(number=2, host="other", cpus=(0,)))
    services = (service(), service(name="back", host="other"))
    parts = {"generators": generators, "services": services, **fields}
    return trial(samples, **parts)  # type: ignore[arg-type] # fields of the record


def test_a_load_host() -> None:
    assert unchecked("generator-saturated", beside()) == "not watched: the cores of other"
    full = (generator(cpu_s=0.95 * WINDOW_S), generator(number=2, host="other", cpus=(0,)))
    assert look("generator-saturated", beside(generators=full)) is not None


def test_ports_of_a_load_host() -> None:
    short = load(keepalive=False)
    said = unchecked("ports-exhausted", beside(load=short))
    assert said == "not known: the sockets, the port range or the failed connects of other"
    full: dict[Key, dict[float, float]] = {("tcp_sockets", "load", None, "time_wait"): {1.0: 930}}
    assert look("ports-exhausted", beside(full, load=short)) is not None


def test_drops_of_a_servers_host() -> None:
    assert unchecked("accept-overflow", beside()) == "not watched: other"
    dropped: dict[Key, dict[float, float]] = {("listen_drops_total", "sut", None, None): {-0.01: 7.0, 3.05: 8.0}}
    assert look("accept-overflow", beside(dropped)) is not None


def test_what_may_have_held_a_host_back() -> None:
    said = unchecked("throttled", beside())
    assert said == "not known: stolen CPU time of other; the nominal clock rate of other"
    assert look("throttled", beside(cores("sut", 0, user=0.9, steal=0.1))) is not None


@pytest.mark.parametrize(
    ("watched", "known"), [((watch("sut"), watch("load")), True), ((watch("sut", cpu_quota=0.5), watch("load")), False)]
)
def test_without_a_quota_there_is_none_that_withholds(watched: tuple[WatchRecord, ...], *, known: bool) -> None:
    evidence = trial(without=("cgroup_throttled_s_total",), watched=watched)
    if known:
        assert look("throttled", evidence) is None
    else:
        assert unchecked("throttled", evidence) == "not known: the CPU time that its quota withheld of sut"
