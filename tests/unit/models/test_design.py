"""The words that are explained on first use, and the pages for users."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from benchkit.cli.app import app
from benchkit.models.design import TERMS, explain
from tests.support.paths import ROOT

SCENARIOS = ROOT / "scenarios"


def test_words_mean_the_same_in_the_glossary() -> None:
    rows = (SCENARIOS / "GLOSSARY.md").read_text().splitlines()
    assert [term for term, meaning in TERMS.items() if f"| {term} | {meaning} |" not in rows] == []
    meanings = [row.split(" | ")[1] for row in rows if row.startswith("| ")][1:]
    assert len(meanings) <= 25
    assert max(len(meaning.split()) for meaning in meanings) <= 25
    assert explain("cell", "suspect") == "cell: one combination that is compared · suspect: used with care"


def test_options_for_users_of_other_tools_exist() -> None:
    rows = (SCENARIOS / "COMING-FROM.md").read_text().splitlines()
    ours = [row.rsplit(" | ", 1)[1] for row in rows if row.startswith("| ") and "---" not in row]
    lines = [line for cell in ours for line in re.findall(r"`([^`]+)`", cell) if "--" in line]
    assert lines
    for line in lines:
        command = words[1] if (words := line.split())[0] == "benchkit" else "versus"
        known = CliRunner().invoke(app, [command, "--help"]).output
        for option in re.findall(r"--[a-z-]+", line):
            assert option in known, line
