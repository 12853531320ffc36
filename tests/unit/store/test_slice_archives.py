from __future__ import annotations

from benchkit.loadtools.tool import ToolOutput
from benchkit.store.trial_tables import pack_slices, unpack_slices

SLICES = [{"txt": b"first", "json": b"{}"}, {}, {"txt": b"third", "stderr.txt": b"late"}]


def test_files_of_slices_come_back_as_the_tool_wrote_them() -> None:
    content = pack_slices(SLICES)
    assert pack_slices(SLICES) == content
    assert unpack_slices(content, 3) == [
        ToolOutput("first", "", b"{}"),
        ToolOutput("", "", None),
        ToolOutput("third", "late", None),
    ]
