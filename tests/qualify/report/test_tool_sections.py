"""Notes and agreement of load tools in a report."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.text import Text

from benchkit import units
from benchkit.report.figures.ratios import MAX_TOOL_ROWS, TOOLS
from benchkit.report.pages.page import page
from benchkit.report.rendering import render
from benchkit.report.sections.validity import build_agreement, build_notes
from tests.support.report.reading import built
from tests.support.report.variants import judged

if TYPE_CHECKING:
    from benchkit.report.stored_run import StoredRun

MakeRun = Callable[..., "StoredRun"]


def _by_tool(run: StoredRun) -> StoredRun:
    """Return the run with each level of the factor `tool` as the tool of its trials."""
    return replace(run, trials=run.trials.assign(tool=run.trials["factor_tool"], latency_resolution_s=1e-6))


def test_tools_of_one_cell_are_compared(make_run: MakeRun) -> None:
    run = _by_tool(make_run({"tool": ["wrk", "hey", "ab"]}, blocks=6))
    shown = built(build_agreement, run)
    (cell,) = shown
    assert cell.label == ""
    assert cell.sentences[0].startswith("RPS: the tools disagree beyond noise: medians from ")
    assert cell.exclusions == ()
    rows = cell.table.rows
    assert [row[1].text for row in rows[:3]] == ["wrk", "ab", "hey"] or len(rows) % 3 == 0
    html = page((run, ()))
    assert "Do the tools agree?" in html
    assert "the tools disagree beyond noise" in html


def test_each_cell_has_its_own_comparison_of_tools(make_run: MakeRun) -> None:
    run = _by_tool(make_run({"tool": ["wrk", "hey"], "stack": ["go", "nginx-go"]}, blocks=3))
    shown = built(build_agreement, run)
    assert [cell.label for cell in shown] == ["stack go", "stack nginx-go"]
    assert len({cell.table.name for cell in shown}) == 2


def test_notes_are_listed_once_per_tool_with_the_number_of_trials(run: StoredRun) -> None:
    ids = run.trials["trial_id"].tolist()
    rows = [{"trial_id": i, "code": "timeouts", "message": f"{n} answers came late"} for n, i in enumerate(ids[:3], 1)]
    rows.append({"trial_id": ids[0], "code": "wrk-corrected", "message": "<b>added</b>"})
    shown = built(build_notes, replace(run, notes=pd.DataFrame(rows)))
    texts = [[entry.text for entry in row] for row in shown.table.rows]
    assert texts == [
        ["wrk", f"3 of {len(ids)}", "timeouts", "1 answers came late (the first of 3 such)"],
        ["wrk", f"1 of {len(ids)}", "wrk-corrected", "<b>added</b>"],
    ]
    html = page((replace(run, notes=pd.DataFrame(rows)), ()))
    assert "<b>added" not in html
    assert re.search(r"&lt;b&gt;added", html)


def _points(figure: Figure) -> dict[float, list[float]]:
    found: dict[float, list[float]] = {}
    for artist in figure.axes[0].collections:
        for x, y in np.asarray(artist.get_offsets()).tolist() if isinstance(artist, PathCollection) else ():
            found.setdefault(y, []).append(x)
    return found


def test_the_figure_has_every_trial_relative_to_the_median_of_tools(make_run: MakeRun) -> None:
    run = _by_tool(make_run({"tool": ["wrk", "hey", "ab"]}, blocks=6))
    figure = TOOLS.draw(run)
    drawn = _points(figure)
    assert len(drawn) == 3 * len(run.agreements)
    rates = run.trials.groupby("tool")["rps"]
    centre = rates.median().median()
    for row, tool in enumerate(["wrk", "hey", "ab"], start=1):
        assert sorted(drawn[row]) == pytest.approx(sorted(rates.get_group(tool) / centre))
    (lines,) = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)]
    medians = [float(np.asarray(line)[0, 0]) for line in lines.get_segments()]
    for tool in ("wrk", "hey", "ab"):
        assert any(median == pytest.approx(rates.get_group(tool).median() / centre) for median in medians)
    shown = [text.get_text() for text in figure.findobj(Text)]
    assert any(re.fullmatch(r"RPS: beyond noise, p = [\d.]+", text) for text in shown)
    assert figure.axes[0].get_xscale() == "log"


def test_the_figure_is_described_and_reproducible(make_run: MakeRun) -> None:
    run = _by_tool(make_run({"tool": ["wrk", "hey"], "stack": ["go", "nginx-go"]}, blocks=6))
    drawing, repeated = render(TOOLS, run), render(TOOLS, run)
    assert (drawing.svg, drawing.png) == (repeated.svg, repeated.png)
    first = run.trials[(run.trials["tool"] == "wrk") & (run.trials["factor_stack"] == "go")].iloc[0]
    assert re.search(
        rf"<title>wrk, block 1: {units.rate(first['rps'])}, [\d.]+ of the median of the tools</title>",
        drawing.element,
    )
    assert "RPS, stack go differs by a factor of" in TOOLS.alt(run)
    assert "Hollow" not in TOOLS.caption(run)


def test_excluded_trials_are_hollow(make_run: MakeRun) -> None:
    run = _by_tool(make_run({"tool": ["wrk", "hey"]}, blocks=6))
    trial_id = str(run.trials.loc[run.trials["tool"] == "wrk", "trial_id"].iloc[0])
    doubted = judged(run, (trial_id, "link-saturated", "invalid", ("rps",)))
    element = render(TOOLS, doubted).element
    assert element.count("(invalid: link-saturated)") == 1
    assert "Hollow points are excluded trials." in TOOLS.caption(doubted)


def test_too_few_blocks_give_no_estimate_of_noise(make_run: MakeRun) -> None:
    run = _by_tool(make_run({"tool": ["wrk", "hey"]}, blocks=1))
    shown = [text.get_text() for text in TOOLS.draw(run).findobj(Text)]
    assert "RPS: too few blocks to estimate noise (1)" in shown


def test_the_metrics_with_the_largest_differences_are_drawn(make_run: MakeRun) -> None:
    run = _by_tool(make_run({"tool": ["wrk", "hey"], "connections": list(range(1, 21))}, blocks=2))
    rows = len(_points(TOOLS.draw(run)))
    assert rows < 2 * len(run.agreements)
    assert rows + rows / 2 <= MAX_TOOL_ROWS
    left_out = len(run.agreements) - rows // 2
    assert f"{left_out} metrics with the smallest differences are not drawn" in TOOLS.caption(run)


def test_a_run_with_one_tool_has_no_figure(run: StoredRun) -> None:
    assert not TOOLS.is_available(run)
