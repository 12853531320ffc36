"""The load tools there are. Adding one touches its file, this list and its fixtures."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchkit.errors import InputError, ParseError
from benchkit.load import ab, h2load, hey, siege, vegeta, wrk
from benchkit.load.tool import Tool

TOOLS: Mapping[str, Tool] = MappingProxyType(
    {tool.name: tool for tool in (wrk.TOOL, ab.TOOL, hey.TOOL, siege.TOOL, vegeta.TOOL, h2load.TOOL)}
)
"""Every load tool by name."""


def get_tool(name: str) -> Tool:
    """The tool of that name. Raises InputError naming those there are."""
    if name not in TOOLS:
        raise InputError(f"no load tool is called {name!r}", hint=f"one of: {', '.join(TOOLS)}")
    return TOOLS[name]


def readers_of(text: str) -> list[str]:
    """The names of the tools that wrote `text`, by their parsers."""
    names = []
    for name, tool in TOOLS.items():
        try:
            tool.parse(text)
        except ParseError:
            continue
        names.append(name)
    return names
