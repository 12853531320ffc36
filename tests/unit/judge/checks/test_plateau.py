"""Tests of the check plateau."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest

from benchkit.judge.check import RATES
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import SERVERS, run_findings, trial_ids


def plateau_trials(rates: Sequence[float], cores: Sequence[float], cells: Sequence[str] | None = None) -> pd.DataFrame:
    names = cells or [f"stack={each['stack']}" for each in SERVERS]
    made = trials_of({name: [rate] * 3 for name, rate in zip(names, rates, strict=True)}, connections=64)
    cpu = {name: cores_ / rate for name, rate, cores_ in zip(names, rates, cores, strict=True)}
    return made.assign(server_cpu_s_per_request=made["cell_id"].map(cpu))


@pytest.mark.parametrize(
    ("rates", "cores", "expected"),
    [
        ((1000, 1010, 1019), (0.3, 0.5, 0.9), True),
        ((1000, 1010, 1021), (0.3, 0.5, 0.9), False),
        ((1000, 1010, 1019), (0.85, 0.87, 0.93), False),
    ],
)
def test_three_servers_with_equal_rates_and_different_cpu(
    rates: Sequence[float],
    cores: Sequence[float],
    *,
    expected: bool,
) -> None:
    reasons = run_findings("plateau", manifest_of(SERVERS), plateau_trials(rates, cores))
    assert set(reasons) == (trial_ids("stack=a") | trial_ids("stack=b") | trial_ids("stack=c") if expected else set())
    assert all((each.severity, each.metrics) == ("suspect", RATES) for each in reasons.values())


def test_one_server_under_three_loads_is_no_plateau() -> None:
    cells = [{"connections": count} for count in (1, 2, 3)]
    names = [f"connections={count}" for count in (1, 2, 3)]
    trials = plateau_trials((1000, 1001, 1002), (0.3, 0.6, 0.9), names)
    assert run_findings("plateau", manifest_of(cells), trials) == {}
