from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from benchkit.comparison.adaptive import StopDecision, decide, stop_rule
from benchkit.models.design import StopCondition
from benchkit.models.rows import TrialRow
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.store.parquet_files import arrow_schema, rows_from_arrow
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import EQUAL_PROBES

UNTIL = StopCondition(precision=0.05, budget_s=600)
MOST = 30
ASKED = [("rps", ComparedCells("b", "a")), ("rps", ComparedCells("c", "a"))]


def trials(blocks: int, spread: float) -> pd.DataFrame:
    noise = np.exp(spread * np.random.default_rng(8).standard_normal((3, blocks)))
    return trials_of({"a": 100 * noise[0], "b": 50 * noise[1], "c": 70 * noise[2]})


def rows_of(made: pd.DataFrame) -> list[TrialRow]:
    """Return rows as a run has them while it runs."""
    schema = arrow_schema("trials")
    return rows_from_arrow(TrialRow, pa.Table.from_pandas(made[schema.names], schema=schema, preserve_index=False))


def test_run_ends_when_every_ratio_is_precise_enough() -> None:
    decision = decide(trials(8, 0.01), ASKED, UNTIL, max_blocks=MOST, elapsed_s=100, block_s=20)
    assert decision.stop
    assert decision.reason == "every interval is within ± 5.0%"
    assert decision.precision is not None
    assert decision.precision < 0.05
    assert decision.blocks == 8


def test_ratios_of_claims_must_be_precise_in_their_metric() -> None:
    claim = {
        "text": "nginx takes less CPU",
        "metric": "server_cpu_s_per_request",
        "ratio": {"of": {"stack": "nginx"}, "to": {"stack": "other"}},
        "at_most": 1,
    }
    cells = [{"stack": "go"}, {"stack": "nginx"}, {"stack": "other"}]
    rule = stop_rule(manifest_of(cells, scenario={"until": {"precision": 0.05}, "claims": [claim]}, blocks=30))
    assert rule is not None
    assert rule.ratios == (
        ("rps", ComparedCells("stack=nginx", "stack=go")),
        ("rps", ComparedCells("stack=other", "stack=go")),
        ("server_cpu_s_per_request", ComparedCells("stack=nginx", "stack=other")),
    )


def test_precision_never_ends_a_run_before_its_minimum_of_blocks() -> None:
    decision = decide(trials(6, 0.001), ASKED, UNTIL, max_blocks=MOST)
    assert not decision.stop
    assert decision.reason == "6 of at least 7 blocks"
    assert decide(trials(7, 0.001), ASKED, UNTIL, max_blocks=MOST).stop


def test_run_goes_on_while_a_p99_at_the_held_rate_lacks_requests_that_the_budget_has_time_for() -> None:
    def decision_with(requests: int) -> StopDecision:
        held = trials_of({"a": np.full(8, 50.0)}).assign(kind="held", requests=requests)
        both = pd.concat([trials(8, 0.01), held])
        return decide(both, ASKED, UNTIL, max_blocks=MOST, elapsed_s=200, block_s=20)

    assert decision_with(125).stop, "8 × 125 are 1,000"
    assert decision_with(124).reason == "too few requests at the held rate for a p99"
    assert not decision_with(36).stop, "20 more blocks fit into 600 s"
    assert decision_with(35).stop


def test_run_ends_after_its_blocks_or_its_time_budget() -> None:
    wild = trials(30, 0.5)
    assert decide(wild, ASKED, UNTIL, max_blocks=MOST).reason == "all 30 blocks are done"
    short = trials(3, 0.5)
    assert (
        decide(short, ASKED, UNTIL, max_blocks=MOST, elapsed_s=590, block_s=20).reason
        == "the time budget is spent (600 s)"
    )
    assert not decide(short, ASKED, UNTIL, max_blocks=MOST, elapsed_s=580, block_s=20).stop
    too_few = decide(trials(2, 0.5), ASKED, UNTIL, max_blocks=MOST, elapsed_s=900, block_s=450)
    assert not too_few.stop, "two blocks have no interval, however long they take"


def test_one_cell_alone_must_be_known_by_itself() -> None:
    noise = np.exp(0.01 * np.random.default_rng(8).standard_normal(8))
    decision = decide(trials_of({"a": 100 * noise}), [], UNTIL, max_blocks=MOST)
    assert decision.stop
    assert decision.precision is not None
    assert decision.precision < UNTIL.precision
    assert not decide(trials_of({"a": 100 * noise**10}), [], UNTIL, max_blocks=MOST).stop


def test_stop_rule_excludes_trials_that_run_checks_find_invalid() -> None:
    """Give nginx another status in its first four trials: four of eight blocks remain."""
    cells = [{"stack": "go"}, {"stack": "nginx"}]
    rule = stop_rule(manifest_of(cells, scenario={"until": {"precision": 0.05}}, blocks=30))
    assert rule is not None
    made = trials_of({"stack=go": np.linspace(100, 101, 8), "stack=nginx": np.linspace(51, 50, 8)}, **EQUAL_PROBES)
    assert rule(rows_of(made), 10, 1).stop
    early = (made["cell_id"] == "stack=nginx") & (made["block"] <= 4)
    decision = rule(rows_of(made.assign(probe_status=np.where(early, 204, 200))), 10, 1)
    assert not decision.stop
    assert decision.reason == "4 of at least 7 blocks are usable for stack=nginx"


def test_run_ends_once_every_interval_excludes_the_asked_ratio() -> None:
    until = StopCondition(precision=0.001, min_blocks=6, excludes=0.9)
    made = trials(8, 0.02)  # ratios near 0.5 and 0.7
    decision = decide(made, ASKED, until, max_blocks=MOST)
    assert decision.stop
    assert decision.reason == "every interval excludes 0.9"
    assert not decide(made, ASKED, until.model_copy(update={"excludes": 0.7}), max_blocks=MOST).stop
    assert not decide(made, ASKED, until.model_copy(update={"excludes": None}), max_blocks=MOST).stop
