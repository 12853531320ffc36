"""Functions for notebooks on the recorded store: percentiles, published figures beside measured ones."""

from __future__ import annotations

import pytest

import benchkit
from tests.support.paths import ROOT

RECORDED = ROOT / "notebooks" / "recorded"


def test_percentiles_come_from_merged_histograms_of_usable_trials() -> None:
    run = benchkit.find(scenario="quickstart", store=RECORDED)
    found = benchkit.percentiles(run, at=(50, 99, 99.9), store=RECORDED)
    assert list(found) == ["trials", "requests", "p50", "p99", "p99.9"]
    assert list(found.index) == ["stack=go", "stack=nginx-go"]  # in the order of the plan
    trials = benchkit.load("trials", run=run, valid_for="latency_p50_s", store=RECORDED)
    for cell_id, row in found.to_dict(orient="index").items():
        of_cell = trials[trials["cell_id"] == cell_id]
        assert row["trials"] == len(of_cell)
        assert row["p50"] <= row["p99"] <= row["p99.9"]
        for name, column in (("p50", "latency_p50_s"), ("p99", "latency_p99_s")):
            low, high = of_cell[column].min(), of_cell[column].max()
            assert low * 0.98 <= row[name] <= high * 1.02


def test_cells_whose_trials_are_all_invalid_have_no_percentiles() -> None:
    run = benchkit.find(scenario="reuseport", store=RECORDED)
    trials = benchkit.load("trials", run=run, store=RECORDED)
    unusable = trials["verdict"].eq("invalid").groupby(trials["cell_id"]).all()
    assert unusable.any()
    assert not unusable.all()
    found = benchkit.percentiles(run, store=RECORDED).index
    controls = unusable.index.str.endswith("~control")
    assert sorted(found) == sorted(unusable.index[~unusable & ~controls])


def test_published_figures_stand_beside_measured_ones() -> None:
    run = benchkit.find(scenario="nginx-vs-go", store=RECORDED)
    found = benchkit.published(run, store=RECORDED).to_dict(orient="records")
    rows = {(row["cell"], row["figure"]): row for row in found}
    measured = rows["stack=go,gomaxprocs=1", "rps"]
    assert measured["published"] == 42_745
    trials = benchkit.load("trials", run=run, valid_for="rps", store=RECORDED)
    rps = trials.loc[trials["cell_id"] == "stack=go,gomaxprocs=1", "rps"]
    assert measured["measured"] == pytest.approx(rps.median())
    assert rows["stack=go,gomaxprocs=all", "rps"]["note"] == "on these hosts the same as stack=go,gomaxprocs=1"


def test_findings_in_prose_state_the_claims_with_the_blocks_they_use() -> None:
    run = benchkit.find(scenario="fasthttp-conditions", store=RECORDED)
    text = benchkit.found(run, store=RECORDED)
    table = benchkit.claims(run, store=RECORDED)
    assert text.count("\n- ") == table["text"].nunique()
    row = table[table["text"] == "fasthttp is not twice as fast as net/http"].iloc[0]
    figures = f"{row['ratio']:.3g} [{row['low']:.3g}, {row['high']:.3g}], n={row['n']}"
    assert f"- {row['text']} ({row['whose']}): **{row['state']}** ({figures})." in text
    assert text._repr_markdown_() == text


def test_the_latest_sound_run_is_the_last_without_invalid_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BENCHKIT_RUN", raising=False)
    trials = benchkit.load("trials", store=RECORDED)
    invalid = set(trials.loc[trials["verdict"].eq("invalid"), "run_id"])
    assert invalid
    assert benchkit.find(sound=True, store=RECORDED) == max(set(trials["run_id"]) - invalid)
    monkeypatch.setenv("BENCHKIT_RUN", "r2026")
    with pytest.raises(benchkit.InputError):  # several begin so: what was asked for is not replaced
        benchkit.find(sound=True, store=RECORDED)
