"""The registry of output formats: what benchkit reads, of its own load tools and, by `benchkit.plugins`, of others.

The marks in a text decide which parser reads it.
"""

from __future__ import annotations

from typing import NamedTuple

from benchkit.errors import InputError, ParseError
from benchkit.loadtools.findings import StatedLoad, stated_load
from benchkit.loadtools.reader import OutputFormat
from benchkit.loadtools.registry import SHIPPED, TOOLS
from benchkit.loadtools.text import excerpt, prepare
from benchkit.loadtools.tools.wrk import WRK2_FORMAT
from benchkit.models.load_result import LoadResult, Note
from benchkit.registry import Registry

AUTO = "auto"
"""Stands for the tool that is recognised by its marks in the text."""

FORMATS: Registry[OutputFormat] = Registry(
    "benchkit.output_formats",
    {each.tool: each for each in (WRK2_FORMAT, *(tool.format for tool in SHIPPED))},
    OutputFormat,
    lambda each: each.tool,
)
"""Every output format, including those of plugins, by the name of its tool."""


class RunOutput(NamedTuple):
    """The result of one run, and the load in the command line above its output."""

    result: LoadResult
    load: StatedLoad


def read_run(tool: str, text: str, *, where: str, command: str) -> RunOutput:
    """Return what an output of a tool states; `tool` may be `AUTO`.

    Raises InputError for an unknown tool, ParseError for text that is not an output of the tool, or has several runs.
    It names `where`; for the output of another tool also the `command` with `{tool}` that reads it.
    """
    prepared = prepare(text)
    chosen = _choose(tool, prepared.text, where=where, command=command)
    try:
        result = chosen.parse(prepared.text)
    except ParseError as error:
        raise ParseError(error.what, where=where, why=error.why, hint=error.hint) from None
    load, notes = stated_load(result.tool, prepared.text), (*result.notes, *prepared.notes)
    if result.connections is None and load.connections is not None:
        result = result.model_copy(update={"connections": load.connections})
        message = "the number of connections is that of the command line above the output"
        notes = (*notes, Note(code="from-command", message=message))
    return RunOutput(result.model_copy(update={"notes": notes}), load)


def _choose(tool: str, text: str, *, where: str, command: str) -> OutputFormat:
    """Return the format that reads a prepared text: the named one, unless the text only has marks of other tools."""
    marked = [each for each in FORMATS.values() if each.recognise(text)]
    if tool == AUTO:
        if len(marked) == 1:
            return marked[0]
        if marked:
            names = " and ".join(each.tool for each in marked)
            hint = f"name one of them in place of {AUTO}, or cut the text"
            raise ParseError(f"this text has outputs of {names}", where=where, hint=hint)
        first = next((line for line in text.split("\n") if line.strip()), None)
        raise ParseError(
            "no load tool is recognised in this text" if first else "the output is empty",
            where=where,
            why=first and f"it begins with {excerpt(first)!r}",
            hint=f"name its tool: {command.format(tool='TOOL')}; TOOL is one of {', '.join(FORMATS)}",
        )
    chosen = FORMATS.get(tool) or (TOOLS[tool].format if tool in TOOLS else None)  # of a plugin's load tool
    if chosen is None:
        raise InputError(f"no load tool is called {tool!r}", why=FORMATS.why_unknown(tool, (AUTO, *FORMATS)))
    dialects = {chosen.tool, chosen.dialect_of}
    if marked and not any(dialects & {each.tool, each.dialect_of or each.tool} for each in marked):
        other = marked[0].tool
        hint = f"it is output of {other}: {command.format(tool=other)}"
        raise ParseError(f"this is not an output of {tool}", where=where, hint=hint)
    return chosen
