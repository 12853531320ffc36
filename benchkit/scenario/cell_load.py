"""From the load of a cell, as a scenario writes it, to a load that its tool can carry, divided among load hosts."""

from __future__ import annotations

from benchkit.document import Document
from benchkit.errors import InputError, suggestion
from benchkit.load.load_shares import objections
from benchkit.load.tools.registry import TOOLS, get_tool
from benchkit.models.load import Load
from benchkit.scenario.cells import Cell
from benchkit.scenario.model import Scenario


def typed_load(cell: Cell, hosts: int) -> Load:
    """The load of a cell, checked by its tool for each of the generators on so many load hosts.

    Raises InputError naming file, line and field.
    """
    wanted = cell.load.data.get("tool")
    if isinstance(wanted, str) and wanted not in TOOLS:
        raise InputError(cell.load.fault(("tool",), f"no load tool {wanted!r}; {suggestion(wanted, TOOLS)}"))
    load = cell.load.validated(Load)
    generators = load.processes * hosts
    faults = [cell.load.fault((o.field,), o.why) for o in objections(get_tool(load.tool), load, generators)]
    if faults:
        raise InputError("\n".join(faults))
    return load


def check_tools(scenario: Scenario, document: Document) -> None:
    """Check what `tools` lays over the load. Raises InputError naming file, line and field."""
    faults = []
    for name, fields in scenario.tools.items():
        if name not in TOOLS:
            faults.append(document.fault(("tools", name), f"no load tool {name!r}; {suggestion(name, TOOLS)}"))
        if "tool" in fields:
            faults.append(
                document.fault(("tools", name, "tool"), "the tool is named in load; here is what it is given")
            )
    if faults:
        raise InputError("\n".join(faults))
