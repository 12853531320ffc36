"""The generated parts of `benchkit/store/README.md`; run as a program, this module writes them into the page."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import benchkit
from benchkit.models.rows import TABLES, columns_of
from benchkit.store.parquet_files import arrow_schema

PAGE = Path(benchkit.__file__).parent / "store" / "README.md"
_PART = re.compile(r"(<!-- (\w+): [^\n]* -->\n).*?(<!-- end -->)", re.DOTALL)


def functions() -> str:
    """Return the public functions with their parameters and the first sentences of their docstrings, in Markdown."""
    lines = []
    for name in benchkit.__all__:
        function = getattr(benchkit, name)
        if inspect.isfunction(function):
            parameters = ", ".join(
                p.name if p.default is p.empty else f"{p.name}={p.default!r}"
                for p in inspect.signature(function).parameters.values()
            )
            summary = (
                inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
            )
            lines.append(f"| `{name}({parameters})` | {summary} |")
    return "\n".join(("| function | does |", "|---|---|", *lines)) + "\n"


def tables() -> str:
    """Return all tables with their columns, as Markdown."""
    parts = []
    for name, row in TABLES.items():
        summary = inspect.cleandoc(row.__doc__ or "")
        parts.append(f"### {name}\n\nA row: {summary[0].lower()}{summary[1:]}\n\n{describe_columns(name)}")
    return "\n".join(parts)


def describe_columns(table: str) -> str:
    """Return the documentation of a table's columns as a Markdown table."""
    schema = arrow_schema(table)
    lines = (
        f"| `{column.name}` | {schema.field(column.name).type} | {column.unit or ''} | {column.description} |"
        for column in columns_of(table)
    )
    return "\n".join(("| column | type | unit | description |", "|---|---|---|---|", *lines)) + "\n"


PARTS: Mapping[str, Callable[[], str]] = {"functions": functions, "tables": tables}


def with_generated_parts(text: str) -> str:
    """Return the page with its generated parts as they should be."""
    return _PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n{part[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(with_generated_parts(PAGE.read_text()))
