"""What a report says of load tools: their notes, and how far they agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from benchkit.report.page import page
from benchkit.report.sections import agreement, notes
from benchkit.report.sections.section import Material

if TYPE_CHECKING:
    from benchkit.report.view import RunView

MakeRun = Callable[..., "RunView"]


def _by_tool(run: RunView) -> RunView:
    """The synthetic trials as if each level of the factor `tool` had been driven by that tool."""
    return replace(run, trials=run.trials.assign(tool=run.trials["factor_tool"], latency_resolution_s=1e-6))


def test_tools_of_one_cell_are_set_side_by_side(make_run: MakeRun) -> None:
    run = _by_tool(make_run({"tool": ["wrk", "hey", "ab"]}, blocks=6))
    shown = agreement.build(Material(run, ()))
    assert shown is not None
    (cell,) = shown["cells"]
    assert cell["label"] == ""
    assert cell["sentences"][0].startswith("RPS: the tools disagree beyond noise: medians from ")
    assert cell["left_out"] == []
    rows = cell["table"].rows
    assert [row[1].text for row in rows[:3]] == ["wrk", "ab", "hey"] or len(rows) % 3 == 0
    html = page((run, ()))
    assert "Do the tools agree?" in html
    assert "the tools disagree beyond noise" in html


def test_cells_with_other_factors_stand_apart(make_run: MakeRun) -> None:
    run = _by_tool(make_run({"tool": ["wrk", "hey"], "stack": ["go", "nginx-go"]}, blocks=3))
    shown = agreement.build(Material(run, ()))
    assert shown is not None
    assert [cell["label"] for cell in shown["cells"]] == ["stack go", "stack nginx-go"]
    assert len({cell["table"].name for cell in shown["cells"]}) == 2


def test_one_tool_has_nothing_to_agree_with(run: RunView) -> None:
    assert agreement.build(Material(run, ())) is None
    assert "Do the tools agree?" not in page((run, ()))


def test_notes_stand_once_for_a_tool_with_the_trials_that_have_them(run: RunView) -> None:
    ids = run.trials["trial_id"].tolist()
    rows = [{"trial_id": i, "code": "timeouts", "message": f"{n} answers came late"} for n, i in enumerate(ids[:3], 1)]
    rows.append({"trial_id": ids[0], "code": "wrk-corrected", "message": "<b>added</b>"})
    shown = notes.build(Material(replace(run, notes=pd.DataFrame(rows)), ()))
    assert shown is not None
    texts = [[entry.text for entry in row] for row in shown["table"].rows]
    assert texts == [
        ["wrk", f"3 of {len(ids)}", "timeouts", "1 answers came late (the first of 3 such)"],
        ["wrk", f"1 of {len(ids)}", "wrk-corrected", "<b>added</b>"],
    ]
    html = page((replace(run, notes=pd.DataFrame(rows)), ()))
    assert "<b>added" not in html
    assert re.search(r"&lt;b&gt;added", html)


def test_without_notes_there_is_no_section(run: RunView) -> None:
    assert notes.build(Material(run, ())) is None
