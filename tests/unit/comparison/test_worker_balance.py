from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import pytest

from benchkit.comparison.runs.counters import worker_balances
from tests.support.comparison.fixtures import trials_of

CpuUsage = Mapping[str, Mapping[int, float]]
"""CPU time of the processes of each service within the window, by pid."""


def watched(
    trial_id: str, services: CpuUsage, window_s: float = 2.0, *, until_s: float | None = None, host: str = "sut"
) -> pd.DataFrame:
    """Return samples before, in the middle of and after the window; processes had used 5 s before."""
    ends = ((-0.01, 0.0), (window_s / 2, 0.5), (window_s + 0.02, 1.0))
    return pd.DataFrame(
        [
            {
                "trial_id": trial_id,
                "host": host,
                "service": service,
                "metric": "process_cpu_s_total",
                "instance": str(pid),
                "t_s": t,
                "value": 5.0 + part * taken,
            }
            for service, processes in services.items()
            for pid, taken in processes.items()
            for t, part in ends
            if until_s is None or t <= until_s
        ]
    )


@pytest.fixture
def trials() -> pd.DataFrame:
    return trials_of({"a": [10, 10, 10]}, duration_s=2.0)


def test_busiest_worker_relative_to_the_mean(trials: pd.DataFrame) -> None:
    telemetry = pd.concat(
        [
            watched("r1.a.b1", {"front": {9: 0.0, 10: 1.0, 11: 1.0}, "app": {20: 3.0}, "pair": {30: 1.0, 31: 2.0}}),
            watched("r1.a.b2", {"front": {99: 0.0, 100: 1.5, 101: 0.5}}),
            watched("r1.a.b3", {"front": {9: 0.0, 10: 2.0, 11: 0.0}, "generator-1": {1: 1, 2: 5, 3: 9}}),
        ]
    )
    (found,) = worker_balances(trials, telemetry)
    assert (found.service, found.workers) == ("front", 2)
    assert found.busiest == pytest.approx(1.5)


def test_only_processes_that_were_there_throughout_are_workers(trials: pd.DataFrame) -> None:
    lasting = watched("r1.a.b1", {"front": {9: 0.0, 10: 1.0, 11: 1.0}})
    short = watched("r1.a.b1", {"front": {12: 3.0}}, until_s=1.5)
    (found,) = worker_balances(trials, pd.concat([lasting, short]))
    assert found.workers == 2
    assert found.busiest == pytest.approx(1.0)
    removed = watched("r1.a.b1", {"front": {9: 0.0, 10: 1.0, 11: 1.0}}, until_s=1.5)
    assert worker_balances(trials, removed) == ()
