"""Effects of testbeds, on runs whose true effects are known."""

from __future__ import annotations

import pytest

from benchkit.comparison.compare import compare_cells
from benchkit.comparison.runs.run_data import RunData
from benchkit.comparison.testbed_effect import effects_of_testbeds, find_testbeds, notes_on_testbeds, ratio_effects
from benchkit.models.base import Levels
from benchkit.stats.samples import take_samples
from tests.support.comparison.fixtures import manifest_of
from tests.support.comparison.testbeds import PAIR, run_of

CELLS: list[Levels] = [{"stack": "go"}, {"stack": "nginx"}]


def test_the_effect_of_a_testbed_is_found_and_is_in_no_ratio() -> None:
    trials = run_of(effect=0.9)
    (effect,) = effects_of_testbeds(take_samples(trials, "rps"), find_testbeds(trials))
    assert (effect.testbed, effect.reference) == ("b", "a")
    assert effect.ratio == pytest.approx(0.9, rel=0.03)
    assert effect.is_shown
    comparison = compare_cells(RunData(manifest_of(CELLS), trials), ["rps"])
    equal = compare_cells(RunData(manifest_of(CELLS), run_of()), ["rps"])
    assert comparison.ratios[0].ratio == pytest.approx(equal.ratios[0].ratio)
    assert comparison.ratios[0].low == pytest.approx(equal.ratios[0].low)
    (division, shown) = (note for note in comparison.notes if "estbed" in note)
    assert "testbeds a (8 blocks), b (8 blocks)" in division
    assert shown.startswith("Testbed b: ")
    assert "ratios do not" in shown


def test_a_ratio_that_depends_on_the_testbed_is_named() -> None:
    trials = run_of(ratio_effect=0.9)
    (effect,) = ratio_effects(take_samples(trials, "rps"), [PAIR], find_testbeds(trials))
    assert effect.pair == ("stack=nginx", "stack=go")
    assert effect.ratio == pytest.approx(0.9, rel=0.03)
    notes = list(notes_on_testbeds(trials, [take_samples(trials, "rps")], [PAIR]))
    assert "the ratio of stack=nginx to stack=go in" in notes[-1]
    assert "it depends on the testbed" in notes[-1]


def test_a_missing_trial_takes_its_cell_from_its_block_alone() -> None:
    trials = run_of(effect=0.9)
    missing = trials.drop(trials[(trials["block"] == 2) & (trials["cell_id"] == "stack=nginx")].index)
    (effect,) = effects_of_testbeds(take_samples(missing, "rps"), find_testbeds(missing))
    assert effect.ratio == pytest.approx(0.9, rel=0.03), "not the block's mean over the cells that it has"


@pytest.mark.parametrize("testbeds", ["a", "aaaaaaab", "ab"])
def test_nothing_is_said_that_few_blocks_cannot_show(testbeds: str) -> None:
    trials = run_of(testbeds=testbeds)
    effects = effects_of_testbeds(take_samples(trials, "rps"), found) if (found := find_testbeds(trials)) else None
    assert (None if effects is None else len(effects)) == {"a": None, "aaaaaaab": 0, "ab": 1}[testbeds]
    notes = list(notes_on_testbeds(trials, [take_samples(trials, "rps")], [PAIR]))
    assert len(notes) == (0 if testbeds == "a" else 1)
