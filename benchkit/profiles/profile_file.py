"""A reader of profile files from any supported profiler, gzipped or plain."""

from __future__ import annotations

import re
import struct
import zlib

from benchkit.errors import ParseError
from benchkit.models.profile import Profile
from benchkit.profiles.perf_script import looks_like_perf_script, parse_perf_script
from benchkit.profiles.pprof import parse_pprof

MAX_BYTES = 1 << 30
"""Largest uncompressed size; no real profile comes near a gibibyte, but a malicious file would fill the memory."""

_GZIP = b"\x1f\x8b"
_PERF_DATA = (b"PERFILE2", b"2ELIFREP")
_HEAD_BYTES = 1 << 16
_EXPECTED = "expected a pprof profile or the output of `perf script`, gzipped or not"

_LEGACY_TEXTS = (
    (
        "a Java profile",
        re.compile(rb"\s*--- (?:heapz|contentionz|profile)[^\n]*---\s*\n\s*format = java", re.IGNORECASE),
    ),
    ("a heap profile of gperftools, or of Go with ?debug=1", re.compile(rb"\s*heap profile:.*\[.*\] @")),
    ("a growth profile of gperftools", re.compile(rb"\s*(?:heap profile:.*@ growthz|growthz|--- growthz)")),
    ("a contention profile", re.compile(rb"\s*--- (?:contention(?:z \d+ ---|:)|mutex:)", re.IGNORECASE)),
    ("a thread profile of gperftools", re.compile(rb"\s*--- threadz? \d+ ---|\s*--- Thread \d+", re.IGNORECASE)),
    (
        "a profile that Go wrote with ?debug=1",
        re.compile(rb"\s*(?:goroutine|threadcreate|allocs|block) profile: total "),
    ),
    ("a symbolized profile of gperftools", re.compile(rb"\s*--- symbol\s*\n")),
)
"""First lines of the formats that pprof had before `profile.proto`, which benchkit does not read.

Forms as pprof reads them (github.com/google/pprof, profile/legacy_profile.go and legacy_java_profile.go). A CPU profile
of gperftools begins with binary words: 0, the number of header words after it (3), 0, the period, 0. The others are
text with a first line of their own. Go writes some with `?debug=1`.
"""


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
    if (legacy := _legacy_format(data[:_HEAD_BYTES])) is not None:
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


def _legacy_format(data: bytes) -> str | None:
    """Return the name of the legacy format that these bytes begin as; None for any other content."""
    if _is_gperftools_cpu_profile(data):
        return "a CPU profile of gperftools"
    return next((name for name, start in _LEGACY_TEXTS if start.match(data)), None)


def _is_gperftools_cpu_profile(data: bytes) -> bool:
    """Return whether the header words of gperftools stand first, in any word size and byte order."""
    for word in ("<5Q", ">5Q", "<5L", ">5L"):
        size = struct.calcsize(word)
        if len(data) < size:
            continue
        zero, header_words, version, period, padding = struct.unpack(word, data[:size])
        if (zero, header_words, padding) == (0, 3, 0) and version in {0, 1} and period > 0:  # 1: Java
            return True
    return False
