from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import pytest

from benchkit.report.sections.results import RESULTS
from benchkit.report.stored_run import StoredRun, known
from benchkit.report.summary import CellSummary, errors, summarise
from benchkit.units import ABSENT
from tests.support.report.reading import records, tables

MakeRun = Callable[..., StoredRun]


def rows(run: StoredRun) -> list[dict[str, str]]:
    return records(tables(RESULTS, run)["cells"])


def with_columns(run: StoredRun, **columns: Any) -> StoredRun:  # noqa: ANN401 - values of columns
    return replace(run, trials=run.trials.assign(**columns))


def test_a_cell_is_the_mean_of_its_trials_and_their_range(run: StoredRun) -> None:
    go, nginx = summarise(run)
    rates = {cell: known(run.trials_of(cell)["rps"]) for cell in ("stack=go", "stack=nginx-go")}
    assert go.mean_rps == pytest.approx(geometric_mean(rates["stack=go"]))
    assert nginx.ratio == run.comparisons[0].ratios[0]
    assert go.ratio is None


def test_a_row_states_result_range_and_ratio(run: StoredRun) -> None:
    go, nginx = rows(run)
    assert go == {
        "Cell": "go",
        "RPS": "71,573",
        "Range": "69,215 to 73,489",
        "Trials": "5",
        "Ratio": ABSENT,
        "Notes": ABSENT,
    }
    assert (nginx["RPS"], nginx["Ratio"]) == ("39,639", "0.55\N{MULTIPLICATION SIGN} (95 % CI 0.54 to 0.57) of go")


def test_a_ratio_is_relative_to_the_cells_own_baseline(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"], "cores": [1, 8]}, blocks=4, scenario={"baseline": {"stack": "go"}})
    ratios = [cell.ratio for cell in summarise(run)]
    assert [ratio and ratio.baseline for ratio in ratios] == [None, None, "stack=go,cores=1", "stack=go,cores=8"]
    for row, ratio in zip(rows(run), ratios, strict=True):
        own = row["Cell"].replace("nginx", "go")
        assert row["Ratio"] == ABSENT if ratio is None else row["Ratio"].endswith(f") of {own}")


def test_few_blocks_give_a_ratio_without_an_interval(make_run: MakeRun) -> None:
    assert rows(make_run(blocks=2))[1]["Ratio"] == "0.56\N{MULTIPLICATION SIGN} of go"


def test_failures_are_reported_with_the_rate(run: StoredRun) -> None:
    failing = with_columns(run, errors_timeout=2, errors_read=1, non_2xx=1)
    assert rows(failing)[0]["Notes"] == "15 failed requests; 5 responses with a status other than 2xx"


def test_errors_that_a_tool_does_not_count_are_absent(run: StoredRun) -> None:
    silent = with_columns(run, errors_connect=None, errors_read=None, errors_write=None, errors_timeout=None)
    assert errors(silent.trials).isna().all()
    assert math.isnan(summarise(silent)[0].errors)
    partly = with_columns(run, errors_connect=None, errors_read=None, errors_write=None, errors_timeout=3)
    assert list(errors(partly.trials)) == [3.0] * 10


def test_trials_that_did_not_end_are_counted(run: StoredRun) -> None:
    cut = replace(run, trials=run.trials[run.trials["block"] < 4])
    assert rows(cut)[0]["Trials"] == "3 of 5"


def test_unsupported_and_empty_cells_have_reasons(make_run: MakeRun) -> None:
    run = make_run(unsupported={"stack=nginx-go": "needs 300000 open files, the host allows 1024"})
    empty = replace(run, trials=run.trials.iloc[:0])
    assert [(row["RPS"], row["Notes"]) for row in rows(empty)] == [
        (ABSENT, "no trial of it ended with a rate"),
        (ABSENT, "not supported on these hosts: needs 300000 open files, the host allows 1024"),
    ]


@pytest.mark.parametrize("rps", [None, 0.0])
def test_a_baseline_without_a_rate_gives_no_ratio(run: StoredRun, rps: float | None) -> None:
    rates = [rps if cell == "stack=go" else 1000.0 for cell in run.trials["cell_id"]]
    cells: tuple[CellSummary, ...] = summarise(with_columns(run, rps=rates))
    assert [cell.ratio for cell in cells] == [None, None]


def test_at_a_held_rate_cells_lead_with_cpu_per_request(run: StoredRun) -> None:
    cpu = [2e-5 if cell == "stack=go" else 4e-5 for cell in run.trials["cell_id"]]
    go, nginx = rows(with_columns(run, rate_requested=1000.0, server_cpu_s_per_request=cpu))
    assert (go["server CPU per request"], nginx["server CPU per request"]) == ("20.0 µs", "40.0 µs")
    assert (nginx["Range"], nginx["RPS"]) == ("40.0 µs to 40.0 µs", "39,639")
    assert nginx["Ratio"] == "2.00\N{MULTIPLICATION SIGN} (95 % CI 2.0000 to 2.0000) of go"


def test_a_capacity_has_its_objective_and_interval(make_run: MakeRun) -> None:
    searching = {"load": {"capacity": {"slo": {"p99_s": 0.01}}}}
    run = make_run(blocks=1, scenario=searching)
    bounded = with_columns(
        run, capacity_rps=[1000.0, 500.0], capacity_low=[960.0, 480.0], capacity_high=[1040.0, 520.0]
    )
    row = rows(bounded)[0]
    assert (row["capacity"], row["Range"]) == ("1,000 requests/s", "960 to 1,040")
    assert row["Notes"] == "highest rate with p99 latency within 10.0 ms"
    unbounded = with_columns(run, capacity_rps=[1000.0, 500.0], capacity_low=[1000.0, 500.0], capacity_high=None)
    assert [row["capacity"] for row in rows(unbounded)] == ["at least 1,000 requests/s", "at least 500 requests/s"]
