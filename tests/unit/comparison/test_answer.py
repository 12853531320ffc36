from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.answer import WHY_UNKNOWN, Answer, write_answer
from benchkit.comparison.compare import answer_of_run, compare, compare_cells
from benchkit.comparison.runs.run_data import RunData, run_data_from_tables
from benchkit.comparison.texts import markdown, markdown_text
from benchkit.models.base import Levels
from benchkit.models.metrics import CPU, P99
from benchkit.stats.samples import Exclusion
from benchkit.store.parquet_files import empty_frame
from tests.support.comparison.fixtures import StoreRun, manifest_of, trials_of

GO, NGINX = {"stack": "go"}, {"stack": "nginx-go"}
BELIEVED = "It can be believed: no check found a fault in the trials that it uses."


def spread(mean: float, blocks: int = 8, seed: int = 1) -> list[float]:
    """Return values of blocks around a mean, with a deviation of 2 %."""
    return list(mean * np.exp(np.random.default_rng(seed).normal(0, 0.02, blocks)))


def verdicts(*reasons: tuple[str, str, str]) -> pd.DataFrame:
    """Return rows of `verdicts` about RPS: trial, check, severity."""
    rows = [
        {"trial_id": trial_id, "check": check, "severity": severity, "metrics": ["rps"]}
        for trial_id, check, severity in reasons
    ]
    return pd.DataFrame(rows) if rows else empty_frame("verdicts")


def answer_of(data: RunData, metrics: Sequence[str] = ("rps",)) -> Answer:
    """Return the answer of a run, each metric a family of its own."""
    return write_answer([ratio for metric in metrics for ratio in compare_cells(data, [metric]).ratios], [data])


def two_cells(
    factor: float,
    *reasons: tuple[str, str, str],
    blocks: int = 8,
    p99: float | None = None,
    **manifest: Any,  # noqa: ANN401 - arguments of manifest_of
) -> RunData:
    """Return a run of go and nginx-go: with the rate of nginx-go relative to go, and reasons of verdicts."""
    rates = {"stack=go": spread(1000, blocks), "stack=nginx-go": spread(1000 * factor, blocks, seed=2)}
    trials = trials_of(rates, verdict="valid")
    if p99 is not None:
        is_go = trials["cell_id"] == "stack=go"
        trials[P99] = np.where(is_go, 0.004, 0.004 * p99) * np.tile(np.array(spread(1, blocks, seed=3)), 2)
    return run_data_from_tables(manifest_of([GO, NGINX], **manifest), trials, verdicts(*reasons))


def test_a_difference_is_stated_with_its_interval() -> None:
    answer = answer_of(two_cells(0.44))
    assert answer.sentences == ("nginx-go handled 0.44× the requests of go (95 % CI 0.43 to 0.44).",)
    assert (answer.trust, answer.reasons, answer.trust_sentence) == ("yes", (), BELIEVED)
    (higher,) = answer_of(two_cells(12.5)).sentences
    assert higher.startswith("nginx-go handled 12.5× the requests of go (95 % CI 12.")


def test_other_metrics_of_the_same_cells_are_added() -> None:
    (sentence,) = answer_of(two_cells(0.44, p99=1.75), ["rps", P99]).sentences
    assert sentence == (
        "nginx-go handled 0.44× the requests of go (95 % CI 0.43 to 0.44); its p99 latency was 1.75× as long (95 % CI 1.7500 to 1.7500)."
    )


def test_cpu_per_request_is_added_where_rates_show_no_difference() -> None:
    def answered(factor: float) -> str:
        data = two_cells(factor)
        cpu_s = np.where(data.trials["cell_id"] == "stack=go", 0.0002, 0.001) * np.array(spread(1, 16, seed=4))
        (sentence,) = answer_of(replace(data, trials=data.trials.assign(**{CPU: cpu_s})), ["rps", CPU]).sentences
        return sentence

    assert "; it used 5.03× the CPU time per request (95 % CI 4." in answered(1.0)
    assert "CPU" not in answered(0.44)


