from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchkit.comparison.compare import compare
from benchkit.comparison.texts import markdown
from benchkit.errors import InputError
from benchkit.models.design import ALPHA_PER_LOOK
from benchkit.stats.samples import Reals
from tests.support.comparison.fixtures import StoreRun, manifest_of, trials_of

CELLS = [{"stack": "go"}, {"stack": "nginx"}, {"stack": "other"}]


def noisy(seed: int, *rates: float, blocks: int = 8, spread: float = 0.02) -> list[Reals]:
    generator = np.random.default_rng(seed)
    return [rate * np.exp(spread * generator.standard_normal(blocks)) for rate in rates]


def rates(seed: int, *values: float, blocks: int = 8) -> dict[str, Reals]:
    names = ("stack=go", "stack=nginx", "stack=other")
    return dict(zip(names, noisy(seed, *values, blocks=blocks), strict=False))


def test_cells_of_a_run_relative_to_its_baseline(tmp_path: Path, stored: StoreRun) -> None:
    scenario = {"baseline": {"stack": "nginx"}}
    stored(manifest_of(CELLS, scenario=scenario), trials_of(rates(1, 100, 50, 50.1)))
    found = compare("r1", store=tmp_path)
    assert [(r.cell_id, r.baseline, r.outcome, r.worth) for r in found.ratios] == [
        ("stack=go", "stack=nginx", "higher", "better"),
        ("stack=other", "stack=nginx", "not shown", None),
    ]
    assert found.mode == "cells"
    assert found.gate is None
    assert found.notes == ()
    assert found.resolution["rps"].family == 2
    assert found.resolution["rps"].noise_sd == pytest.approx(0.02 * np.sqrt(2), rel=0.5)
    other = compare("r1", store=tmp_path, baseline="stack=go", metrics=["rps", "requests"])
    assert [(r.cell_id, r.metric) for r in other.ratios] == [
        ("stack=nginx", "rps"),
        ("stack=other", "rps"),
        ("stack=nginx", "requests"),
        ("stack=other", "requests"),
    ]
    assert other.ratios[0].p_holm == pytest.approx(4 * 2 / 256)  # one family over metrics and cells
    frame = other.frame()
    assert frame["ratio"].tolist() == [ratio.ratio for ratio in other.ratios]
    assert "exclusions" not in frame


def test_runs_on_different_hosts_are_compared_by_ratios_to_a_common_baseline_alone(
    tmp_path: Path, stored: StoreRun
) -> None:
    large = {"cpus": [0, 1, 2, 3], "kernel": "6.1"}
    stored(manifest_of(CELLS[:2]), trials_of(rates(1, 100, 50)))
    for run_id, cells, facts in (("r2", CELLS[:2], large), ("r3", CELLS[1:], large), ("r4", CELLS[:2], None)):
        trials = trials_of(rates(2, 400, 100), run_id=run_id)
        trials = trials[trials["cell_id"].isin([f"stack={cell['stack']}" for cell in cells])]
        stored(manifest_of(cells, run_id=run_id, facts=facts), trials)
    found = compare("r1", "r2", store=tmp_path)
    (ratio,) = found.ratios
    assert (ratio.cell_id, ratio.relative_to) == ("stack=nginx", "stack=go")
    assert ratio.ratio == pytest.approx(0.5, rel=0.05)
    assert ratio.baseline_value == pytest.approx(0.5, rel=0.05)
    assert found.notes[0].startswith("The runs had different hosts (host for sut: CPUs was 2, is 4)")
    with pytest.raises(InputError, match="ran on different hosts, whose rates cannot be compared"):
        compare("r1", "r3", store=tmp_path)
    assert {each.relative_to for each in compare("r1", "r4", store=tmp_path).ratios} == {None}


