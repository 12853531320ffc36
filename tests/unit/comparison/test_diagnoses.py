"""Diagnoses: each is made on its evidence, on the right side, and not below its threshold."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchkit.comparison.answer import WHY_UNKNOWN
from benchkit.comparison.compare import answer_of_run
from benchkit.comparison.diagnoses.causes import causes_between_runs, causes_of
from benchkit.comparison.diagnoses.rules import DIAGNOSES
from benchkit.comparison.runs.run_data import RunData
from benchkit.comparison.why import cause_clause
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.samples import Exclusion
from tests.support.comparison.sides import BASELINE, BLOCKS, CELL, RPS, Counter, Side, codes, compared, only_cause

PROXY = ("app", "front")
WORKERS = ("process_cpu_s_total", "app")
SEVERAL = {"parallelism": 2, "cpus": (0, 1)}
SMT = {"shared_cores": ((0, 1), (2, 3))}
FAST = (0.0002, 0.0004, 900)

SEEN: dict[str, tuple[Side, Side]] = {
    "upstream-connections": (
        Side({("tcp_active_opens_total", None): 0.9 * RPS}, services=PROXY),
        Side({("tcp_active_opens_total", None): 0.1 * RPS}, services=PROXY),
    ),
    "cached-answers": (
        Side({("requests_total", "app"): 0.1 * RPS}, services=PROXY),
        Side({("requests_total", "app"): 0.9 * RPS}, services=PROXY),
    ),
    "nagle": (Side(latency=(FAST, (0.041, 0.043, 100))), Side(latency=(FAST, (0.028, 0.03, 50), (0.041, 0.043, 50)))),
    "syn-retransmits": (
        Side({("listen_drops_total", None): 3.0}, latency=(FAST, (1.0, 1.1, 2))),
        Side(latency=(FAST, (1.0, 1.1, 2))),
    ),
    "quota-periods": (
        Side({("cgroup_periods_total", None): 10.0, ("cgroup_throttled_total", None): 9.0}),
        Side({("cgroup_periods_total", None): 10.0, ("cgroup_throttled_total", None): 0.5}),
    ),
    "lock-waits": (
        Side({("mutex_wait_s_total", "app"): 3.0}),
        Side({("mutex_wait_s_total", "app"): 0.3}),
    ),
    "one-busy": (
        Side({(*WORKERS, "1"): 0.0, (*WORKERS, "2"): 1.0, (*WORKERS, "3"): 0.01}, service=SEVERAL),
        Side({(*WORKERS, "1"): 0.0, (*WORKERS, "2"): 1.0, (*WORKERS, "3"): 0.6}, service=SEVERAL),
    ),
    "log-lines": (
        Side(log="2026/03/01 [alert] 7#7: 512 worker_connections are not enough\n"),
        Side(log="2026/03/01 [notice] 7#7: start worker process 8\n"),
    ),
    "garbage-collection": (Side(shares={"gc": 0.3, "http": 0.7}), Side(shares={"gc": 0.1, "http": 0.9})),
    "file-writes": (
        Side({("storage_written_bytes_total", "app"): 60 * RPS}),
        Side({("storage_written_bytes_total", "app"): 0.5 * RPS}),
    ),
    "answer-sizes": (
        Side(columns={"bytes_total": 1e7}, headers=(("Content-Encoding", "gzip"),)),
        Side(columns={"bytes_total": 4e7}),
    ),
    "shared-cores": (
        Side(service={"cpus": (0,)}, generator={"host": "sut", "cpus": (1,)}, facts=SMT),
        Side(service={"cpus": (2,)}, generator={"host": "sut", "cpus": (1,)}, facts=SMT),
    ),
    "clock-rate": (
        Side(states={("cpu_frequency_hz", None, "0"): 2.0e9}),
        Side(states={("cpu_frequency_hz", None, "0"): 2.5e9}),
    ),
    "waits": (Side(latency=((0.0012, 0.0014, 900),)), Side(latency=(FAST,))),
    "context-switches": (
        Side({("voluntary_switches_total", "app"): 1.2 * RPS}, columns={"server_cpu_s_per_request": 59e-6}),
        Side({("voluntary_switches_total", "app"): 0.2 * RPS}),
    ),
}
"""Sides by the code of a diagnosis: one that has its symptom, and one below its threshold."""


def test_every_diagnosis_has_a_case() -> None:
    assert list(DIAGNOSES) == list(SEEN)


@pytest.mark.parametrize("code", list(SEEN))
def test_a_symptom_of_one_side_alone_is_a_cause(code: str, tmp_path: Path) -> None:
    run = compared(tmp_path, *SEEN[code])
    for cell, baseline, expected in (
        (CELL, BASELINE, [(code, CELL)]),
        (BASELINE, CELL, [(code, CELL)]),
        (CELL, CELL, []),
        (BASELINE, BASELINE, []),
    ):
        found = causes_of(run, [ComparedCells(cell, baseline)])
        assert [(each.code, each.subject_id) for each in found] == expected
        for each in found:
            assert re.search("[0-9]", each.symptom.evidence)
            assert each.symptom.next_step.endswith(".")


def near(share: float) -> dict[str, Side]:
    """Return a side for each diagnosis of a threshold, with this share of the threshold."""
    late, opened = int(10 * share), "tcp_active_opens_total"
    return {
        "upstream-connections": Side({(opened, None): 0.5 * share * RPS}, services=PROXY),
        "cached-answers": Side({("requests_total", "app"): 0.5 / share * RPS}, services=PROXY),
        "nagle": Side(latency=((0.0002, 0.0004, 1000 - late), (0.041, 0.043, late))),
        "syn-retransmits": Side(
            {("listen_drops_total", None): share}, latency=((0.0002, 0.0004, 20_000), (1.0, 1.1, late))
        ),
        "lock-waits": Side({("mutex_wait_s_total", "app"): share}),
        "one-busy": Side(
            {(*WORKERS, "1"): 0.0, (*WORKERS, "2"): 1 - 0.2 / share, (*WORKERS, "3"): 0.2 / share}, service=SEVERAL
        ),
        "file-writes": Side({("storage_written_bytes_total", "app"): 16 * share * RPS}),
        "garbage-collection": Side(shares={"gc": 0.2 * share, "http": 1 - 0.2 * share}),
    }


@pytest.mark.parametrize("code", list(near(1.0)))
def test_servers_that_noise_parts_at_a_threshold_have_no_cause(code: str, tmp_path: Path) -> None:
    """Equal servers near a threshold come out on both of its sides."""
    assert codes(tmp_path / "noise", near(1.1)[code], near(0.9)[code]) == []
    assert codes(tmp_path / "twice", near(1.8)[code], near(0.9)[code]) == [(code, CELL)]


def test_a_cause_states_its_figures_and_the_next_step(tmp_path: Path) -> None:
    cause = only_cause(tmp_path, *SEEN["upstream-connections"])
    assert cause_clause(cause, {CELL: "proxy", BASELINE: "go"}) == (
        "proxy opens a connection to its upstream for nearly every request: 0.90 connections per request"
    )
    assert "keepalive" in cause.symptom.next_step


def test_a_gateway_whose_services_share_the_requests_is_no_cache(tmp_path: Path) -> None:
    services = ("app", "page", "front")
    for shares, expected in (((0.5, 0.5), []), ((0.0, 0.9), []), ((0.1, 0.1), [("cached-answers", CELL)])):
        counts = dict(zip((("requests_total", "app"), ("requests_total", "page")), shares, strict=True))
        side = Side({key: share * RPS for key, share in counts.items()}, services=services)
        other = Side({("requests_total", "app"): 0.9 * RPS, ("requests_total", "page"): 0.1}, services=services)
        assert codes(tmp_path / str(shares[0] + shares[1] * 10), side, other) == expected


def test_a_trace_shows_that_delayed_acknowledgements_leave_the_server_idle(tmp_path: Path) -> None:
    delayed, other = SEEN["nagle"]
    idle = replace(delayed, waits={"work in epoll": 1.9, "a CPU, runnable": 0.1})
    assert only_cause(tmp_path / "idle", idle, other).symptom.evidence == (
        "10.0 % of the requests take 38.0 ms to 50.0 ms; 95.0 % of its threads' waits are for sockets, not the CPU"
    )
    busy = replace(delayed, waits={"work in epoll": 0.1, "a CPU, runnable": 1.9})
    assert codes(tmp_path / "busy", busy, other) == []


def test_throttled_servers_are_diagnosed_and_saturated_generators_are_not(tmp_path: Path) -> None:
    trials = [f"r1.{CELL}.b{block}".replace("=", "-") for block in BLOCKS]
    for check, expected in (("throttled", [("waits", CELL)]), ("generator-saturated", [])):
        excluded = [Exclusion(trial, f"invalid: {check}", None, frozenset({check})) for trial in trials]
        assert codes(tmp_path / check, *SEEN["waits"], exclusions=excluded) == expected


def test_a_smaller_quota_that_is_used_up_is_a_cause(tmp_path: Path) -> None:
    small, large = Side(service={"quota": 0.55}), Side(service={"quota": 1.1})
    assert codes(tmp_path / "used", small, large) == [("quota-periods", CELL)]
    assert codes(tmp_path / "unused", Side(service={"quota": 0.9}), large) == []
    throttled = Side(SEEN["quota-periods"][0].counters, service={"quota": 1.1})
    assert codes(tmp_path / "equal", throttled, large) == []


def test_the_answer_says_what_to_run_where_no_cpu_time_was_measured(tmp_path: Path) -> None:
    run = compared(tmp_path, Side(), Side())
    is_cell = run.trials["cell_id"] == CELL
    trials = run.trials.assign(server_cpu_s_per_request=float("nan"), rps=run.trials["rps"].where(is_cell, 20 * RPS))
    assert WHY_UNKNOWN in answer_of_run(replace(run, trials=trials)).sentences
    watched = run.trials.assign(rps=trials["rps"])
    assert WHY_UNKNOWN not in answer_of_run(replace(run, trials=watched)).sentences


def test_a_full_thread_is_a_cause_where_the_other_cell_uses_more_cores(tmp_path: Path) -> None:
    one, two, equal = (
        Side(service={"cpus": (0, 1)}, columns={"server_cpu_s_per_request": cores / RPS}) for cores in (1.0, 1.8, 1.1)
    )
    cause = only_cause(tmp_path / "more", one, two)
    assert (cause.code, cause.subject_id) == ("one-busy", CELL)
    assert cause.symptom.evidence == "it used 1.00 of 2 CPUs, and the other cell 1.80"
    assert codes(tmp_path / "equal", one, equal) == []


def test_a_specific_cause_replaces_the_general_ones_of_its_cell(tmp_path: Path) -> None:
    locked = Side(
        {("mutex_wait_s_total", "app"): 3.0, ("voluntary_switches_total", "app"): 2 * RPS},
        latency=((0.0012, 0.0014, 900),),
    )
    quiet = Side({("voluntary_switches_total", "app"): 0.1 * RPS}, latency=(FAST,))
    assert codes(tmp_path, locked, quiet) == [("lock-waits", CELL)]


def test_between_runs_a_cause_is_one_that_the_reference_lacks(tmp_path: Path) -> None:
    def run(run_id: str, *sides: Side) -> RunData:
        data = compared(tmp_path / run_id, *sides)
        return replace(data, manifest=data.manifest.model_copy(update={"run_id": run_id}))

    writes = Side({("storage_written_bytes_total", "app"): 100 * RPS})
    before, after, slower = run("r1", Side(), Side()), run("r2", writes, Side()), run("r3", writes, writes)
    (cause,) = causes_between_runs(before, after, [CELL])
    assert (cause.code, cause.subject_id, cause.baseline_id) == ("file-writes", f"r2/{CELL}", f"r1/{CELL}")
    assert causes_between_runs(before, after, [CELL], BASELINE) == (cause,)
    assert causes_between_runs(before, slower, [CELL], BASELINE) == ()


def busy(cores: float) -> dict[str, object]:
    """Return the column of a server that uses this many cores."""
    return {"server_cpu_s_per_request": cores / RPS}


SLEEPS: dict[Counter, float] = {("voluntary_switches_total", "app"): 1.2 * RPS}
LATE = ((0.0002, 0.0004, 80), (0.041, 0.043, 20))
LOST: dict[Counter, float] = {("listen_drops_total", None): 3.0}
IMITATIONS: dict[str, tuple[Side, Side]] = {
    "64 connections at 1,430/s take 45 ms each, as gunicorn's did": (
        Side(latency=LATE, columns={"connections": 64 * RPS / 1430}),
        Side(latency=(FAST,)),
    ),
    "nearly all requests take 41 to 43 ms, as a pool of 8 with 5 ms each": (
        Side(latency=((0.0002, 0.0004, 20), (0.041, 0.043, 980)), service={"quota": None, "cpus": ()}),
        Side(latency=(FAST,)),
    ),
    "a second for each connection, beside a few lost attempts": (
        Side(LOST, latency=(FAST, (1.0, 1.1, 2)), columns={"connections": 1.05 * RPS}),
        Side(latency=(FAST,)),
    ),
    "requests that queue for a period of a quota, without one": (
        Side(latency=(FAST, (0.06, 0.09, 500)), columns={"connections": 0.07 * RPS}),
        Side(latency=(FAST,)),
    ),
    "a server without a queue sleeps after each request": (
        Side(SLEEPS, columns=busy(0.4)),
        Side({("voluntary_switches_total", "app"): 0.2 * RPS}, columns=busy(0.9)),
    ),
    "the loop of php-fpm takes 69 µs, so that its workers sleep once for each request": (
        Side({("voluntary_switches_total", "app"): 1.3 * RPS}, columns={"server_cpu_s_per_request": 173e-6}),
        Side({("voluntary_switches_total", "app"): 0.3 * RPS}, columns={"server_cpu_s_per_request": 104e-6}),
    ),
    "the faster server switches more often": (
        Side({("voluntary_switches_total", "app"): 1.2 * RPS}, columns={"server_cpu_s_per_request": 48e-6}),
        Side({("voluntary_switches_total", "app"): 0.2 * RPS}),
    ),
    "a server that waits lets its cores clock down": (
        Side(states={("cpu_frequency_hz", None, "0"): 2.0e9}, columns=busy(0.4)),
        Side(states={("cpu_frequency_hz", None, "0"): 2.5e9}, columns=busy(0.9)),
    ),
    "one trial of a server that waits happens to use a core": (
        Side({("cpu_s_total", "app"): 0.8}, service={"cpus": (0, 1)}, columns=busy(1.0)),
        Side(service={"cpus": (0, 1)}, columns=busy(1.8)),
    ),
    "all requests wait for a core that other programs use": (
        Side(latency=((0.0012, 0.0014, 900),), columns={"foreign_share": 0.9}),
        Side(latency=(FAST,)),
    ),
    "all requests wait for the CPU, on many connections": (
        Side(latency=((0.04, 0.0405, 900),), columns={"connections": 800}),
        Side(latency=(FAST,)),
    ),
}


@pytest.mark.parametrize("case", list(IMITATIONS))
def test_what_a_queue_alone_explains_is_no_cause(case: str, tmp_path: Path) -> None:
    assert codes(tmp_path, *IMITATIONS[case]) == []


def test_waiting_for_workers_is_not_called_a_wait_of_each_request(tmp_path: Path) -> None:
    """64 connections on 8 slots of 5 ms: each takes 40 ms, as delayed acknowledgements would."""
    symptom = only_cause(tmp_path, Side(latency=((0.039, 0.041, 900),)), Side(latency=(FAST,))).symptom
    assert symptom.text == "waits without using the CPU"
    assert "workers that all connections queue for" in symptom.next_step
    assert "40 ms may be delayed acknowledgements" in symptom.next_step
