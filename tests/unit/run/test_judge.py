"""Verdicts of trials during a run and of stored runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchkit.comparison.components import components_of
from benchkit.comparison.runs.run_data import read_run_data
from benchkit.models.rows import VerdictRow
from benchkit.models.run import HostRecord, Manifest
from benchkit.run.judge import Judge, judge_stored_run
from benchkit.store.parquet_files import arrow_schema
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from benchkit.store.tables import load as load_table
from benchkit.store.trial_tables import TrialTables
from tests.support.comparison.fixtures import manifest_of, store_run, trials_of
from tests.support.judge.builders import (
    FACTS,
    WINDOW_S,
    Samples,
    build_generator,
    build_trial,
    healthy_telemetry,
    telemetry_columns,
)

ALIKE: dict[str, Any] = {
    "probe_status": 200,
    "probe_header_bytes": 141,
    "probe_body_bytes": 12,
    "probe_body_sha256": "ab",
}


def manifest(**fields: Any) -> Manifest:  # noqa: ANN401 - fields of Manifest
    hosts = tuple(HostRecord(name=name, roles=(name,), facts=facts) for name, facts in FACTS.items())
    return manifest_of([{"stack": "a"}], **fields).model_copy(update={"hosts": hosts})


def tables(samples: Samples | None = None, row: Mapping[str, Any] | None = None) -> TrialTables:
    """Return the rows of a healthy trial, as a run makes them."""
    evidence = build_trial()
    return TrialTables(
        trial=replace(evidence.row, **dict(row or {})),
        notes=(),
        latency=arrow_schema("latency").empty_table(),
        telemetry=telemetry_columns({**healthy_telemetry(), **(samples or {})}),
    )


def test_a_trial_gets_its_verdict_with_findings_and_skipped_checks() -> None:
    judge = Judge(manifest())
    judged = judge.add_verdict(build_trial().record, tables())
    assert judged.trial.verdict == "valid"
    assert judged.verdicts == ()
    assert judged.trial.rate_first_over_last == pytest.approx(1.0, rel=0.01)
    assert [row.check for row in judged.unchecked] == ["link-saturated"]
    assert not judge.exclusions
    full = build_trial(generators=(build_generator(cpu_s=0.95 * WINDOW_S),)).record
    judged = judge.add_verdict(full, tables())
    assert judged.trial.verdict == "invalid"
    assert [row.check for row in judged.verdicts] == ["generator-saturated"]
    assert [each.covers("rps") for each in judge.exclusions] == [True]
    assert not any(each.covers("server_cpu_s_per_request") for each in judge.exclusions)


def test_the_row_of_a_trial_has_the_speed_of_the_servers_cores() -> None:
    looks: Samples = {("cpu_loop_s", "sut", None, "0"): {0.1: 1e-5, 0.2: 1e-5, 0.3: 2e-5}}
    judge = Judge(manifest())
    seen, unseen = (judge.add_verdict(build_trial().record, tables(each)).trial for each in (looks, {}))
    assert seen.server_loop_s == pytest.approx(1.2e-5)
    assert unseen.server_loop_s is None


def stored(path: Path) -> tuple[Store, RunFolder]:
    """Store three steady trials of a cell, one of them invalid by itself, and three of a cell with other answers."""
    trials = trials_of({"stack=a": [1000, 1001, 1002], "stack=b": [900, 901, 902]}, **ALIKE, verdict="valid")
    trials.loc[trials["cell_id"] == "stack=b", "probe_status"] = 204
    run = store_run(path, manifest_of([{"stack": "a"}, {"stack": "b"}]), trials)
    verdict = VerdictRow(
        trial_id="r1.stack=a.b1",
        check="errors",
        severity="invalid",
        metrics=("rps",),
        seen="1",
        threshold="0",
        text="One.",
        scope="trial",
    )
    RunTables(Store(path), "small", "r1").replace("verdicts", [verdict])
    return Store(path), run


def verdicts(store: Store) -> dict[str, str]:
    frame: pd.DataFrame = load_table("trials", store=store.path)
    return dict(zip(frame["trial_id"], frame["verdict"], strict=True))


def test_judging_a_stored_run_adds_findings_of_the_run_and_keeps_those_of_its_trials(tmp_path: Path) -> None:
    store, run = stored(tmp_path)
    judge_stored_run(store, run)
    found = load_table("verdicts", store=store.path)
    assert sorted(zip(found["trial_id"], found["check"], found["scope"], strict=True)) == [
        ("r1.stack=a.b1", "errors", "trial"),
        *((f"r1.stack=b.b{block}", "unequal-responses", "run") for block in (1, 2, 3)),
    ]
    assert verdicts(store) == {
        "r1.stack=a.b1": "invalid",
        "r1.stack=a.b2": "valid",
        "r1.stack=a.b3": "valid",
        **{f"r1.stack=b.b{block}": "invalid" for block in (1, 2, 3)},
    }


def test_judging_a_stored_run_is_idempotent(tmp_path: Path) -> None:
    store, run = stored(tmp_path)
    judge_stored_run(store, run)
    before = {name: load_table(name, store=store.path) for name in ("trials", "verdicts", "unchecked")}
    judge_stored_run(store, run)
    for name, frame in before.items():
        pd.testing.assert_frame_equal(load_table(name, store=store.path), frame)


def test_components_are_stored_with_the_verdicts(tmp_path: Path) -> None:
    rates = {"stack=a": [1000, 1001, 1002], "stack=b": [900, 902, 901]}
    stacks = {name: {"entry": "app", "services": {"app": {}}} for name in ("a", "b")}
    trials = trials_of(rates, **ALIKE, verdict="valid", server_cpu_s_per_request=50e-6)
    run = store_run(tmp_path, manifest_of([{"stack": "a"}, {"stack": "b"}], scenario={"stacks": stacks}), trials)
    judge_stored_run(Store(tmp_path), run)
    found = load_table("components", store=tmp_path)
    assert list(found["level"]) == ["rate"] * 3 + ["service"] * 2
    expected = components_of(read_run_data(Store(tmp_path), run))
    assert list(found["difference"]) == [each.difference for each in expected]


def test_trials_that_were_never_judged_have_no_verdict(tmp_path: Path) -> None:
    run = store_run(tmp_path, manifest_of([{"stack": "a"}]), trials_of({"stack=a": [1000, 1001, 1002]}, **ALIKE))
    judge_stored_run(Store(tmp_path), run)
    assert load_table("trials", store=tmp_path)["verdict"].isna().all()
