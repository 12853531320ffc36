"""A run with every load tool on the lab: the stored rows, and the same rows rebuilt from raw files."""

from __future__ import annotations

import shutil
from typing import Any

import pandas as pd
import pytest

import benchkit
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.loadtools.registry import TOOLS
from benchkit.models.rows import TABLES
from benchkit.run.judge import rebuild_tables
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import execute
from benchkit.scenario.read import read_experiment
from benchkit.store.store import Store
from tests.support.loadtools.fixtures import PERCENTILES_ONLY
from tests.support.run.opening import open_run

USED = [name for name, tool in TOOLS.items() if tool.go_program is not None or shutil.which(tool.binary) is not None]
"""Tools of which the hosts of a lab have the program: the cells of the others are unsupported."""
"""Code of the note on a summary of siege. Before 4.1.4 a run by time may hang at its end, and prints none."""


@pytest.fixture(scope="module")
def ran(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, RunOutcome]:
    """One block of the shipped scenario with all tools that are installed."""
    if "wrk" not in USED:
        pytest.skip("wrk, the baseline, is not installed")
    store = Store(tmp_path_factory.mktemp("store"))
    experiment = read_experiment("tool-agreement", "smoke", ["blocks=1"])
    with (
        connect_all(lab.inventory()) as hosts,
        open_run(experiment, hosts, store) as opened,
    ):
        outcome = execute(opened)
    assert (outcome.status, outcome.failures) == ("done", {})
    return store, outcome


def _table(store: Store, table: str) -> pd.DataFrame:
    frame = benchkit.load(table, store=store.path)
    if "metrics" in frame:  # lists, which nothing can be sorted by
        frame = frame.assign(metrics=frame["metrics"].map(tuple))
    return frame.sort_values(list(frame.columns), ignore_index=True)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def test_every_tool_gives_a_row_with_percentiles_of_all_its_requests(ran: tuple[Store, RunOutcome]) -> None:
    store, _ = ran
    trials, latency = _table(store, "trials"), _table(store, "latency")
    assert sorted(trials["tool"]) == sorted(USED)
    raw = latency[latency["series"] == "raw"].groupby("trial_id")["count"].sum().to_dict()
    for row in _rows(trials):
        if row["tool"] in PERCENTILES_ONLY:
            assert row["trial_id"] not in raw
            continue
        # A cancelled user of siege loses a buffer of rows, or has printed one that is not counted.
        uncounted, lost = (row["connections"], 75 * row["connections"]) if row["tool"] == "siege" else (0, 0)
        assert -uncounted <= row["requests"] - raw[row["trial_id"]] <= lost, row
        assert not row["latency_corrected"]
        known = [row[f"latency_{name}_s"] for name in ("p50", "p90", "p99", "max")]
        known = [seconds for seconds in known if not pd.isna(seconds)]
        assert known == sorted(known)
        assert all(seconds >= row["latency_resolution_s"] for seconds in known)
        assert known or row["tool"] in ("ab", "siege"), row
        assert row["overhead_s"] >= 0, row
    assert set(latency.loc[latency["series"] == "corrected", "trial_id"]) == set(
        trials.loc[trials["tool"] == "wrk", "trial_id"]
    )


def test_every_table_is_rebuilt_from_raw_files(ran: tuple[Store, RunOutcome]) -> None:
    store, outcome = ran
    stored = {table: _table(store, table) for table in TABLES if store.table(table).is_dir()}
    before = {table: frame for table, frame in stored.items() if len(frame)}  # no check may have found anything
    assert {"trials", "latency", "notes", "factors", "hosts"} <= set(before)
    for table in before:
        shutil.rmtree(store.table(table))
    assert rebuild_tables(store, outcome.run) == len(USED)
    for table, frame in before.items():
        pd.testing.assert_frame_equal(frame, _table(store, table))


def test_no_files_remain_on_the_hosts(ran: tuple[Store, RunOutcome], lab: Lab) -> None:
    assert ran
    with connect_all(lab.inventory()) as hosts:
        for host in hosts:
            assert host.processes.run(["ls", "trials"]).stdout == b""
            running = host.processes.run(["ps", "-eo", "comm="]).stdout.decode().split()
            assert set(running).isdisjoint({*TOOLS, "reduce", "nethttp"})