def test_limits_of_a_run_are_notes(tmp_path: Path, stored: StoreRun) -> None:
    manifest = manifest_of(CELLS, unsupported={"stack=other": "too few ports"}, status="interrupted")
    stored(manifest, trials_of(rates(1, 100, 50, blocks=5)))
    found = compare("r1", store=tmp_path)
    assert found.notes == (
        "r1: interrupted; partial results.",
        "stack=other: skipped, too few ports.",
        (
            "5 blocks are too few for the sign-flip test (smallest p 0.062; 6 blocks can): the t-test decides, at p "
            "below 0.01. It assumes nearly normal noise."
        ),
    )
    assert [ratio.outcome for ratio in found.ratios] == ["lower"]


def test_a_sequential_run_is_labelled_and_not_paired(tmp_path: Path, stored: StoreRun) -> None:
    stored(manifest_of(CELLS[:2], scenario={"design": "sequential"}), trials_of(rates(1, 100, 50)))
    found = compare("r1", store=tmp_path)
    assert found.notes[0].startswith("The design of r1 is sequential")
    assert found.ratios[0].test == "welch"
    assert found.runs[0].design == "sequential"
    assert found.resolution == {}


def test_latencies_measured_in_different_ways_have_a_note(tmp_path: Path, stored: StoreRun) -> None:
    trials = trials_of(rates(1, 100, 50), latency_p99_s=0.01, latency_covers="request", latency_corrected=False)
    stored(manifest_of(CELLS[:2]), trials)
    assert not any("closed loop" in note for note in compare("r1", store=tmp_path).notes)
    alike = compare("r1", store=tmp_path, metrics=["latency_p99_s"])
    reported = "closed loop: coordinated omission hides queueing; no correction applied; connecting not included"
    assert f"Latencies: {reported}." in alike.notes
    assert alike.ratios[0].notes == ()
    nginx = trials["cell_id"] == "stack=nginx"
    trials.loc[nginx, "latency_covers"] = "connect+request"
    stored(manifest_of(CELLS[:2], run_id="r2"), trials.assign(trial_id=trials["trial_id"].str.replace("r1", "r2")))
    (ratio,) = compare("r2", store=tmp_path, metrics=["latency_p99_s"]).ratios
    (note,) = ratio.notes
    assert note.startswith("latencies were measured in different ways: ")
    assert note.index("connecting included") < note.index("baseline: ") < note.index("connecting not included")


def test_adaptive_run_uses_its_stricter_level(tmp_path: Path, stored: StoreRun) -> None:
    until = {"until": {"precision": 0.05}}
    stored(manifest_of(CELLS[:2], scenario=until), trials_of(rates(1, 100, 50)))
    stored(manifest_of(CELLS[:2], run_id="r2"), trials_of(rates(1, 100, 50), run_id="r2"))
    (adaptive,), (fixed,) = (compare(run, store=tmp_path).ratios for run in ("r1", "r2"))
    assert adaptive.confidence == fixed.confidence == 0.95
    assert adaptive.low is not None
    assert (adaptive.low, adaptive.high) == pytest.approx(fixed.interval(ALPHA_PER_LOOK))
    assert adaptive.low < (fixed.low or 0)
    found = compare("r1", store=tmp_path)
    assert (found.alpha, found.level) == (0.05, ALPHA_PER_LOOK)
    assert "p must be at most 0.03" in markdown(found)
    assert "p must be" not in markdown(compare("r2", store=tmp_path))


def test_host_differences_of_two_runs_are_notes(tmp_path: Path, stored: StoreRun) -> None:
    stored(manifest_of(CELLS), trials_of(rates(1, 100, 50, 70)))
    facts = {"cpus": [0, 1], "kernel": "6.6"}
    after = manifest_of(CELLS, run_id="r2", facts=facts, scenario={"load": {"connections": 9}})
    stored(after, trials_of(rates(2, 100, 40, 70), run_id="r2"))
    found = compare("r1", "r2", store=tmp_path)
    assert found.mode == "runs"
    assert [side.run_id for side in found.runs] == ["r1", "r2"]
    assert found.notes[0] == "The hosts have drifted: host sut: kernel was 6.1, is 6.6."
    assert found.notes[1].startswith("The runs have different settings: scenario: load.connections")
    assert found.notes[-1].startswith("Two runs are one sample each")
    assert [(change.what, change.before, change.after) for change in found.drift] == [("kernel", "6.1", "6.6")]
    assert [(r.cell_id, r.outcome) for r in found.ratios] == [
        ("stack=go", "not shown"),
        ("stack=nginx", "lower"),
        ("stack=other", "not shown"),
    ]
    assert found.ratios[1].ratio == pytest.approx(0.8, rel=0.03)
    assert found.resolution == {}


