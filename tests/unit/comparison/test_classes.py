"""Ratios of classes of requests: families, sentences, and where no class is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchkit.cli.compare import show_classes
from benchkit.comparison.cell_results import class_results
from benchkit.comparison.compare import answer_of_run, classes_of_run, compare
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.metrics import P50, P99
from benchkit.models.rows import ClassRow
from benchkit.store.parquet_files import empty_frame
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.support.comparison.fixtures import StoreRun, manifest_of, trials_of

BLOCKS = 8
SERVERS = ("stack=go", "stack=nginx")


def run_of(factors: Mapping[str, tuple[float, float]], *, blocks: int = BLOCKS, run_id: str = "r1") -> RunData:
    """Return a run of two cells; `factors` are p50 and p99 of the second relative to the first, by class."""
    draw = np.random.default_rng(3)
    rates = {cell: 1000 * np.exp(draw.normal(0, 0.02, blocks)) for cell in SERVERS}
    trials = trials_of(rates, run_id=run_id, verdict="valid")
    rows = [
        {
            "trial_id": trial.trial_id,
            "request_class": name,
            "requests": 100 * number,
            "errors": 0,
            P50: 0.001 * (p50 if trial.cell_id == SERVERS[1] else 1) * np.exp(draw.normal(0, 0.02)),
            P99: 0.004 * (p99 if trial.cell_id == SERVERS[1] else 1) * np.exp(draw.normal(0, 0.02)),
        }
        for trial in trials.itertuples()
        for number, (name, (p50, p99)) in enumerate(factors.items(), 1)
    ]
    frame = pd.DataFrame(rows)
    return RunData(
        manifest_of([{"stack": "go"}, {"stack": "nginx"}], run_id=run_id),
        trials,
        table=lambda name: frame if name == "classes" else empty_frame(name),
    )


SAME = (1.0, 1.0)


def test_a_class_that_changes_is_named_with_its_interval() -> None:
    data = run_of({"GET /": SAME, "GET /search": (1.0, 1.8), "GET /items/{}": SAME})
    ratios = {(each.request_class, each.metric): each for each in classes_of_run(data)}
    search = ratios["GET /search", P99]
    assert len(ratios) == 6
    assert search.outcome == "higher"
    assert search.ratio == pytest.approx(1.8, rel=0.05)
    assert {key for key, each in ratios.items() if each.is_shown} == {("GET /search", P99)}
    (sentence,) = [each for each in answer_of_run(data).sentences if "GET /search" in each]
    assert sentence == (
        f"GET /search had {search.ratio:.2f}× the p99 latency (95 % CI {search.low:.2f} to {search.high:.2f}); "
        "2 other classes are not shown to differ in latency."
    )


def test_those_that_differ_most_come_first_and_the_rest_is_counted() -> None:
    factors = {f"GET /{number}": (1.0, 1.0 + number / 2) for number in range(1, 6)}
    sentence = next(
        each for each in answer_of_run(run_of({**factors, "GET /a": (1.5, 1.0)})).sentences if "GET" in each
    )
    named = [part.split()[1] for part in sentence.split("; ")[:3]]
    assert named == ["/5", "/4", "/3"]
    assert sentence.endswith("; 3 more classes differ.")


def test_two_stored_runs_are_compared_by_class(stored: StoreRun, tmp_path: Path) -> None:
    for run_id, p99 in (("r1", 1.0), ("r2", 1.8)):
        data = run_of({"GET /": SAME, "GET /search": (1.0, p99)}, run_id=run_id)
        assert data.table is not None
        stored(data.manifest, data.trials)
        rows = data.table("classes").to_dict("records")
        unknown = dict.fromkeys(
            ("weight", "other_statuses", "other_sizes", "size_low", "size_high", "latency_mean_s"), 0
        )
        tables = RunTables(Store(tmp_path), "small", run_id)
        tables.replace(
            "classes", [ClassRow(**{**unknown, **{str(name): each for name, each in row.items()}}) for row in rows]
        )
    comparison = compare("r1", "r2", store=tmp_path)
    ratios = {(each.cell_id, each.request_class): each.ratios[0] for each in comparison.classes}
    assert {key for key, each in ratios.items() if each.is_shown} == {(SERVERS[1], "GET /search")}
    assert ratios[SERVERS[1], "GET /search"].ratio == pytest.approx(1.8, rel=0.05)
    assert comparison.answer is not None
    named = [each for each in comparison.answer.sentences if "GET /search had" in each]
    assert len(named) == 1
    assert named[0].startswith("For nginx, GET /search had 1.8")
    relative = compare("r1", "r2", store=tmp_path, baseline="stack=go")
    assert {each.cell_id for each in relative.classes if each.ratios} == {SERVERS[1]}


def test_each_class_has_its_share_and_latencies_shown(capsys: pytest.CaptureFixture[str]) -> None:
    data = run_of({"GET /": SAME, "GET /search": (1.0, 1.8)})
    results = class_results(data, classes_of_run(data))
    assert [(each.label, each.request_class) for each in results] == [
        (cell, name) for cell in ("go", "nginx") for name in ("GET /", "GET /search")
    ]
    assert [each.share for each in results] == pytest.approx([1 / 3, 2 / 3] * 2)
    assert results[3].latency_p99_s == pytest.approx(0.0072, rel=0.05)
    assert [len(each.ratios) for each in results] == [0, 0, 2, 2]
    show_classes(results)
    line = capsys.readouterr().out.splitlines()[-1].split()
    assert line[:4] == ["GET", "/search", "nginx", "66.7"]
    assert line[-2:] == ["higher", "(worse)"]
