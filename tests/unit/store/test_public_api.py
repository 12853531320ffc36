"""The public interface: its names, its page, and the selection of trials by `benchkit.loadtools`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.models.rows import LatencyRow, TrialRow, VerdictRow
from benchkit.models.run import CellRecord
from benchkit.store.row_builders import factor_rows
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.support.store.api_page import PAGE, with_generated_parts
from tests.unit.store.test_store import manifest

CELL = CellRecord(cell_id="stack=go", levels={"stack": "go"})


def trial(run_id: str, number: int, **values: Any) -> TrialRow:  # noqa: ANN401 - columns of any type
    return TrialRow(
        **{
            "cell_id": CELL.cell_id,
            "trial_id": f"{run_id}.b{number}",
            "block": number,
            "position": 1,
            "kind": "measure",
            "requests": 1_000_000,
            "rps": 100.0 * number,
            "latency_p99_s": 0.5,
            "verdict": "valid",
            **values,
        }
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three runs: `r1` and `r2` at lab scale, `r3` of another scenario at smoke scale."""
    store = Store(tmp_path)
    for run_id, scenario, scale, day in (("r1", "one", "lab", 1), ("r2", "one", "lab", 2), ("r3", "two", "smoke", 3)):
        record = manifest(run_id, scenario, (CELL,))
        store.create(record.model_copy(update={"scale": scale, "started_at": record.started_at.replace(day=day)}))
        tables = RunTables(store, scenario, run_id)
        trials = [
            trial(run_id, 1),
            trial(run_id, 2, verdict="invalid"),
            trial(run_id, 3, kind="profile"),
            trial(run_id, 4, rps=None),
            trial(run_id, 5, kind="split"),
            trial(run_id, 6, requests=10),
            trial(run_id, 7, verdict="suspect"),
        ]
        tables.replace("trials", trials)
        tables.replace("factors", factor_rows([CELL]))
        finding = VerdictRow(
            trial_id=f"{run_id}.b2",
            check="noisy-host",
            severity="invalid",
            metrics=("rps",),
            seen="",
            threshold="",
            text="",
            scope="trial",
        )
        tables.replace("verdicts", [finding])
        buckets = [LatencyRow(trial_id=each.trial_id, series="raw", low_s=0, high_s=1, count=1) for each in trials]
        tables.replace("latency", buckets)
    return tmp_path


def loaded(store: Path, table: str = "trials", **selection: Any) -> list[str]:  # noqa: ANN401 - options of any type
    return sorted(benchkit.load(table, store=store, **selection)["trial_id"])


def test_trials_valid_for_a_metric_are_those_that_ratios_use(store: Path) -> None:
    assert loaded(store, run="r1", valid_for="rps") == ["r1.b1", "r1.b6", "r1.b7"]
    assert loaded(store, run="r1", valid_for="latency_p99_s") == ["r1.b1", "r1.b2", "r1.b4", "r1.b7"]
    assert loaded(store, run="r1", valid_for=["rps", "latency_p99_s"]) == ["r1.b1", "r1.b7"]
    assert loaded(store, run="r1", valid_for="rps", kind="profile") == ["r1.b3"]
    assert loaded(store, run="r1", kind="split") == ["r1.b5"]
    assert len(loaded(store, run="r1")) == 7


@pytest.mark.parametrize(
    ("selection", "runs"),
    [
        ({}, {"r1", "r2", "r3"}),
        ({"run": "latest"}, {"r3"}),
        ({"run": "latest", "scenario": "one"}, {"r2"}),
        ({"run": "latest", "scale": "lab"}, {"r2"}),
        ({"scenario": "one"}, {"r1", "r2"}),
        ({"scale": "smoke"}, {"r3"}),
        ({"scenario": "one", "scale": "lab", "run": "r1"}, {"r1"}),
        ({"run_id": "r2"}, {"r2"}),
    ],
)
def test_runs_are_selected(store: Path, selection: dict[str, str], runs: set[str]) -> None:
    assert set(benchkit.load("trials", store=store, **selection)["run_id"]) == runs  # type: ignore[call-overload] # by name


@pytest.mark.parametrize(
    "selection",
    [
        {"run": "r2099"},
        {"run": ""},
        {"run": "r"},
        {"run_id": "r2099"},
        {"run_id": "r"},
        {"run": "r1", "run_id": "r1"},
        {"scenario": "none"},
        {"scale": "paper"},
        {"scenario": "two", "scale": "lab"},
        {"run": "r3", "scenario": "one"},
        {"valid_for": "speed"},
    ],
)
def test_a_selection_of_what_does_not_exist_is_an_error(store: Path, selection: dict[str, str]) -> None:
    with pytest.raises(InputError):
        benchkit.load("trials", store=store, **selection)  # type: ignore[call-overload] # by name


def test_the_page_has_every_function_and_every_column() -> None:
    """Compare the page with what `python -m tests.support.store.api_page` writes."""
    page = PAGE.read_text()
    assert page == with_generated_parts(page)
    assert "### trials" in page
