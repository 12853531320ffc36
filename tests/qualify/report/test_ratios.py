"""Ratios and claims in the report: sections and figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection

from benchkit.comparison.compare import compare_cells
from benchkit.models.run import CellRecord
from benchkit.report.figures.ratios import MAX_RATIOS, RATIOS
from benchkit.report.sections.results import build_claims, build_ratios, build_results
from benchkit.report.sections.validity import UNKNOWN, build_verdicts, noise_notes
from benchkit.report.stored_run import StoredRun
from tests.support.report.reading import built, drawn_texts, records

MakeRun = Callable[..., StoredRun]
STACKS = {"stack": ["go", "nginx", "node"]}
CLAIMS = [
    {
        "text": "nginx costs\na half",
        "ratio": {"of": {"stack": "nginx"}, "to": {"stack": "go"}},
        "about": 0.5,
        "within": 0.3,
        "published": 0.48,
    },
    {"text": "Node is no slower", "ratio": {"of": {"stack": "node"}, "to": {"stack": "go"}}, "at_least": 1},
    {"text": "zig", "ratio": {"of": {"stack": "zig"}, "to": {"stack": "go"}}, "at_least": 1, "published": 2},
]


def with_control(run: StoredRun) -> StoredRun:
    """Return the run with its first cell under a second name, a little faster in one block."""
    first = run.manifest.cells[0]
    control = CellRecord(cell_id=f"{first.cell_id}~control", levels=first.levels)
    repeated = run.trials[run.trials["cell_id"] == first.cell_id].assign(
        cell_id=control.cell_id,
        kind="control",
        trial_id=lambda frame: frame["trial_id"] + "-control",
        rps=lambda frame: frame["rps"] * (1 + 0.01 * (frame["block"] == 1)),
    )
    manifest = run.manifest.model_copy(update={"cells": (*run.manifest.cells, control)})
    return replace(run, manifest=manifest, trials=pd.concat([run.trials, repeated], ignore_index=True))


def test_every_ratio_has_its_interval_and_difference(make_run: MakeRun) -> None:
    run = make_run(STACKS, blocks=8)
    content = built(build_ratios, run)
    assert list(content.tables) == ["RPS", "p99 latency"]
    (found,) = [comparison for comparison in run.comparisons if comparison.metrics == ("rps",)]
    shown = records(content.tables["RPS"])
    assert [row["Cell"] for row in shown] == ["nginx", "node"]
    for row, ratio in zip(shown, found.ratios, strict=True):
        assert row["Relative to"] == "go"
        assert [row["Ratio"], row["From"], row["To"]] == [
            f"{value:.3f}" for value in (ratio.ratio, ratio.low, ratio.high)
        ]
        assert row["Difference"] == "lower (worse)"
        assert row["Blocks"] == "8"
    assert any(
        sentence.startswith("RPS: With 8 blocks and 2 comparisons, 80% of runs show a difference of")
        for sentence in noise_notes(run)
    )
    assert found == compare_cells(run.data, ["rps"])


def test_the_ratio_of_a_control_is_reported_as_noise(make_run: MakeRun) -> None:
    run = with_control(make_run(STACKS, blocks=8))
    rps = built(build_ratios, run).tables["RPS"]
    assert [row["Cell"] for row in records(rps)] == ["nginx", "node", "go (control)"]
    notes = built(build_verdicts, run).noise
    assert notes[0].startswith("RPS of go relative to itself: 1.001, interval 0.99")
    assert UNKNOWN not in notes


def test_without_a_control_the_noise_is_unknown(make_run: MakeRun) -> None:
    assert built(build_verdicts, make_run(STACKS, blocks=8)).noise[0] == UNKNOWN
    few = built(build_verdicts, with_control(make_run(STACKS, blocks=2))).noise
    assert few[0].startswith("RPS of go relative to itself is not known: ")
    assert few[1].startswith("p99 latency of go relative to itself is not known")


def notes_of(row: Mapping[str, str], notes: Sequence[str]) -> list[str]:
    """Return the notes that a row of a table names by number."""
    return [notes[int(number) - 1] for number in row["Notes"].split(", ")]


def test_excluded_trials_are_noted(make_run: MakeRun) -> None:
    run = make_run(STACKS, blocks=8)
    trial = run.trials.loc[run.trials["cell_id"] == "stack=node", "trial_id"].iloc[0]
    reason = {"trial_id": trial, "check": "generator-saturated", "severity": "invalid", "metrics": ["rps"]}
    judged = replace(run, table=lambda name: pd.DataFrame([reason]) if name == "verdicts" else run.table(name))
    section = built(build_ratios, judged)
    node = records(section.tables["RPS"])[1]
    assert node["Blocks"] == "7"
    assert any("1 trial excluded: invalid: generator-saturated" in note for note in notes_of(node, section.notes))


def test_claims_have_published_and_measured_ratios(make_run: MakeRun) -> None:
    content = built(build_claims, make_run(STACKS, blocks=8, scenario={"claims": CLAIMS}))
    assert content.summary == "Of 3 claims: 1 holds, 1 refuted, 1 not testable here."
    held, refuted, elsewhere = records(content.table)
    assert (held["Claim"], held["Published"], held["Result"]) == ("nginx costs a half", "0.48", "holds")
    assert held["Expected"] == "about 0.5 (within 30%)"
    assert held["Measured"].startswith("0.5")
    assert (refuted["Result"], refuted["Published"]) == ("refuted", "\N{EN DASH}")
    assert refuted["Reason"].endswith("outside at least 1")
    assert (elsewhere["Result"], elsewhere["Measured"]) == ("not testable here", "\N{EN DASH}")


def drawn_marks(axes: Axes) -> list[float]:
    """Return the ratios of all marks."""
    marks = [each for each in axes.collections if isinstance(each, PathCollection)]
    return [x for each in marks for x in np.asarray(each.get_offsets())[:, 0].tolist()]


def test_the_figure_has_a_row_for_each_ratio_and_each_claim(make_run: MakeRun) -> None:
    run = with_control(make_run(STACKS, blocks=8, scenario={"claims": CLAIMS}))
    figure = RATIOS.draw(run)
    shown = drawn_texts(figure)
    assert {"nginx", "node", "go (control)", "holds", "refuted"} <= set(shown)
    assert {"Claim: nginx costs a half", "Claim: Node is no slower"} <= set(shown)
    assert "RPS relative to go" in shown
    assert 0.48 in drawn_marks(figure.axes[0])
    (lines,) = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)]
    ends = [np.asarray(line)[:, 0].tolist() for line in lines.get_segments()]
    for ratio in run.comparisons[0].ratios:
        assert any(end == pytest.approx([ratio.low, ratio.high]) for end in ends)
    assert "diamond the published ratio" in RATIOS.caption(run)
    assert RATIOS.alt(run).startswith("Forest plot of ratios with their intervals: ")


def test_the_subtitle_names_the_levels_of_several_baselines(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"], "cores": [1, 8]}, blocks=4, scenario={"baseline": {"stack": "go"}})
    assert "RPS relative to the cell that differs in stack=go alone" in drawn_texts(RATIOS.draw(run))


def test_a_huge_interval_does_not_dwarf_the_others(make_run: MakeRun) -> None:
    run = make_run(STACKS, blocks=3)
    wild = run.trials.assign(
        rps=lambda frame: frame["rps"] * (1 + 1e6 * ((frame["cell_id"] == "stack=node") & (frame["block"] == 2)))
    )
    (axes,) = RATIOS.draw(replace(run, trials=wild)).axes
    low, high = axes.get_xlim()
    assert high / low < 1e4
    assert low < 0.5


def test_the_ratios_farthest_from_1_are_drawn(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"], "connections": list(range(1, 51))}, blocks=3)
    (axes,) = RATIOS.draw(run).axes
    marks = drawn_marks(axes)
    assert len(marks) == MAX_RATIOS
    drawn_ratios = sorted(abs(math.log(mark)) for mark in marks)
    every = sorted(abs(math.log(ratio.ratio or 1)) for ratio in run.comparisons[0].ratios)
    assert drawn_ratios == pytest.approx(every[-MAX_RATIOS:])
    assert RATIOS.caption(run).endswith("The 40 ratios farthest from 1 are drawn; the table has all 99.")
    assert len(built(build_ratios, run).tables["RPS"].rows) == 99


def test_a_figure_of_ratios_needs_intervals(make_run: MakeRun) -> None:
    assert RATIOS.is_available(make_run(STACKS, blocks=3))
    assert not RATIOS.is_available(make_run(STACKS, blocks=2))


def test_equal_builds_and_unwatched_servers_are_marked_wherever_they_are_compared(make_run: MakeRun) -> None:
    claim = {"text": "x", "ratio": {"of": {"stack": "node"}, "to": {"stack": "go"}}, "at_least": 0.1}
    run = make_run(STACKS, blocks=8, scenario={"claims": [claim]})
    go, nginx, node = run.manifest.cells
    cells = (
        go,
        nginx.model_copy(update={"same_as": go.cell_id}),
        node.model_copy(update={"external": {"app": "http://192.0.2.1"}}),
    )
    marked = replace(run, manifest=run.manifest.model_copy(update={"cells": cells}))
    section = built(build_ratios, marked)
    shown = {row["Cell"]: "; ".join(notes_of(row, section.notes)) for row in records(section.tables["RPS"])}
    assert "A/A: both cells have the same server" in shown["nginx"]
    assert "unwatched: " in shown["node (unwatched)"]
    cards = {result.label: result.detail for result in built(build_results, marked).results}
    assert "A/A: " in cards["nginx"]
    assert "unwatched: " in cards["node (unwatched)"]
    assert any("unwatched: " in note for note in built(build_claims, marked).notes)
    comparison_notes = built(build_ratios, marked).comparison_notes
    assert any("their comparison is A/A" in note for note in comparison_notes)
