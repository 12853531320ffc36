from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import pytest

from benchkit.report.stored_run import StoredRun, known
from benchkit.report.summary import CellSummary, describe_cell, errors, summarise

MakeRun = Callable[..., StoredRun]


def descriptions(run: StoredRun) -> list[tuple[str, str]]:
    summary = summarise(run)
    return [describe_cell(cell, run.labels, run.manifest.blocks) for cell in summary]


def with_columns(run: StoredRun, **columns: Any) -> StoredRun:  # noqa: ANN401 - values of columns
    return replace(run, trials=run.trials.assign(**columns))


def test_a_cell_is_the_mean_of_its_trials_and_their_range(run: StoredRun) -> None:
    go, nginx = summarise(run)
    rates = {cell: known(run.trials_of(cell)["rps"]) for cell in ("stack=go", "stack=nginx-go")}
    assert go.mean_rps == pytest.approx(geometric_mean(rates["stack=go"]))
    assert nginx.ratio == run.comparisons[0].ratios[0]
    assert go.ratio is None


def test_the_sentence_states_ratio_sample_and_range(run: StoredRun) -> None:
    assert descriptions(run) == [
        ("71,573 requests/s", "mean of 5 trials, 69,215 to 73,489"),
        (
            "39,639 requests/s",
            "0.55\N{MULTIPLICATION SIGN} of go (95 % CI 0.54 to 0.57); mean of 5 trials, 39,366 to 40,182",
        ),
    ]


def test_a_ratio_is_relative_to_the_cells_own_baseline(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"], "cores": [1, 8]}, blocks=4, scenario={"baseline": {"stack": "go"}})
    ratios = [cell.ratio for cell in summarise(run)]
    assert [ratio and ratio.baseline for ratio in ratios] == [None, None, "stack=go,cores=1", "stack=go,cores=8"]
    details = [detail for _, detail in descriptions(run)]
    for cell, ratio, detail in zip(summarise(run), ratios, details, strict=True):
        if ratio is None:
            assert "\N{MULTIPLICATION SIGN}" not in detail
        else:
            own = cell.cell.label.replace("nginx", "go")
            assert f"\N{MULTIPLICATION SIGN} of {own} (95 % CI " in detail


def test_caveats_of_a_ratio_follow_it(make_run: MakeRun) -> None:
    differs = [{"what": ["body_bytes"], "cells": {"stack": "nginx-go"}, "why": "the <page> is another one"}]
    run = make_run(scenario={"differs": differs})
    run = with_columns(run, probe_body_bytes=[12 if "nginx" in cell else 1600 for cell in run.trials["cell_id"]])
    (note,) = run.comparisons[0].ratios[0].notes
    assert descriptions(run)[1][1].endswith(f"; {note}")


def test_few_blocks_give_a_ratio_without_an_interval(make_run: MakeRun) -> None:
    assert descriptions(make_run(blocks=2))[1][1].startswith(
        "0.56\N{MULTIPLICATION SIGN} of go (no interval); mean of 2 trials"
    )


def test_failures_are_reported_with_the_rate(run: StoredRun) -> None:
    failing = with_columns(run, errors_timeout=2, errors_read=1, non_2xx=1)
    assert descriptions(failing)[0][1].endswith(
        "; 15 failed requests; 5 responses with another status than 2xx",
    )


def test_errors_that_a_tool_does_not_count_are_absent(run: StoredRun) -> None:
    silent = with_columns(run, errors_connect=None, errors_read=None, errors_write=None, errors_timeout=None)
    assert errors(silent.trials).isna().all()
    assert summarise(silent)[0].errors is None
    partly = with_columns(run, errors_connect=None, errors_read=None, errors_write=None, errors_timeout=3)
    assert list(errors(partly.trials)) == [3.0] * 10


def test_trials_that_did_not_end_are_counted(run: StoredRun) -> None:
    cut = replace(run, trials=run.trials[run.trials["block"] < 4])
    assert descriptions(cut)[0][1].endswith("3 of 5 trials ended")


def test_unsupported_and_empty_cells_have_reasons(make_run: MakeRun) -> None:
    run = make_run(unsupported={"stack=nginx-go": "needs 300000 open files, the host allows 1024"})
    empty = replace(run, trials=run.trials.iloc[:0])
    assert descriptions(empty) == [
        ("no result", "no trial of it ended with a rate"),
        ("not measured", "not supported on these hosts: needs 300000 open files, the host allows 1024"),
    ]


@pytest.mark.parametrize("rps", [None, 0.0])
def test_a_baseline_without_a_rate_gives_no_ratio(run: StoredRun, rps: float | None) -> None:
    rates = [rps if cell == "stack=go" else 1000.0 for cell in run.trials["cell_id"]]
    cells: tuple[CellSummary, ...] = summarise(with_columns(run, rps=rates))
    assert [cell.ratio for cell in cells] == [None, None]


def test_at_a_held_rate_cells_lead_with_cpu_per_request(run: StoredRun) -> None:
    cpu = [2e-5 if cell == "stack=go" else 4e-5 for cell in run.trials["cell_id"]]
    held = with_columns(run, rate_requested=1000.0, server_cpu_s_per_request=cpu)
    (figure, _), (other, detail) = descriptions(held)
    assert figure.startswith("20.0 µs server CPU per request at ")
    assert other.startswith("40.0 µs server CPU per request at ")
    assert (
        detail == "2.00\N{MULTIPLICATION SIGN} of go (95 % CI 2.0000 to 2.0000); mean of 5 trials, 40.0 µs to 40.0 µs"
    )


def test_a_capacity_is_told_with_its_objective_and_interval(make_run: MakeRun) -> None:
    searching = {"load": {"capacity": {"slo": {"p99_s": 0.01}}}}
    run = make_run(blocks=1, scenario=searching)
    bounded = with_columns(
        run, capacity_rps=[1000.0, 500.0], capacity_low=[960.0, 480.0], capacity_high=[1040.0, 520.0]
    )
    figure, detail = descriptions(bounded)[0]
    assert figure == "1,000 requests/s"
    assert detail.startswith(
        "highest rate with p99 latency within 10.0 ms, 960 to 1,040, of 1 search; trials at that rate"
    )
    unbounded = with_columns(run, capacity_rps=[1000.0, 500.0], capacity_low=[1000.0, 500.0], capacity_high=None)
    assert [figure for figure, _ in descriptions(unbounded)] == ["at least 1,000 requests/s", "at least 500 requests/s"]
