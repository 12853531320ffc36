"""A profile from a file's bytes, whichever profiler wrote it, gzipped or plain."""

from __future__ import annotations

import zlib

from benchkit.errors import ParseError
from benchkit.models.profile import Profile
from benchkit.profiles.perf_script import looks_like_perf_script, parse_perf_script
from benchkit.profiles.pprof import parse_pprof

MAX_BYTES = 1 << 30
"""No profile comes near one gibibyte unpacked; what does was made to fill the memory."""

_GZIP = b"\x1f\x8b"
_PERF_DATA = (b"PERFILE2", b"2ELIFREP")
_BEGINNING = 1 << 16
_EXPECTED = "expected a pprof profile, or what `perf script` prints, gzipped or not"


def read_profile(data: bytes) -> Profile:
    """The profile in these bytes. Raises ParseError where there is none, or only a part of one."""
    if data.startswith(_GZIP):
        data = _unpacked(data)
    if data.startswith(_PERF_DATA):
        raise ParseError("perf's own format", why=_EXPECTED, hint="perf script -i FILE > FILE.txt")
    if not data.strip():
        raise ParseError("empty", why=_EXPECTED)
    if looks_like_perf_script(data[:_BEGINNING].decode("utf-8", "replace")):
        return parse_perf_script(data.decode("utf-8", "replace").replace("\r\n", "\n"))
    try:
        return parse_pprof(data)
    except ParseError as error:
        raise ParseError(error.what, why=error.why, hint=_EXPECTED) from None


def _unpacked(data: bytes) -> bytes:
    """The content of a gzip file. Raises ParseError where it is cut, damaged or too large."""
    unpacking = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        content = unpacking.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise ParseError("a damaged gzip file", why=str(error)) from None
    if unpacking.unconsumed_tail:
        raise ParseError(f"larger than {MAX_BYTES} bytes when unpacked", hint="is this the file you meant?")
    if not unpacking.eof:
        raise ParseError("a part of a gzip file", why="it ends too early")
    if unpacking.unused_data.strip(b"\0"):
        raise ParseError("more than one gzip file", why=f"{len(unpacking.unused_data)} bytes follow the first")
    return content