def test_too_few_blocks_decide_nothing() -> None:
    answer = answer_of(two_cells(0.44, blocks=2, p99=1.75), ["rps", P99])
    (sentence,) = answer.sentences
    assert sentence.startswith("Undecided: nginx-go handled 0.4")
    assert sentence.endswith("; its p99 latency was 1.75× as long.")
    assert answer.trust_sentence == (
        "It is not decided: 2 blocks have usable trials of both cells; an interval needs 3."
    )


@pytest.mark.parametrize("blocks", [5, 8])
def test_servers_that_do_not_differ_are_the_same_within_their_interval(blocks: int) -> None:
    answer = answer_of(two_cells(1.0, blocks=blocks))
    (sentence,) = answer.sentences
    found = re.fullmatch(
        r"nginx-go is not shown to differ from go in RPS: (.+)× \(95 % CI (.+) to (.+)\), the same within (.+) %\.",
        sentence,
    )
    assert found is not None, sentence
    ratio, low, high, within = map(float, found.groups())
    assert low < ratio < high
    assert within == pytest.approx(100 * (max(high, 1 / low) - 1), abs=0.6)
    assert answer.trust == "yes"


@pytest.mark.parametrize(("factor", "saturated"), [(1.0, 16), (1.0, 13), (0.9, 16)])
def test_servers_that_reach_the_limit_of_the_load_tool_are_not_told_apart(factor: float, saturated: int) -> None:
    data = two_cells(factor)
    invalid = [str(trial_id) for trial_id in data.trials["trial_id"]][:saturated]
    check = frozenset({"generator-saturated"})
    excluded = [Exclusion(each, "invalid: generator-saturated", checks=check) for each in invalid]
    limited = run_data_from_tables(data.manifest, data.trials, verdicts(), excluded)
    answer = answer_of(limited)
    (sentence,) = answer.sentences
    if factor == 1:
        assert sentence.startswith("nginx-go is not distinguished by this load tool from go in RPS: ")
        assert answer.trust == "with care"
        assert answer.reasons == (
            f"the load tool was the limit (in {saturated} trials): without that limit, the servers may differ",
        )
    else:
        assert " cannot be compared " in sentence, "what a limit leaves of a difference is not its size"
    other = [replace(each, checks=check | {"errors"}) for each in excluded]
    (sentence,) = answer_of(run_data_from_tables(data.manifest, data.trials, verdicts(), other)).sentences
    assert "distinguished" not in sentence, "the tool was not the only reason"


def test_invalid_trials_leave_nothing_to_compare() -> None:
    data = two_cells(0.44)
    trials = data.trials.assign(verdict="invalid")
    excluded = [Exclusion(str(trial_id), "invalid: generator-saturated") for trial_id in trials["trial_id"]]
    answer = answer_of(run_data_from_tables(data.manifest, trials, verdicts(), excluded))
    (sentence,) = answer.sentences
    assert sentence.startswith("nginx-go cannot be compared with go in RPS: the measured 0.4")
    assert sentence.endswith(" is not usable.")
    assert answer.trust == "no"
    assert answer.reasons == ("no block has usable trials of both cells: the load tool was the limit (in 16 trials)",)


def verdicts_of(data: RunData) -> pd.DataFrame:
    """Return the findings of a run as rows of `verdicts` again."""
    return verdicts(*((each.trial_id, each.check, each.severity) for each in data.findings))


def test_what_disturbed_all_cells_alike_is_one_sentence_that_names_the_program() -> None:
    disturbed = [f"r1.stack={cell}.b{block}" for cell in ("go", "nginx-go") for block in (2, 3, 5)]
    data = two_cells(0.44, *((each, "noisy-host", "suspect") for each in disturbed))
    trials = data.trials.assign(other_program=None, other_program_cores=None)
    rows = trials["trial_id"].isin(disturbed)
    trials.loc[rows, "other_program"], trials.loc[rows, "other_program_cores"] = "python3 (pid 12290)", 0.9
    answer = answer_of(run_data_from_tables(data.manifest, trials, verdicts_of(data)))
    assert answer.sentences == ("nginx-go handled 0.44× the requests of go (95 % CI 0.43 to 0.44).",)
    assert answer.trust_sentence == (
        "It can be believed with care: another program, python3 (pid 12290), used 0.90 of a core, in 6 of 16 trials."
    )
    assert answer.reasons[0].endswith("as the order of trials is random, this only widens the interval")


