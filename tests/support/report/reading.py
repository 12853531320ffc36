"""Readers of what a report consists of: blocks of sections, pages of HTML, and drawn figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import matplotlib as mpl
import numpy as np
from bs4 import BeautifulSoup
from bs4.element import Tag
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

from benchkit.report.chart import Chart, draw
from benchkit.report.figures.registry import get_figure
from benchkit.report.sections.blocks import Block, Bullets, Details, ReportInput, Section, TableBlock, Text
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Table


def blocks(section: Section, run: StoredRun) -> list[Block]:
    """Return the blocks of a section of a run, without figures; folded ones in their place."""
    return list(_unfolded(section.build(ReportInput(run))))


def _unfolded(found: Iterable[Block]) -> Iterator[Block]:
    for block in found:
        if isinstance(block, Details):
            yield from _unfolded(block.blocks)
        else:
            yield block


def sentences(section: Section, run: StoredRun) -> list[str]:
    """Return the texts and the items of lists of a section."""
    found: list[str] = []
    for block in blocks(section, run):
        if isinstance(block, Text):
            found.append(block.text)
        elif isinstance(block, Bullets):
            found += block.items
    return found


def tables(section: Section, run: StoredRun) -> dict[str, Table]:
    """Return the tables of a section by name."""
    return {block.table.name: block.table for block in blocks(section, run) if isinstance(block, TableBlock)}


def cells(table: Table) -> list[list[str]]:
    """Return the texts of a table, row by row."""
    return [[entry.text for entry in row] for row in table.rows]


def records(table: Table) -> list[dict[str, str]]:
    """Return the texts of a table, each row by the titles of the columns."""
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


def chart(name: str, run: StoredRun) -> Chart:
    """Return the chart of a figure of a run."""
    found = get_figure(name).chart(run)
    assert found is not None
    return found


def drawn(name: str, run: StoredRun) -> Figure:
    """Return a figure of a run as matplotlib has it."""
    return draw(chart(name, run), name, "source")


def drawn_texts(figure: Figure) -> list[str]:
    """Return the texts in a figure."""
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]


def headings(figure: Figure) -> list[str]:
    """Return the headings of the panels."""
    return [axes.get_title(loc="left") for axes in figure.axes]


def points(figure: Figure) -> list[list[float]]:
    """Return the places of all marks: [x, y]."""
    marks = [each for axes in figure.axes for each in axes.collections if isinstance(each, PathCollection)]
    return [place for each in marks for place in np.asarray(each.get_offsets()).tolist()]


def segments(axes: Axes) -> list[list[list[float]]]:
    """Return the lines of collections in a panel: [x, y] along each."""
    collections = [each for each in axes.collections if isinstance(each, LineCollection)]
    return [np.asarray(line).tolist() for each in collections for line in each.get_segments()]
