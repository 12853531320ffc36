"""The registry of load tools. Adding one is described in `benchkit/loadtools/README.md`."""

from __future__ import annotations

from benchkit.errors import InputError
from benchkit.loadtools.tool import Tool
from benchkit.loadtools.tools import ab, bombardier, h2load, hey, k6, oha, openloop, siege, vegeta, wrk
from benchkit.registry import Registry

SHIPPED = (
    wrk.TOOL,
    ab.TOOL,
    hey.TOOL,
    siege.TOOL,
    vegeta.TOOL,
    h2load.TOOL,
    openloop.TOOL,
    oha.TOOL,
    k6.TOOL,
    bombardier.TOOL,
)
"""Load tools of benchkit itself."""
TOOLS: Registry[Tool] = Registry(
    "benchkit.load_tools", {tool.name: tool for tool in SHIPPED}, Tool, lambda tool: tool.name
)
"""Every load tool, including those of plugins, by name."""


def get_tool(name: str) -> Tool:
    """Return the tool of that name. Raises InputError naming all tools."""
    if name not in TOOLS:
        raise InputError(f"no load tool is called {name!r}", why=TOOLS.why_unknown(name))
    return TOOLS[name]


def tools_with_rate() -> list[str]:
    """Return the names of the tools that can hold a target rate."""
    return [name for name, tool in TOOLS.items() if tool.rate is not None]
