"""A reader of profile files from any supported profiler, gzipped or plain."""

from __future__ import annotations

import zlib

from benchkit.errors import ParseError
from benchkit.models.profile import Profile
from benchkit.profiles.legacy import legacy_format
from benchkit.profiles.perf_script import looks_like_perf_script, parse_perf_script
from benchkit.profiles.pprof import parse_pprof

MAX_BYTES = 1 << 30
"""Largest uncompressed size; no real profile comes near a gibibyte, but a malicious file would fill the memory."""

_GZIP = b"\x1f\x8b"
_PERF_DATA = (b"PERFILE2", b"2ELIFREP")
_HEAD_BYTES = 1 << 16
_EXPECTED = "expected a pprof profile or the output of `perf script`, gzipped or not"


def read_profile(data: bytes) -> Profile:
    """Read the profile in these bytes. Raises ParseError for unknown formats and for incomplete profiles."""
    if data.startswith(_GZIP):
        data = _decompress(data)
    if data.startswith(_PERF_DATA):
        raise ParseError(
            "not the output of perf script but a perf.data file",
            why=_EXPECTED,
            hint="convert it: perf script -i FILE > FILE.txt",
        )
    if not data.strip():
        raise ParseError("the file is empty", why=_EXPECTED)
    if (legacy := legacy_format(data[:_HEAD_BYTES])) is not None:
        raise ParseError(
            f"this is {legacy}, an old format that benchkit does not read",
            why=_EXPECTED,
            hint="convert it: pprof -proto FILE > FILE.pb.gz, with the program before FILE where it has no symbols",
        )
    if looks_like_perf_script(data[:_HEAD_BYTES].decode("utf-8", "replace")):
        return parse_perf_script(data.decode("utf-8", "replace").replace("\r\n", "\n"))
    try:
        return parse_pprof(data)
    except ParseError as error:
        raise ParseError(error.what, why=error.why, hint=_EXPECTED) from None


def _decompress(data: bytes) -> bytes:
    """Unpack a gzip file. Raises ParseError for a truncated, damaged or too large one."""
    decompressor = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        content = decompressor.decompress(data, MAX_BYTES)
    except zlib.error as error:
        raise ParseError("the gzip file is damaged", why=str(error)) from None
    if decompressor.unconsumed_tail:
        raise ParseError(
            "the gzip file is too large",
            why=f"its content exceeds {MAX_BYTES} bytes",
            hint="check that this is the profile you meant",
        )
    if not decompressor.eof:
        raise ParseError("the gzip file is truncated", why="it ends before the end of its content")
    if decompressor.unused_data.strip(b"\0"):
        raise ParseError(
            "the file has more than one gzip stream", why=f"{len(decompressor.unused_data)} bytes follow the first"
        )
    return content
