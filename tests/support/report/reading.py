"""Readers of what a report consists of: tables, pages of HTML, and drawn figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import matplotlib as mpl
from bs4 import BeautifulSoup
from bs4.element import Tag
from matplotlib.figure import Figure

from benchkit.report.sections.section import ReportInput
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Table

Content = TypeVar("Content")


def built(section: Callable[[ReportInput], Content | None], run: StoredRun) -> Content:
    """Return the content of a section of a run, without figures."""
    content = section(ReportInput(run, ()))
    assert content is not None
    return content


def cells(table: Table | None) -> list[list[str]]:
    """Return the texts of a table, row by row."""
    assert table is not None
    return [[entry.text for entry in row] for row in table.rows]


def records(table: Table | None) -> list[dict[str, str]]:
    """Return the texts of a table, each row by the titles of the columns."""
    assert table is not None
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, row, strict=True)) for row in cells(table)]


def parse(html: str) -> BeautifulSoup:
    """Return a page of HTML as a tree."""
    return BeautifulSoup(html, "html.parser")


def one(root: Tag, selector: str) -> Tag:
    """Return the only element that a CSS selector matches."""
    (element,) = root.select(selector)
    return element


def texts(root: Tag, selector: str) -> list[str]:
    """Return the texts of all elements that a CSS selector matches."""
    return [element.get_text() for element in root.select(selector)]


def attributes(root: Tag, selector: str, name: str) -> list[str]:
    """Return an attribute of all elements that a CSS selector matches."""
    return [str(element[name]) for element in root.select(selector)]


def table_records(root: Tag, name: str) -> list[dict[str, str]]:
    """Return the texts of the table of that name in a page, each row by the titles of the columns."""
    table = one(root, f"table[id='table-{name}']")
    titles = texts(table, "th[scope=col]")
    return [dict(zip(titles, texts(row, "th, td"), strict=True)) for row in table.select("tbody tr")]


def drawn_texts(figure: Figure) -> list[str]:
    """Return the texts in a figure."""
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]
