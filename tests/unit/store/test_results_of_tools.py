"""`benchkit results` on a run with several tools: notes of trials, and the agreement of the tools."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchkit.cli.results import app
from benchkit.models.rows import NoteRow, TrialRow
from benchkit.store.row_builders import factor_rows
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.support import builders

SPEED = {"wrk": 10_000.0, "ab": 9_900.0, "hey": 5_000.0}


def _row(tool: str, block: int) -> TrialRow:
    rps = SPEED[tool] * (1 + 0.01 * block)
    return TrialRow(
        cell_id=f"tool={tool}",
        trial_id=f"r1.{block}.{tool}",
        block=block,
        position=1,
        kind="measure",
        started_at=datetime(2026, 1, 2, tzinfo=UTC),
        tool=tool,
        requests=int(rps),
        rps=rps,
        latency_mean_s=1 / rps,
        latency_resolution_s=1e-6,
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with one run of three tools in four blocks."""
    cells = builders.cells(*({"tool": tool} for tool in SPEED))
    store = Store(tmp_path)
    store.create(builders.manifest(scenario={"name": "tools"}, blocks=4, cells=cells))
    tables = RunTables(store, "tools", "r1")
    tables.replace("trials", [_row(tool, block) for block in range(1, 5) for tool in SPEED])
    tables.replace("factors", factor_rows(cells))
    tables.replace("notes", [NoteRow(trial_id="r1.2.hey", code="hey-cap", message="hey keeps a million")])
    return tmp_path


def _output(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_agreement_as_text_and_as_json(store: Path) -> None:
    text = _output("agreement", "r1", "--store", store)
    assert text.startswith(
        "RPS: the tools disagree beyond noise: medians from 5,125 (hey) to 10,250 (wrk), a factor of 2.00"
    )
    rps, latency = json.loads(_output("agreement", "r1", "--store", store, "--json"))
    assert (rps["metric"], rps["beyond_noise"], rps["blocks"]) == ("rps", True, 4)
    assert [each["tool"] for each in rps["tools"]] == ["wrk", "ab", "hey"]
    assert rps["text"] in text
    assert latency["metric"] == "latency_mean_s"
