from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchkit.comparison.capacity_search import MAX_PROBES, CapacitySearch, judge_probe
from benchkit.models.capacity import Objective
from benchkit.models.rows import TrialRow, VerdictRow
from benchkit.models.thresholds import Thresholds

CEILING = 10_000.0
PRECISION = 0.05


def searched(capacity: float, noise: float = 0.0, seed: int = 1) -> CapacitySearch:
    """Return a finished search for a capacity that varies from probe to probe by this standard deviation of its log."""
    rng = np.random.default_rng(seed)
    search = CapacitySearch(CEILING, PRECISION)
    while not search.is_precise and len(search.probes) < MAX_PROBES:
        rate = search.next_rate()
        search.add(rate, is_held=rate < capacity * math.exp(noise * rng.standard_normal()))
    return search


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 0.95, 1.1])
def test_a_steady_server_is_found_in_few_probes(share: float) -> None:
    search = searched(share * CEILING)
    assert search.is_precise
    assert search.interval.low <= share * CEILING <= search.interval.high
    assert search.interval.rps == pytest.approx(share * CEILING, rel=0.03)
    assert len(search.probes) <= 20
    assert search.violations == 0


def test_a_noisy_server_takes_more_probes_and_is_still_found() -> None:
    found = [searched(6_000, 0.03, seed) for seed in range(20)]
    assert sum(each.interval.low <= 6_000 <= each.interval.high for each in found) >= 18
    assert np.median([abs(math.log(each.interval.rps / 6_000)) for each in found]) < 0.03
    assert np.mean([len(each.probes) for each in found]) > len(searched(6_000).probes)


OBJECTIVE = Objective(p99_s=0.010, error_share=0.001)
ROW = TrialRow(
    cell_id="only",
    trial_id="r.b001.p001.q01",
    block=1,
    position=1,
    kind="probe",
    rate_requested=1000.0,
    rate_achieved=999.0,
    send_lag_p99_s=1e-5,
    requests=3000,
    latency_p99_s=0.004,
    errors_timeout=0,
    non_2xx=0,
)


def finding(check: str, severity: str = "invalid") -> VerdictRow:
    return VerdictRow(
        trial_id=ROW.trial_id, check=check, severity=severity, metrics=(), seen="", threshold="", text="", scope="trial"
    )


def outcome(*findings: VerdictRow, **changes: Any) -> tuple[str, str]:  # noqa: ANN401 - values of columns
    return judge_probe(replace(ROW, **changes), findings, OBJECTIVE, Thresholds())


def test_a_probe_that_keeps_all_limits_held() -> None:
    assert outcome() == ("held", "p99 latency 4.00 ms")
    assert outcome(finding("generator-saturated"))[0] == "held", "a busy load tool makes nothing faster"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"latency_p99_s": 0.011}, "p99 latency 11.0 ms"),
        ({"rate_achieved": 900.0}, "90.0 % of the rate achieved"),
        ({"non_2xx": 30}, "1.0 % failed"),
        ({"errors_timeout": 30, "requests": 2970}, "1.0 % failed"),
        ({"requests": 0, "latency_p99_s": None}, "100.0 % failed"),
    ],
)
def test_a_limit_that_is_not_kept_is_named(changes: dict[str, Any], why: str) -> None:
    assert outcome(**changes) == ("missed", why)


def test_a_load_tool_that_sent_late_bounds_nothing() -> None:
    assert outcome(latency_p99_s=0.02, send_lag_p99_s=0.015)[0] == "generator"
    assert outcome(finding("generator-saturated"), latency_p99_s=0.02)[0] == "missed", "it sent in time"
    saturated = outcome(finding("generator-saturated"), latency_p99_s=0.02, send_lag_p99_s=None)
    assert saturated == ("generator", "p99 latency 20.0 ms; the load tool was the limit")


def test_a_server_that_refuses_requests_is_the_limit_whenever_they_were_sent() -> None:
    assert outcome(non_2xx=2970, latency_p99_s=1e-4, send_lag_p99_s=5e-5) == ("missed", "99.0 % failed")


def test_a_disturbed_probe_says_nothing() -> None:
    assert outcome(finding("noisy-host"), latency_p99_s=0.5) == ("unusable", "disturbed: noisy-host")
    assert outcome(finding("noisy-host", "suspect"), latency_p99_s=0.5)[0] == "missed"
    assert outcome(finding("noisy-host"))[0] == "held", "a disturbance makes nothing faster"
    assert outcome(finding("unequal-responses")) == ("unusable", "disturbed: unequal-responses")
    assert outcome(latency_p99_s=None) == ("unusable", "too few requests for a p99 latency")
