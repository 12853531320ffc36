"""Recognition of profiles in the formats that pprof had before `profile.proto`, which benchkit does not read.

Forms as pprof reads them (github.com/google/pprof, profile/legacy_profile.go and legacy_java_profile.go). gperftools
writes its CPU profile as binary words: 0, the number of header words after it (3), 0, the period, 0. The others are
text with a first line of their own. Go writes some with `?debug=1`.
"""

from __future__ import annotations

import re
import struct

_TEXTS = (
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


def legacy_format(data: bytes) -> str | None:
    """Return the name of the legacy format that these bytes begin as; None for any other content."""
    if _is_cpu_profile(data):
        return "a CPU profile of gperftools"
    return next((name for name, start in _TEXTS if start.match(data)), None)


def _is_cpu_profile(data: bytes) -> bool:
    """Return whether the header words of gperftools stand first, in any word size and byte order."""
    for word in ("<5Q", ">5Q", "<5L", ">5L"):
        size = struct.calcsize(word)
        if len(data) < size:
            continue
        zero, header_words, version, period, padding = struct.unpack(word, data[:size])
        if (zero, header_words, padding) == (0, 3, 0) and version in {0, 1} and period > 0:  # 1: Java
            return True
    return False
