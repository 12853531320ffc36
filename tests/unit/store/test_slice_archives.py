from __future__ import annotations

import io
import tarfile

import pytest

from benchkit.errors import ParseError
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


@pytest.mark.parametrize("name", ["00004.txt", "00000.txt", "../00001.txt", "00001.sh"])
def test_other_members_are_refused(name: str) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(ParseError, match="unknown file"):
        unpack_slices(stream.getvalue(), 3)
