"""The archive with the files that a generator wrote in the slices of a trial, as the tool wrote them. Pure."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Mapping, Sequence

from benchkit.errors import ParseError
from benchkit.loadtools.text import decode
from benchkit.loadtools.tool import ToolOutput

_MEMBER = re.compile(r"([0-9]{5})\.(txt|stderr\.txt|json)")


def pack_slices(slices: Sequence[Mapping[str, bytes]]) -> bytes:
    """Return an archive of the files of all slices, by suffix (`txt`, `stderr.txt`, `json`)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for number, files in enumerate(slices, 1):
            for suffix, content in sorted(files.items()):
                member = tarfile.TarInfo(f"{number:05}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def unpack_slices(content: bytes, count: int) -> list[ToolOutput]:
    """Return the output of a generator in each of `count` slices. Raises ParseError for a damaged archive."""
    files: list[dict[str, bytes]] = [{} for _ in range(count)]
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                name, file = _MEMBER.fullmatch(member.name), archive.extractfile(member)
                if name is None or file is None or not 1 <= int(name[1]) <= count:
                    raise ParseError(f"the archive of slices has an unknown file {member.name!r}")
                files[int(name[1]) - 1][name[2]] = file.read()
    except tarfile.TarError as error:
        raise ParseError("the archive of slices is damaged", why=str(error)) from None
    return [
        ToolOutput(decode(each.get("txt", b"")), decode(each.get("stderr.txt", b"")), each.get("json"))
        for each in files
    ]
