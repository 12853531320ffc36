"""Telemetry of a trial: the agent's file, and its rows."""

from __future__ import annotations

import pytest

from benchkit.errors import ParseError
from benchkit.models.run import CellRecord
from benchkit.models.trial import TrialRecord, WatchRecord
from benchkit.store.telemetry_table import TrialSamples, read_telemetry
from tests.unit.store.test_store import record as stored_record


@pytest.mark.parametrize("content", [b'{"format":2}\n', b"[]\n", b"wrk 4.2\n", b'{"format":1}\nnonsense\n{}\n'])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(ParseError):
        read_telemetry(content)


SECOND = 1_000_000_000
WRITTEN = """\
{"format":1,"interval_s":1.0}
{"group":0,"service":null,"series":[["load1",null],["cpu_idle_s_total","0"],["of_tomorrow",null]]}
{"group":1,"service":"app","series":[["cpu_s_total",null]]}
{"group":2,"service":"generator-1","series":[["cpu_s_total",null]]}
{"t_ns":4000000000,"values":{"0":[0.5,30,1],"1":[0.25],"2":[0.0]}}
{"t_ns":6500000000,"values":{"0":[0.75,32,1],"1":[1.25],"2":[2.0]}}
"""


def record(*watched: WatchRecord) -> TrialRecord:
    return stored_record("r1.b000.p000", CellRecord(cell_id="c", levels={})).model_copy(update={"watched": watched})


def watch(*roles: str, unseen: tuple[str, ...] = ()) -> WatchRecord:
    return WatchRecord(
        host="h",
        roles=roles,
        file="telemetry.h.jsonl",
        interval_s=1,
        window_ns=(5 * SECOND, 7 * SECOND),
        clock_uncertainty_s=0.001,
        unseen=unseen,
    )


def rows(made: TrialRecord) -> list[tuple[object, ...]]:
    table = TrialSamples(made, lambda _: WRITTEN.encode()).table()
    assert set(table["trial_id"].to_pylist()) <= {made.trial_id}
    names = ("role", "service", "metric", "instance", "unit", "t_s", "value")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_times_start_with_the_window_and_counters_of_the_host_at_zero() -> None:
    assert rows(record(watch("sut"))) == [
        ("sut", None, "load1", None, "1", -1.0, 0.5),
        ("sut", None, "load1", None, "1", 1.5, 0.75),
        ("sut", None, "cpu_idle_s_total", "0", "s", -1.0, 0.0),
        ("sut", None, "cpu_idle_s_total", "0", "s", 1.5, 2.0),
        ("sut", "app", "cpu_s_total", None, "s", -1.0, 0.25),
        ("sut", "app", "cpu_s_total", None, "s", 1.5, 1.25),
        ("load", "generator-1", "cpu_s_total", None, "s", -1.0, 0.0),
        ("load", "generator-1", "cpu_s_total", None, "s", 1.5, 2.0),
    ]


def test_the_mean_wait_of_goroutines_is_that_of_the_window() -> None:
    written = """\
{"format":1,"interval_s":1.0}
{"group":1,"service":"app","series":[["goroutine_waits_total",null],["goroutine_wait_s_total",null]]}
{"t_ns":4000000000,"values":{"1":[1000,9.0]}}
{"t_ns":5000000000,"values":{"1":[1200,10.0]}}
{"t_ns":6500000000,"values":{"1":[1300,10.5]}}
"""
    made = record(watch("sut"))
    assert TrialSamples(made, lambda _: written.encode()).mean_goroutine_wait_s == pytest.approx(0.5 / 100)
    assert TrialSamples(made, lambda _: WRITTEN.encode()).mean_goroutine_wait_s is None


def test_on_a_host_with_several_roles_each_service_has_its_own() -> None:
    found = {(service, role) for role, service, *_ in rows(record(watch("sut", "load")))}
    assert found == {(None, "sut,load"), ("app", "sut"), ("generator-1", "load")}


def test_missing_metrics_and_damaged_files_are_notes() -> None:
    made = record(watch("sut", unseen=("memory: there is no psutil",)))
    samples = TrialSamples(made, lambda _: b"what is this\n")
    assert [note.message for note in samples.notes] == [
        "h: memory: there is no psutil",
        "h: line 1 of the telemetry is not JSON: expected value at line 1 column 1",
    ]
    assert samples.table().num_rows == 0


MEMORY = """\
{"format":1,"interval_s":1.0}
{"group":0,"service":"app","series":[["rss_bytes",null]]}
{"group":1,"service":"generator-1","series":[["rss_bytes",null]]}
{"t_ns":4000000000,"values":{"0":[900],"1":[9000]}}
{"t_ns":5500000000,"values":{"0":[300],"1":[9000]}}
{"t_ns":6500000000,"values":{"0":[700],"1":[9000]}}
"""


def test_memory_is_the_largest_of_the_services_in_the_window() -> None:
    made = record(watch("sut"))
    other = made.services[0].model_copy(update={"name": "other"})
    for change, peak in (({}, 700), ({"services": (*made.services, other)}, None), ({"external": ("there",)}, None)):
        samples = TrialSamples(made.model_copy(update=change), lambda _: MEMORY.encode())
        assert samples.peak_memory_bytes == peak
