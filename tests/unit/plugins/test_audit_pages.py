from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.plugins.audit_pages import AUDITS, PAGES, commands, made_again

AUDITED = [page for page in PAGES if page.name != "README.md"]


@pytest.mark.parametrize("page", AUDITED, ids=lambda page: page.stem)
def test_a_page_has_what_its_command_prints(page: Path) -> None:
    assert len(list(commands(page))) == 1
    assert page.read_text() == made_again(page), "make audits writes it again"


def test_the_text_of_a_page_states_the_figures_of_its_tables() -> None:
    for page in AUDITED:
        text = page.read_text()
        written, table = text.split("<!-- end -->")[1], text.split("<!-- end -->")[0]
        spread = re.search(r"Repetitions spread by ([\d.]+ %)", table)
        assert spread is not None
        assert f"spread by {spread[1]}" in written or f"spreads by {spread[1]}" in written
        rows = re.search(r"^([\d,]+) rows:", table, re.MULTILINE)
        assert rows is not None
        assert f"{rows[1]} rows" in (AUDITS / "README.md").read_text()