def test_equal_servers_say_how_far_apart_they_come_out() -> None:
    def equal(data: RunData) -> RunData:
        go, nginx = data.manifest.cells
        cells = (go, nginx.model_copy(update={"same_as": go.cell_id}))
        return run_data_from_tables(data.manifest.model_copy(update={"cells": cells}), data.trials, verdicts())

    answer = answer_of(equal(two_cells(1.0)))
    (sentence,) = answer.sentences
    assert sentence == (
        "Equal servers come out within ± 1.7 % here: nginx-go is the same server as go, and handled 1.00× the "
        "requests of go (95 % CI 0.98 to 1.01)."
    )
    assert answer.trust_sentence == BELIEVED
    apart = answer_of(equal(two_cells(0.8)))
    assert apart.trust == "no"
    assert apart.reasons[0].startswith("nginx-go differs from go, the same server, in rps")


def test_a_control_that_differs_from_itself_makes_all_ratios_unbelievable() -> None:
    rates = {
        "stack=go": spread(1000),
        "stack=nginx-go": spread(440, seed=2),
        "stack=go~control": spread(700, seed=3),
    }
    manifest = manifest_of([GO, NGINX], controls=["stack=go"])
    answer = answer_of(run_data_from_tables(manifest, trials_of(rates, verdict="valid"), verdicts()))
    assert len(answer.sentences) == 1
    assert answer.trust == "no"
    assert "differs from itself" in answer.reasons[0]


def test_responses_that_differ_are_believed_with_care_unless_declared() -> None:
    data = two_cells(0.44)
    trials = data.trials.assign(probe_body_bytes=[12.0] * 8 + [1600.0] * 8)
    answer = answer_of(run_data_from_tables(data.manifest, trials, verdicts()))
    assert answer.trust == "with care"
    assert "1600 bytes of body against 12" in answer.trust_sentence
    declared = {"differs": [{"cells": {"stack": "nginx-go"}, "what": ["body_bytes"], "why": "it is meant"}]}
    manifest = data.manifest.model_copy(update={"scenario": {**data.manifest.scenario, **declared}})
    assert answer_of(run_data_from_tables(manifest, trials, verdicts())).trust == "yes"


def test_a_run_of_one_cell_states_its_result() -> None:
    trials = trials_of({"stack=go": [900, 1000, 1100]}, verdict="valid")
    data = run_data_from_tables(manifest_of([GO]), trials, verdicts(("r1.stack=go.b1", "cold", "suspect")))
    answer = answer_of(data)
    (sentence,) = answer.sentences
    assert sentence == (
        "go handled 997 requests/s (mean of 3 blocks, 900 to 1,100); the run has no other cell to compare it with."
    )
    assert (
        answer.trust_sentence
        == "It can be believed with care: 1 of 3 trials of go is suspect (the server was still warming up)."
    )


def test_a_run_without_results_states_why() -> None:
    trials = trials_of({"stack=go": [900]}, verdict="invalid")
    data = run_data_from_tables(manifest_of([GO]), trials, verdicts(("r1.stack=go.b1", "cold", "invalid")))
    assert answer_of(data).text == (
        "go has no usable result; the measured rate was 900 requests/s (mean of 1 block). "
        "It cannot be believed: the server was still warming up (in 1 trial)."
    )
    nothing = run_data_from_tables(manifest_of([GO], unsupported={"stack=go": "no Go"}), trials.iloc[:0], verdicts())
    assert answer_of(nothing).text == "This run compares nothing. It cannot be believed: these hosts support no cell."