def test_invalid_comparisons_are_refused(tmp_path: Path, stored: StoreRun) -> None:
    stored(manifest_of(CELLS[:2]), trials_of(rates(1, 100, 50)))
    stored(manifest_of([{"stack": "x"}], run_id="r2"), trials_of({"stack=x": [1, 2]}, run_id="r2"))
    with pytest.raises(InputError, match="r1 and r2 have no cell in common: stack=go, stack=nginx; stack=x"):
        compare("r1", "r2", store=tmp_path)
    with pytest.raises(InputError, match="r1 cannot be compared with itself"):
        compare("r1", "r1", store=tmp_path)
    with pytest.raises(InputError, match="no run 'r3'"):
        compare("r1", "r3", store=tmp_path)
    with pytest.raises(InputError, match="no level 'gone'"):
        compare("r1", store=tmp_path, baseline="stack=gone")
    with pytest.raises(InputError, match="no metric 'rsp'"):
        compare("r1", store=tmp_path, metrics=["rsp"])


def test_ratios_with_an_external_server_are_marked(tmp_path: Path, stored: StoreRun) -> None:
    manifest = manifest_of(CELLS[:2])
    go, nginx = manifest.cells
    there = nginx.model_copy(update={"external": {"app": "http://192.0.2.1:80"}})
    stored(manifest.model_copy(update={"cells": (go, there)}), trials_of(rates(1, 100, 50)))
    found = compare("r1", store=tmp_path)
    assert found.ratios[0].notes == ("unwatched: stack=nginx uses an external server, which was not watched",)
    assert found.notes[0].startswith("stack=nginx: app (http://192.0.2.1:80) is external: neither started afresh")
    after = manifest.model_copy(update={"run_id": "r2", "cells": (go, there)})
    stored(after, trials_of(rates(2, 100, 50), run_id="r2"))
    between = {ratio.cell_id: ratio.notes for ratio in compare("r1", "r2", store=tmp_path).ratios}
    assert any(note.startswith("unwatched: ") for note in between["stack=nginx"])
    assert not any(note.startswith(("unwatched: ", "A/A")) for note in between["stack=go"])


@pytest.mark.parametrize(
    ("metric", "columns", "sentence"),
    [
        (
            "server_cpu_s_per_request",
            {"rate_requested": 500.0, "rps": 500.0},
            "nginx used 1.99× the CPU time per request of go",
        ),
        ("capacity_rps", {"rate_requested": 500.0, "rps": 500.0}, "nginx had 1.99× the capacity of go"),
        ("rps", {"server_cpu_s_per_request": 1e-4}, "nginx handled 1.99×"),
    ],
)
def test_a_comparison_opens_with_what_the_load_leaves_free(
    tmp_path: Path, stored: StoreRun, metric: str, columns: dict[str, object], sentence: str
) -> None:
    stored(manifest_of(CELLS[:2]), trials_of(rates(1, 100, 200), metric=metric, **columns))  # type: ignore[arg-type]
    found = compare("r1", store=tmp_path)
    assert found.metrics == (metric,)
    assert found.answer is not None
    assert found.answer.sentences[0].startswith(sentence)
    gated = compare("r1", store=tmp_path, gated=True)
    assert gated.gate is not None
    assert [line.metric for line in gated.gate.lines] == [metric]
