from __future__ import annotations

import math

import pytest

from benchkit import units
from benchkit.report.tables import ColumnGroup, Entry, Table, TableColumn, number
from benchkit.safe_text import clean, legible


@pytest.mark.parametrize(
    ("value", "exact"),
    [(12.0, None), (285080.0, None), (231.92, "231.92"), (72645.34123456789, "72645.34"), (0.4, "0.4")],
)
def test_a_rounded_number_has_its_exact_value(value: float, exact: str | None) -> None:
    assert number(value, units.count).exact == exact


def test_an_absent_number_has_no_value() -> None:
    assert number(math.nan, units.count) == Entry(units.ABSENT, None, "number")
    assert Entry("text").exact is None


def test_neighbours_share_their_heading() -> None:
    columns = tuple(TableColumn(title, group=group) for title, group in (("a", ""), ("b", "x"), ("c", "x"), ("d", "")))
    assert Table("t", "T", columns, ()).groups == (ColumnGroup("", 1), ColumnGroup("x", 2), ColumnGroup("", 1))
    assert Table("t", "T", columns[:1], ()).groups == ()


def test_unprintable_characters_are_replaced() -> None:
    hostile = "a\x00b\N{RIGHT-TO-LEFT OVERRIDE}c\ud800\n\td  é日"
    mark = "\N{REPLACEMENT CHARACTER}"
    assert legible(hostile) == f"a{mark}b{mark}c{mark}\n\td  é日"
    assert clean(hostile) == f"a{mark}b{mark}c{mark} d é日"
