from __future__ import annotations

import re

import numpy as np
import pytest

from benchkit.comparison.claims import ClaimResult
from benchkit.comparison.compare import RunComparison, compare_cells
from benchkit.comparison.gate import GateLimits, judge_ratios
from benchkit.comparison.runs.run_data import RunData
from benchkit.comparison.texts import markdown, markdown_code, markdown_text
from tests.support.comparison.fixtures import manifest_of, trials_of

NOISE = np.array([0.98, 1.02, 1.0, 0.99, 1.01, 1.0])
HOSTILE = "a|b`c<script>&\x00\x1b[31m\ufffe@root\n# x"


@pytest.fixture
def compared() -> RunComparison:
    """Three cells at a gate: one passes, one has regressed, one is inconclusive."""
    cells = [{"stack": stack} for stack in ("go", "nginx", "slow", "wild")]
    rates = {"stack=go": np.full(6, 100.0), "stack=nginx": 100 * NOISE, "stack=slow": 50 * NOISE}
    rates["stack=wild"] = 100 * NOISE**20
    found = compare_cells(RunData(manifest_of(cells), trials_of(rates)), ["rps"])
    return found.model_copy(update={"gate": judge_ratios(found.ratios, GateLimits(metrics={"rps": 0.1}))})


def test_markdown_is_a_heading_notices_and_one_table(compared: RunComparison) -> None:
    shown = markdown(compared.model_copy(update={"notes": ("The hosts have drifted: kernel.",)}))
    lines = shown.splitlines()
    assert lines[0] == "### benchkit: regressed"
    assert "> The hosts have drifted: kernel." in lines
    table = [line for line in lines if line.startswith("|")]
    assert table[0] == "| cell | metric | baseline | value | ratio | interval | p | difference | gate |"
    assert len(table) == 5
    assert len({re.sub(r"\\\|", "", line).count("|") for line in table}) == 1
    assert table[3].startswith("| `stack=slow` | RPS | 100 | 50.0 | 0.500 |")
    assert table[3].endswith("| lower (worse) | **regressed** |")
    assert shown.endswith("\n")
    bare = markdown(compared.model_copy(update={"gate": None}))
    assert bare.startswith("### benchkit: 1 of 3 comparisons show a difference")


def test_markdown_has_the_results_of_claims(compared: RunComparison) -> None:
    claim = ClaimResult(
        text=HOSTILE, expectation="at least 2", metric="rps", published=2.5, state="refuted", reason="0.5 [0.4, 0.6]"
    )
    lines = markdown(compared.model_copy(update={"claims": (claim,)})).splitlines()
    place = lines.index("| claim | published | measured here |  |")
    assert lines[place + 2] == f"| {markdown_text(HOSTILE)} | 2.5 | {markdown_text('0.5 [0.4, 0.6]')} | **refuted** |"


def test_markdown_leaves_hostile_names_as_text() -> None:
    shown = markdown_text(HOSTILE)
    assert "<script" not in shown
    assert "@root" not in shown
    assert "\n" not in shown
    assert "\\|" in shown
    named = markdown_code(HOSTILE)
    assert "\n" not in named
    assert re.fullmatch(r"``[^\n]*``", named)
    assert not re.search(r"(?<!\\)\|", named)
    assert markdown_text("https://example.org") == "https:<!-- -->//example.org"
    assert markdown_text("- item") == "\\- item"
    assert markdown_text("1. item") == "1\\. item"
