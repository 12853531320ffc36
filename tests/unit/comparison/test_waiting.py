"""Sentences about servers that wait, and about latencies at a held rate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchkit.comparison.compare import answer_of_run, held_of
from benchkit.comparison.component_costs import CPU_TIME, RUN_QUEUE_DELAY, WITHOUT_CPU
from benchkit.comparison.components import Component, components_of
from benchkit.comparison.load_curves import cell_curves
from benchkit.comparison.runs.run_data import RunData, run_data_from_tables
from benchkit.comparison.waiting import waiting_clause
from benchkit.stats.cell_pairs import ComparedCells
from tests.support.comparison.sides import BASELINE, CELL, RPS, Side, compared

SERVICE_S = {CELL: 0.010, BASELINE: 0.005}
SLOTS = 8
CPU_S, QUEUED_S = 1e-4, {CELL: 8e-4, BASELINE: 2e-4}
"""CPU time and run-queue delay of an answer at the held rate."""


def points(cell_id: str) -> list[dict[str, Any]]:
    service_s = SERVICE_S[cell_id]
    return [
        {
            "trial_id": f"curve-{cell_id}",
            "connections": number,
            "duration_s": 0.5,
            "rps": min(number, SLOTS) / service_s,
            "refused": 0.0,
            "failed": 0.0,
            "in_flight": float(number),
            "accept_queue": None,
            "latency_p50_s": max(number / SLOTS, 1) * service_s,
            "latency_p99_s": None,
            "latency_stdev_s": None,
            "server_cores": 0.1,
            "server_cpu": 0.1,
            "generator_cpu": 0.2,
            "link": None,
        }
        for number in (1, 2, 4, 8, 16, 32)
    ]


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    """Return a run of two pools, with a load curve of each and a phase at a held rate."""
    sides = (
        # Samples are 2.2 s apart, for requests of 2 s.
        Side({("cpu_s_total", "app"): CPU_S * RPS / 1.1, ("run_queue_s_total", "app"): QUEUED_S[cell] * RPS / 1.1})
        for cell in (CELL, BASELINE)
    )
    measured = compared(tmp_path, *sides)
    trials = measured.trials.assign(connections=16, server_cpu_s_per_request=1e-4)
    service_s = trials["cell_id"].map(SERVICE_S)
    noise = 1 + 0.002 * (trials["block"] % 3) * trials["cell_id"].eq(CELL)
    trials = trials.assign(rps=SLOTS / service_s * noise)
    held = trials.assign(
        kind="held",
        trial_id=trials["trial_id"] + "-held",
        rate_requested=400.0,
        latency_mean_s=service_s * noise,
        latency_p50_s=service_s * noise,
        latency_p99_s=1.1 * service_s * noise,
        latency_p999_s=1.2 * service_s * noise,
    )
    curves = trials.drop_duplicates("cell_id").assign(kind="calibrate", block=0)
    curves = curves.assign(trial_id="curve-" + curves["cell_id"])
    every = pd.concat([trials, held, curves], ignore_index=True)
    rows = pd.DataFrame([row for cell_id in SERVICE_S for row in points(cell_id)])

    buckets = [
        {"trial_id": trial_id, "series": "raw", "low_s": factor * time_s, "high_s": factor * time_s, "count": count}
        for trial_id, time_s in zip(held["trial_id"], held["cell_id"].map(SERVICE_S), strict=True)
        for factor, count in ((1.0, 980), (1.1, 19), (1.2, 1))
    ]
    telemetry = measured.rows("telemetry")
    telemetry = pd.concat([telemetry, telemetry.assign(trial_id=telemetry["trial_id"] + "-held")], ignore_index=True)
    tables = {"load_curve": rows, "latency": pd.DataFrame(buckets), "telemetry": telemetry}

    def table(name: str) -> pd.DataFrame:
        return tables[name] if name in tables else measured.rows(name)

    return run_data_from_tables(
        measured.manifest, every, measured.rows("verdicts"), table=table, folder=measured.folder
    )


def test_a_pair_of_pools_is_answered_by_rate_slots_waits_and_latency(run: RunData) -> None:
    assert [(each.cell_id, each.curve.knee) for each in cell_curves(run)] == [(BASELINE, 8), (CELL, 8)]
    rate, why, fast, mean = answer_of_run(run).sentences
    assert rate.startswith("cell handled 0.50× the requests of base (")
    assert rate.endswith("): each serves 8 requests at a time.")
    assert why == (
        "That is because each answer of cell waits 9.90 ms without using the CPU, and each of base 4.90 ms; in each, 8 of "
        "16 requests are served, and 8 wait."
    )
    assert fast.startswith(
        "At 400 requests/s cell answered in 10.0 ms, base in 5.00 ms (p99 11.0 ms and 5.50 ms: 2.00×"
    )
    assert (
        mean
        == "cell took 5.02 ms longer on average: 4.42 ms more for waits without CPU, 600 µs more for run-queue delay."
    )


def test_a_held_rate_shows_what_is_no_time_in_a_slot(run: RunData) -> None:
    """With 40 ms of delayed acknowledgements, 64 connections are needed for the rate of 8 slots of 5 ms."""
    connections = 16.0 * run.rows("load_curve")["connections"]
    rates = (connections / 0.045).clip(upper=SLOTS / SERVICE_S[BASELINE])
    curves = run.rows("load_curve").assign(connections=connections.astype(int), in_flight=connections, rps=rates)
    delayed = replace(run, table=lambda name: curves if name == "load_curve" else run.rows(name))
    of_base = next(each.curve for each in cell_curves(delayed) if each.cell_id == BASELINE)
    assert of_base.limit.slots == pytest.approx(SLOTS, rel=0.01)
    unheld = replace(delayed, trials=delayed.trials[delayed.trials["kind"] != "held"])
    of_base = next(each.curve for each in cell_curves(unheld) if each.cell_id == BASELINE)
    assert of_base.limit.slots == pytest.approx(SLOTS * 9)


def test_a_rate_below_the_limit_is_that_of_its_connections(run: RunData) -> None:
    growing = run.rows("load_curve").assign(
        rps=lambda each: (
            each["connections"]
            / each["trial_id"].map({f"curve-{cell}": service_s for cell, service_s in SERVICE_S.items()})
        )
    )
    below = replace(run, table=lambda name: growing if name == "load_curve" else run.rows(name))
    rate, *_ = answer_of_run(below).sentences
    assert rate.startswith("cell handled 0.50× the requests of base at 16 connections (")
    assert rate.endswith("): each does not reach its limit with 32 connections.")
    other = below.trials["connections"].mask(below.trials["cell_id"].eq(CELL), 32)
    rate, *_ = answer_of_run(replace(below, trials=below.trials.assign(connections=other))).sentences
    assert rate.startswith("cell handled 0.50× the requests of base at 32 and 16 connections (")
    no_trials = below.trials[below.trials["kind"] != "measure"]
    assert answer_of_run(replace(below, trials=no_trials)).trust == "no"
    rate, *_ = answer_of_run(replace(run, trials=run.trials.assign(connections=4))).sentences
    assert rate.startswith("cell handled 0.50× the requests of base at 4 connections (")
    assert rate.endswith(")."), "4 connections fill none of the 8 slots"


def test_traces_say_what_threads_wait_for_except_for_work(run: RunData) -> None:
    traced = [
        Component(
            cell_id=CELL, baseline_id=BASELINE, level="waiting", service="app", component=name, unit="sec/req",
            value=wait_s, baseline_value=0.006, difference=wait_s - 0.006, blocks=3,
        )
        for name, wait_s in (("work in epoll", 0.02), ("timers", 0.0011), ("pipes", 0.007))
    ]  # fmt: skip
    curves = {each.cell_id: each.curve for each in cell_curves(run)}
    clause = waiting_clause(ComparedCells(CELL, BASELINE), run, curves, traced, {CELL: "b", BASELINE: "a"})
    assert clause is not None
    assert clause.endswith("; by traces, threads of b wait 4.90 ms less for timers")


def test_a_phase_at_a_held_rate_has_ratios_of_its_own(run: RunData) -> None:
    held = held_of(run)
    assert held is not None
    assert held.rate == 400
    assert {ratio.metric for ratio in held.ratios} == {"latency_p50_s", "latency_p99_s", "latency_p999_s"}
    assert all(ratio.low is not None and ratio.low < 2 < (ratio.high or 0) * 1.01 for ratio in held.ratios)


def test_the_mean_time_of_an_answer_is_cpu_time_run_queue_delay_and_the_rest(run: RunData) -> None:
    *parts, total = (each for each in components_of(run) if each.level == "answer")
    assert total.value == pytest.approx(0.01, rel=0.01)
    assert total.baseline_value == pytest.approx(0.005)
    rest = {CELL: total.value - CPU_S - QUEUED_S[CELL], BASELINE: 0.005 - CPU_S - QUEUED_S[BASELINE]}
    assert {(each.service, each.component): (each.value, each.baseline_value) for each in parts} == {
        ("app", CPU_TIME): pytest.approx((CPU_S, CPU_S)),
        ("app", RUN_QUEUE_DELAY): pytest.approx(tuple(QUEUED_S.values())),
        (None, WITHOUT_CPU): pytest.approx(tuple(rest.values())),
    }
    held = held_of(run)
    assert held is not None
    assert [part for part in held.parts if part.is_sum] == [total]
    base, _ = held.servers
    assert base.answer is not None
    assert base.answer.text == "5.00 ms: 100 µs on CPUs, 200 µs in run queues, 4.70 ms waits without CPU"


def test_parts_of_an_answer_are_unknown_where_a_service_lacks_its_run_queue_delay(run: RunData) -> None:
    telemetry = run.rows("telemetry")
    other = telemetry[telemetry["metric"] == "cpu_s_total"].assign(service="database")
    tables = {"telemetry": pd.concat([telemetry, other], ignore_index=True)}
    without = replace(run, table=lambda name: tables[name] if name in tables else run.rows(name))
    assert not [each for each in components_of(without) if each.level == "answer"]
    held = held_of(without)
    assert held is not None
    assert {server.answer for server in held.servers} == {None}


def test_first_trials_at_a_rate_that_was_lowered_are_left_out(run: RunData) -> None:
    is_first = run.trials["kind"].eq("held") & run.trials["block"].eq(1)
    rates = run.trials["rate_requested"].mask(is_first, 660.0)
    lowered = replace(run, trials=run.trials.assign(rate_requested=rates)).held
    assert lowered is not None
    assert sorted(lowered.trials["block"].unique()) == [2, 3]


@pytest.mark.parametrize(
    ("service", "named"),
    [
        ({"run": ["gunicorn", "-w", "8", "app:app"]}, "stated by `-w 8`"),
        ({"run": ["gunicorn", "--workers=2", "--threads", "4"]}, "stated by `--workers=2` and `--threads 4`"),
        ({"run": ["php", "-S", "x"], "env": {"PHP_CLI_SERVER_WORKERS": "8"}}, "stated by `PHP_CLI_SERVER_WORKERS=8`"),
        ({"backend": "phpfpm", "workers": 8}, "stated by `workers: 8`"),
        ({"run": ["gunicorn", "-w", "4"]}, ""),
    ],
)
def test_options_that_state_the_slots_are_named(run: RunData, service: dict[str, Any], named: str) -> None:
    stacks = {name: {"entry": "app", "services": {"app": service}} for name in ("cell", "base")}
    manifest = run.manifest.model_copy(update={"scenario": {**run.manifest.scenario, "stacks": stacks}})
    limits = {each.curve.limit.sentence for each in cell_curves(replace(run, manifest=manifest))}
    assert limits == {
        "it serves 8 requests at a time (rate × response time = 8, 95 % CI 8 to 8" + (f"; {named})" if named else ")")
    }


@pytest.mark.parametrize(("workers", "requests"), [("32", "32 requests"), ("8", "about 33.9 requests")])
def test_stated_slots_are_chosen_among_those_that_agree(run: RunData, workers: str, requests: str) -> None:
    service = {"run": ["gunicorn", "-w", workers]}
    stacks = {name: {"entry": "app", "services": {"app": service}} for name in ("cell", "base")}
    manifest = run.manifest.model_copy(update={"scenario": {**run.manifest.scenario, "stacks": stacks}})
    one = pd.DataFrame([points(CELL)[0]])
    numbers = [2**power for power in range(9)]
    rows = pd.concat([one.assign(connections=n, in_flight=float(n), rps=min(n, 33.9) / 0.01) for n in numbers])
    (curve,) = cell_curves(replace(run, manifest=manifest, table=lambda _: rows))
    assert curve.curve.limit.sentence.startswith(f"it serves {requests} at a time (")
