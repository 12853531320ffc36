from __future__ import annotations

import pandas as pd
import pytest

from benchkit.comparison.ratios import Ratio
from benchkit.comparison.server_results import ServerResult, describe_limit, has_answer
from benchkit.judge.load_curve import load_curve
from benchkit.models.rows import LoadCurveRow
from benchkit.models.thresholds import Thresholds


def server(name: str, *, rps: float | None = None, ratio: float | None = None) -> ServerResult:
    compared = Ratio(metric="rps", cell_id=name, baseline="a", blocks=3, ratio=ratio)
    return ServerResult(cell_id=name, label=name, rps=rps, ratio=None if name == "a" else compared)


def test_there_is_an_answer_where_some_server_has_a_ratio_or_the_only_one_its_rate() -> None:
    assert not has_answer([server("a", rps=10.0), server("b", rps=10.0)])
    assert has_answer([server("a"), server("b"), server("c", ratio=0.5)])
    assert has_answer([server("a", rps=10.0)])
    assert not has_answer([server("a")])


TRIALS = pd.DataFrame({"trial_id": ["t1", "t2", "t3"]})


def findings(*checks: str, trials: int = 3) -> pd.DataFrame:
    rows = [(f"t{number}", check, f"seen by {check}") for check in checks for number in range(1, trials + 1)]
    return pd.DataFrame(rows, columns=["trial_id", "check", "seen"])


CURVE = load_curve(
    [
        LoadCurveRow(
            trial_id="t0",
            connections=number,
            duration_s=0.5,
            rps=min(number, 2) * 100.0,
            refused=0.0,
            failed=0.0,
            latency_p50_s=0.01,
            latency_p99_s=0.02,
            server_cores=0.1,
            server_cpu=0.1,
            generator_cpu=0.1,
            link=None,
        )
        for number in (1, 2, 4, 8)
    ],
    Thresholds(),
)


@pytest.mark.parametrize(
    ("found", "start"),
    [
        (findings("generator-saturated"), "The load tool is the limit"),
        (findings("link-saturated"), "The network is the limit (seen by link-saturated)"),
        (findings("noisy-host", "link-saturated"), "Its limit is unknown (seen by noisy-host)"),
        (findings("generator-saturated", trials=1), "It serves 2 requests at a time"),
    ],
)
def test_the_limit_is_what_the_checks_of_most_trials_found_else_that_of_the_curve(
    found: pd.DataFrame, start: str
) -> None:
    assert describe_limit(TRIALS, found, CURVE).startswith(start)


def test_the_limit_without_a_load_curve_is_not_known() -> None:
    assert describe_limit(TRIALS, findings(), None) == "Its limit is unknown: the run measured no load curve."
