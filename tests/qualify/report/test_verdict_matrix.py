"""Matrix of verdicts: the outcome of every planned trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure

from benchkit.report.figures.verdicts import MAX_BLOCKS, MAX_CELLS, VERDICTS
from benchkit.report.rendering import render
from benchkit.report.sections.validity import build_verdicts
from benchkit.report.stored_run import StoredRun
from benchkit.report.trial_matrix import TrialOutcome, trial_matrix
from benchkit.store.journal import RunProgress, read_progress
from tests.support.report.reading import built, cells, drawn_texts
from tests.support.report.variants import ids, judged, trial

MakeRun = Callable[..., StoredRun]

GO, NGINX = "stack=go", "stack=nginx-go"


def history(*failed: tuple[str, int, str, str]) -> RunProgress:
    """Return the progress of a journal in which these trials failed: (trial, block, cell, reason)."""
    return read_progress(
        event
        for name, block, cell, why in failed
        for event in (trial("started", name, block, cell), trial("failed", name, block, cell, why=why))
    )


@pytest.fixture
def doubted(run: StoredRun) -> StoredRun:
    """Five blocks: Go is invalid, then twice suspect; nginx failed in block 2 and is missing in block 4."""
    go, nginx = ids(run, GO), ids(run, NGINX)
    left = replace(run, trials=run.trials[~run.trials["trial_id"].isin([nginx[1], nginx[3]])])
    reasons = [(go[0], "link-saturated", "invalid", ("rps",)), (go[0], "cold", "suspect", ("rps",))]
    reasons += [(trial_id, "cold", "suspect", ("rps",)) for trial_id in go[1:3]]
    return judged(replace(left, progress=history((nginx[1], 2, NGINX, "it did not\nlisten"))), *reasons)


def states(run: StoredRun) -> dict[str, list[str]]:
    found = trial_matrix(run)
    return {cell: [outcome.state for outcome in found.of_cell(cell) if outcome] for cell in found.cells}


def marks(figure: Figure) -> dict[tuple[float, float], PathCollection]:
    """Return the marks by their places in the matrix: (block, row)."""
    found = [artist for artist in figure.axes[0].collections if isinstance(artist, PathCollection)]
    return {(x, y): each for each in found for x, y in np.asarray(each.get_offsets()).tolist()}


def test_failed_and_missing_trials_are_distinguished(doubted: StoredRun) -> None:
    assert states(doubted) == {
        GO: ["invalid", "suspect", "suspect", "valid", "valid"],
        NGINX: ["valid", "failed", "valid", "missing", "valid"],
    }
    found = trial_matrix(doubted).outcomes
    assert found[GO, 1] == TrialOutcome("invalid", "invalid (link-saturated, cold)")
    assert found[NGINX, 2] == TrialOutcome("failed", "failed: it did not listen")
    assert found[NGINX, 4].description == "missing: not run"


def test_the_worst_outcome_of_repeated_cells_is_shown(run: StoredRun) -> None:
    go = ids(run, GO)
    twice = replace(run, trials=run.trials.assign(block=[(block + 1) // 2 for block in run.trials["block"]]))
    found = states(judged(twice, (go[1], "cold", "suspect", ("rps",)), (go[2], "errors", "invalid", ("rps",))))
    assert found[GO] == ["suspect", "invalid", "valid"]


def test_failures_of_repeated_blocks_and_of_the_profile_pass_are_ignored(run: StoredRun) -> None:
    go = ids(run, GO)
    progress = history((go[0], 1, GO, "cut"), ("later", 6, GO, "perf"))
    progress.rounds[1] = 2
    assert states(judged(replace(run, progress=progress)))[GO] == ["valid"] * 5


def test_unsupported_cells_have_no_row(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "node"]}, unsupported={"stack=node": "no Node"})
    assert list(states(judged(run))) == [GO]


def test_a_block_without_a_cell_is_not_missing_it(run: StoredRun) -> None:
    grouped = run.manifest.model_copy(update={"groups": ((GO, NGINX), (GO,))})
    trials = run.trials[(run.trials["cell_id"] == GO) | (run.trials["block"] % 2 == 1)]
    matrix = trial_matrix(judged(replace(run, manifest=grouped, trials=trials)))
    assert [outcome and outcome.state for outcome in matrix.of_cell(NGINX)] == ["valid", None, "valid", None, "valid"]
    assert all(outcome is not None for outcome in matrix.of_cell(GO))


def test_a_skipped_trial_is_missing_with_its_reason(run: StoredRun) -> None:
    go = ids(run, GO)
    left = replace(run, trials=run.trials[run.trials["trial_id"] != go[2]])
    skipped = read_progress([trial("skipped", go[2], 3, GO, why="its host is gone")])
    found = trial_matrix(judged(replace(left, progress=skipped)))
    assert found.outcomes[GO, 3] == TrialOutcome("missing", "skipped: its host is gone")


def test_every_state_has_its_own_shape_and_tone(doubted: StoredRun) -> None:
    figure = VERDICTS.draw(doubted)
    drawn = marks(figure)
    assert len(drawn) == 10
    kinds = {"valid": (4, 0), "suspect": (2, 0), "invalid": (1, 0), "failed": (2, 1), "missing": (4, 1)}
    shapes = {kind: np.asarray(drawn[place].get_paths()[0].vertices).tobytes() for kind, place in kinds.items()}
    assert len(set(shapes.values())) == len(kinds)
    tones = {
        kind: (
            to_rgba_array(drawn[place].get_facecolor()).tobytes(),
            to_rgba_array(drawn[place].get_edgecolor()).tobytes(),
        )
        for kind, place in kinds.items()
    }
    assert len({tones[kind] for kind in ("valid", "suspect", "invalid", "failed")}) == 4
    assert {"5 valid", "2 suspect, 1 invalid", "1 failed, 1 missing"} <= set(drawn_texts(figure))
    sizes = {kind: float(drawn[place].get_sizes()[0]) for kind, place in kinds.items()}
    assert sizes["valid"] < sizes["invalid"]


def test_marks_have_hover_texts_with_checks(doubted: StoredRun) -> None:
    for text in (drawing := render(VERDICTS, doubted)).svg.decode(), drawing.element:
        assert "<title>go, block 1: invalid (link-saturated, cold)</title>" in text
        assert "<title>nginx-go, block 2: failed: it did not listen</title>" in text
        assert "<title>go, block 5: valid</title>" in text


def test_the_matrix_is_described(doubted: StoredRun) -> None:
    assert VERDICTS.alt(doubted) == (
        "Matrix of verdicts, cell by block: 5 valid, 2 suspect, 1 invalid, 1 failed, 1 missing; "
        "nginx-go 1 failed, 1 missing; go 2 suspect, 1 invalid."
    )


def test_cells_with_the_worst_outcomes_are_drawn_first(make_run: MakeRun) -> None:
    run = make_run({"stack": [f"s{i:03}" for i in range(MAX_CELLS + 10)]}, blocks=2)
    last, other = ids(run, f"stack=s{MAX_CELLS + 9:03}"), ids(run, "stack=s065")
    many = judged(run, (other[0], "cold", "suspect", ("rps",)), (last[1], "errors", "invalid", ("rps",)))
    figure = VERDICTS.draw(many)
    assert len(marks(figure)) == 2 * MAX_CELLS
    rows = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert rows[:3] == ["s069", "s065", "s000"]
    assert VERDICTS.caption(many).endswith(
        f"The {MAX_CELLS} cells with the worst outcomes are drawn, the worst first; the run has {MAX_CELLS + 10}."
    )
    few = judged(make_run({"stack": ["a", "b"]}, blocks=2))
    assert "are drawn" not in VERDICTS.caption(few)


def test_the_number_of_drawn_blocks_is_limited(make_run: MakeRun) -> None:
    run = judged(make_run({"stack": ["go"]}, blocks=MAX_BLOCKS + 5))
    assert len(marks(VERDICTS.draw(run))) == MAX_BLOCKS
    assert VERDICTS.caption(run).endswith("The first 120 of 125 blocks are drawn; the table has all.")


def test_a_large_matrix_is_small_and_reproducible(make_run: MakeRun) -> None:
    run = make_run({"stack": ["a", "b", "c", "d", "e"], "connections": list(range(1, 101))}, blocks=10)
    some = [(str(trial_id), "cold", "suspect", ("rps",)) for trial_id in run.trials["trial_id"][::16]]
    drawing = render(VERDICTS, judged(run, *some))
    assert len(drawing.element) < 250_000
    repeated = render(VERDICTS, judged(run, *some))
    assert (drawing.svg, drawing.png) == (repeated.svg, repeated.png)


def test_a_run_without_verdicts_has_no_matrix(run: StoredRun) -> None:
    assert not VERDICTS.is_available(run)
    assert VERDICTS.is_available(judged(run))


def test_the_table_matches_the_figure(doubted: StoredRun) -> None:
    shown = built(build_verdicts, doubted)
    check = "\N{CHECK MARK}"
    assert cells(shown.matrix) == [
        ["go", "invalid", "suspect", "suspect", check, check],
        ["nginx-go", check, "failed", check, "\N{EN DASH}", check],
    ]
