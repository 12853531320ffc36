"""Numbers of figures stay in the physical range: CPUs busy, shares, use of links, over recorded and built runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.runs.worker_balance import worker_balances
from benchkit.report.figures.registry import FIGURES, get_figure
from benchkit.report.figures.telemetry import accept_queue_table, host_activity_table
from benchkit.report.stored_run import StoredRun, read_run
from benchkit.store.store import Store
from tests.support.paths import ROOT
from tests.support.report.fixtures import watched

MakeRun = Callable[..., StoredRun]

RECORDED = Store(ROOT / "notebooks" / "recorded")
TICK = 1.05
"""Factor for the clock of the samples, which differs by some milliseconds from the clock of the counters."""
LINK_BYTES_PER_S = 10e9 / 8
"""The rate of a link of the recorded lab."""


def on_two_hosts(run: StoredRun) -> StoredRun:
    """Return the run with the telemetry of each host doubled on another one, which has counted for days.

    Services, interfaces, cores and pids have the same names on both, as the agents of all hosts have.
    """
    telemetry = run.telemetry
    is_total = telemetry["metric"].str.endswith("_total")
    twins = telemetry.assign(
        host=telemetry["host"].astype(str) + "-2", value=telemetry["value"].where(~is_total, telemetry["value"] + 5e5)
    )
    both = pd.concat([telemetry, twins], ignore_index=True)
    table = run.table
    return replace(run, table=lambda name: both if name == "telemetry" else table(name))


@pytest.fixture
def runs(make_run: MakeRun) -> list[StoredRun]:
    """Recorded and built runs, some also with every service on two hosts."""
    built = watched(make_run({"stack": ["go", "nginx-go"], "connections": [16, 256]}))
    recorded = [read_run(RECORDED, run) for run in RECORDED.runs()]
    return [*recorded, built, *(on_two_hosts(run) for run in (recorded[0], recorded[3], built))]


def cpus_of(run: StoredRun) -> int:
    """Return the number of CPUs of the largest host; two hosts of a built run have one each."""
    return max([1, *(len(host.facts.cpus) for host in run.manifest.hosts)])


def numbers(rows: Sequence[Sequence[float | None]]) -> list[float]:
    """Return the known numbers."""
    return [value for row in rows for value in row if value is not None and not np.isnan(value)]


def test_hosts_use_no_more_than_their_cpus_and_links(runs: list[StoredRun]) -> None:
    for run in runs:
        limits = {"CPUs busy": cpus_of(run) * TICK, "sent": LINK_BYTES_PER_S}
        for row in host_activity_table(run).rows:
            if (limit := limits.get(row[2].text)) is not None:
                values = numbers([[entry.value for entry in row[3:6]]])
                assert values
                assert all(0 <= value <= limit for value in values), (run.manifest.run_id, row)
        busiest = get_figure("host-activity").draw(run).axes[0].get_ylim()
        # A line joins samples a fraction of a second apart, in which the clocks differ by more.
        assert busiest[0] == 0
        assert busiest[1] <= 1.1 * cpus_of(run) * 1.5, (run.manifest.run_id, busiest)


def test_queues_are_no_longer_than_their_limit(runs: list[StoredRun]) -> None:
    for run in runs:
        if get_figure("accept-queue").is_available(run):
            for row in accept_queue_table(run).rows:
                deepest, limit, overflows, trials, excluded = (entry.value for entry in row[1:])
                assert deepest is None or limit is None or 0 <= deepest <= limit + 1
                assert overflows is not None
                assert overflows >= 0
                assert trials is not None
                assert excluded is not None
                assert 0 <= excluded <= trials <= len(run.measured)


def test_shares_are_between_0_and_1(runs: list[StoredRun]) -> None:
    found = [each for run in runs for each in run.service_profiles]
    assert found
    for each in found:
        shares = [each.waiting, *each.range, *each.categories.values(), *each.cumulative.values()]
        assert all(0 <= share <= 1.0001 for share in shares), each
        assert sum(each.categories.values()) == pytest.approx(1)
    for run in runs:
        if get_figure("scheduler").is_available(run):
            low, high = get_figure("scheduler").draw(run).axes[0].get_ylim()
            assert 0 <= low < high <= 1.2


def test_work_is_divided_among_the_workers_of_one_host(runs: list[StoredRun]) -> None:
    for run in runs:
        for each in worker_balances(run.measured, run.telemetry):
            assert 1 <= each.busiest <= each.highest <= each.workers
            assert 0 <= each.idle <= each.workers


def test_no_figure_has_an_unlimited_number_or_a_negative_one_but_differences(runs: list[StoredRun]) -> None:
    for run in runs:
        for figure in FIGURES.values():
            table = figure.table(run) if figure.table is not None and figure.is_available(run) else None
            for row in table.rows if table is not None else ():
                values = numbers([[entry.value for entry in row]])
                lowest = -np.inf if figure.name == "why" else -np.nextafter(0, 1)
                assert all(lowest < value < np.inf for value in values), (run.manifest.run_id, figure.name, row)


def test_the_doubled_run_would_show_counters_that_interleave(make_run: MakeRun) -> None:
    one = watched(make_run())
    two = on_two_hosts(one)
    rows = two.telemetry[two.telemetry["metric"] == "cpu_s_total"].sort_values(["trial_id", "service", "t_s"])
    mixed = rows.groupby(["trial_id", "service"])["value"].diff()
    assert mixed.max() > 1000  # what a grouping by the service alone computes
