from __future__ import annotations

import pandas as pd
import pytest

from benchkit.comparison.ratios import Ratio
from benchkit.comparison.server_results import CPU_IS_LIMIT, ServerResult, describe_limit, has_answer


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


def skipped(*checks: str) -> pd.DataFrame:
    rows = [(f"t{number}", check, "not watched") for check in checks for number in (1, 2, 3)]
    return pd.DataFrame(rows, columns=["trial_id", "check", "why"])


@pytest.mark.parametrize(
    ("found", "start"),
    [
        (findings("server-idle", "generator-saturated"), "The load tool is the limit"),
        (findings("server-idle", "link-saturated"), "The network is the limit (seen by link-saturated)"),
        (findings("server-idle"), "Server CPU, load tool and links of known rate are not"),
        (findings("server-idle", "noisy-host"), "What limits it is not known (seen by noisy-host)"),
        (findings("generator-saturated", trials=1), CPU_IS_LIMIT),
    ],
)
def test_the_limit_is_what_the_checks_of_most_trials_found(found: pd.DataFrame, start: str) -> None:
    assert describe_limit(TRIALS, found, skipped()).startswith(start)


def test_the_limit_of_a_server_that_is_not_watched_is_not_known() -> None:
    sentence = "What limits it is not known: not watched."
    assert describe_limit(TRIALS, findings(), skipped("server-idle", "cold")) == sentence
