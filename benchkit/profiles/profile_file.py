"""A reader of profile files from any supported profiler, gzipped or plain."""

from __future__ import annotations

import gzip
import zlib

from benchkit.errors import ParseError
from benchkit.models.profile import Profile
from benchkit.profiles.perf_script import looks_like_perf_script, parse_perf_script
from benchkit.profiles.pprof import parse_pprof

_GZIP = b"\x1f\x8b"
_PERF_DATA = (b"PERFILE2", b"2ELIFREP")
_HEAD_BYTES = 1 << 16
_EXPECTED = "expected a pprof profile or the output of `perf script`, gzipped or not"


def read_profile(data: bytes) -> Profile:
    """Read the profile in these bytes. Raises ParseError for unknown formats and for incomplete profiles."""
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except EOFError:
            raise ParseError("the gzip file is truncated", why="it ends before the end of its content") from None
        except (OSError, zlib.error) as error:
            raise ParseError("the gzip file is damaged", why=str(error)) from None
    if data.startswith(_PERF_DATA):
        raise ParseError(
            "not the output of perf script but a perf.data file",
            why=_EXPECTED,
            hint="convert it: perf script -i FILE > FILE.txt",
        )
    if not data.strip():
        raise ParseError("the file is empty", why=_EXPECTED)
    if looks_like_perf_script(data[:_HEAD_BYTES].decode("utf-8", "replace")):
        return parse_perf_script(data.decode("utf-8", "replace").replace("\r\n", "\n"))
    try:
        return parse_pprof(data)
    except ParseError as error:
        raise ParseError(error.what, why=error.why, hint=_EXPECTED) from None