def test_of_many_levels_the_highest_and_the_lowest_have_a_sentence() -> None:
    cells: list[Levels] = [{"stack": stack, "connections": n} for n in (16, 64) for stack in ("go", "slow", "same")]
    factor = {"go": 1.0, "slow": 0.3, "same": 1.0}
    rates = {
        f"stack={cell['stack']},connections={cell['connections']}": spread(
            1000 * factor[str(cell["stack"])] * (1.5 if cell["connections"] == 64 and cell["stack"] == "slow" else 1),
            10,
            i,
        )
        for i, cell in enumerate(cells)
    }
    manifest = manifest_of(cells, scenario={"baseline": {"stack": "go"}})
    answer = answer_of(run_data_from_tables(manifest, trials_of(rates, verdict="valid"), verdicts()))
    assert answer.sentences[0].startswith("slow handled 0.45× the requests of go (connections 64) (95 % CI 0.4")
    assert answer.sentences[1].startswith("slow handled 0.30× the requests of go (connections 16) (95 % CI 0.")
    assert answer.sentences[2] == "And 2 more are not shown to differ."
    assert answer.trust == "yes"


def two_runs(stored: StoreRun, *rates: float) -> None:
    """Store a run for each rate of go, which uses one CPU core; nginx-go is the same in all of them."""
    for number, rate in enumerate(rates, start=1):
        cells = {"stack=go": spread(rate), "stack=nginx-go": spread(440, seed=2)}
        trials = trials_of(cells, run_id=f"r{number}", verdict="valid")
        trials[CPU] = 1 / trials["rps"]
        stored(manifest_of([GO, NGINX], run_id=f"r{number}"), trials)


@pytest.mark.parametrize(
    ("baseline", "why"),
    [
        (
            None,
            "For go, that is because each request takes 0.833 times the CPU time, 0.820 to 0.847; both use 1.00 CPU cores.",
        ),
        (
            "stack=nginx-go",
            (
                "That is because, relative to nginx-go, the CPU time per request is 0.833 times as large, 0.819 to 0.848; "
                "the CPU cores used are not shown to differ (1.00 times)."
            ),
        ),
    ],
)
def test_two_runs_say_why(tmp_path: Path, stored: StoreRun, baseline: str | None, why: str) -> None:
    two_runs(stored, 1000, 1200)
    answer = compare("r1", "r2", store=tmp_path, baseline=baseline).answer
    assert answer is not None
    assert answer.sentences[-1] == why


def test_all_forms_of_a_comparison_have_the_answer(tmp_path: Path, stored: StoreRun) -> None:
    trials = trials_of({"stack=go": spread(1000), "stack=nginx-go": spread(440, seed=2)}, verdict="valid")
    stored(manifest_of([GO, NGINX]), trials)
    found = compare("r1", store=tmp_path)
    assert found.answer is not None
    assert f"**{markdown_text(' '.join(found.answer.sentences))}**" in markdown(found)
    assert found.model_dump(mode="json")["answer"] == {
        "sentences": ["nginx-go handled 0.44× the requests of go (95 % CI 0.43 to 0.44).", WHY_UNKNOWN],
        "trust": "yes",
        "reasons": [],
    }
    assert list(found.frame()) == [
        "metric", "cell_id", "baseline", "baseline_value", "value", "ratio", "low", "high", "p_holm", "outcome", "worth",
        "blocks", "reason", "remarks",
    ]  # fmt: skip
    assert {"log_error", "df", "p_t"} <= set(found.frame(full=True))


def test_a_scenario_that_names_its_answer_opens_with_it() -> None:
    cells: list[Levels] = [{"stack": stack, "keepalive": kept} for stack in ("go", "nginx") for kept in (False, True)]
    rates = {
        f"stack={cell['stack']},keepalive={str(cell['keepalive']).lower()}": spread(1000 * (i + 1), seed=i)
        for i, cell in enumerate(cells)
    }
    asked = {"of": {"stack": "go", "keepalive": True}, "to": {"stack": "go", "keepalive": False}}
    manifest = manifest_of(cells, scenario={"answer": asked})
    trials = trials_of(rates, verdict="valid")
    answer = answer_of_run(RunData(manifest, trials))
    assert len(answer.sentences) == 1  # and none on nginx, which no question is about
    assert answer.sentences[0].startswith("keepalive true handled 1.99× the requests of keepalive false (go)")
    other = manifest_of(cells, scenario={"answer": {**asked, "to": {"stack": "other"}}})
    assert (
        "nginx" in answer_of_run(RunData(other, trials)).sentences[0]
    )  # as without an answer: the run lacks its cells
