"""Tests of all checks together."""

from __future__ import annotations

import numpy as np

from benchkit.judge.evidence import RunEvidence
from benchkit.judge.verdicts import judge_run, judge_trial
from benchkit.models.thresholds import Thresholds
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import (
    EQUAL_PROBES,
    SERVERS,
    WINDOW_S,
    build_generator,
    build_trial,
    finding_of,
    host_rows,
)

SKIPPED_WHEN_HEALTHY = ["link-saturated"]
"""The healthy trial does not record the speed of its links."""


def test_healthy_trial_is_valid() -> None:
    judgement = judge_trial(build_trial(), Thresholds())
    assert judgement.verdicts == ()
    assert judgement.verdict == "valid"
    assert [each.check for each in judgement.unchecked] == SKIPPED_WHEN_HEALTHY


def test_checks_that_need_the_host_of_an_external_server_are_skipped() -> None:
    judgement = judge_trial(build_trial(services=(), external=("app",)), Thresholds())
    assert judgement.verdicts == ()
    reason = "app is external: its host is not watched"
    assert {each.check for each in judgement.unchecked if each.why == reason} == {
        *(
            "accept-overflow",
            "cold",
            "drifted-host",
            "handshake-share",
            "link-saturated",
            "missing-connections",
            "noisy-host",
        ),
        *("service-restarted", "shared-cpus", "stalled", "throttled"),
    }
    saturated = build_trial(services=(), external=("app",), generators=(build_generator(cpu_s=0.95 * WINDOW_S),))
    assert [each.check for each in judge_trial(saturated, Thresholds()).verdicts] == ["generator-saturated"]


def test_text_has_observation_limit_consequence_and_advice() -> None:
    finding = finding_of("generator-saturated", build_trial(generators=(build_generator(cpu_s=0.95 * WINDOW_S),)))
    assert finding is not None
    assert finding.text == (
        "The load tool (wrk) on load used 95.0 % of the CPU available to it (limit: 90.0 %). The load tool was the "
        "limit, so the rate and the latencies are the tool's and not the server's. Give it more cores, threads or "
        "processes, add a load host, or lower the server's CPU."
    )


def test_run_is_judged_by_its_recorded_thresholds() -> None:
    trials = trials_of({"stack=a": 1000 * np.exp([-0.15, 0, 0.15])}, **EQUAL_PROBES)
    hosts = host_rows(("sut", "block 1", "kernel", "6.1"))
    strict, lax = (manifest_of(SERVERS[:1], thresholds={"spread": spread, "gone": 1.0}) for spread in (0.1, 0.5))
    assert judge_run(RunEvidence(strict, trials, hosts)).verdict == "suspect"
    assert judge_run(RunEvidence(lax, trials, hosts)).verdict == "valid"
