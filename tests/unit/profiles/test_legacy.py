"""Profiles in the formats that pprof had before `profile.proto`: refused by name."""

from __future__ import annotations

import gzip
import struct

import pytest

from benchkit.errors import ParseError
from benchkit.profiles.profile_file import read_profile

LEGACY = [
    *((struct.pack(word, 0, 3, 0, 10_000, 0) + bytes(40), "CPU profile of gperftools") for word in ("<5Q", ">5L")),
    (b"heap profile:      3:   4096 [     5:    8192] @ heap_v2/524288\n", "heap profile of gperftools"),
    (b"heap profile: 1: 16 [1: 16] @ heap/1048576\n1: 16 [1: 16] @ 0x1 0x2\n", "heap profile of gperftools"),
    (b"--- contentionz 1 ---\ncycles/second = 3201000000\n", "contention profile"),
    (b"--- contention:\ncycles/second=2494255279\n", "contention profile"),
    (b"--- mutex:\ncycles/second=2494255279\n", "contention profile"),
    (b"--- contentionz 1 ---\nformat = java\nresolution = microseconds\n", "Java profile"),
    (b"--- heapz 1 ---\nformat = java\nresolution = bytes\n", "Java profile"),
    (b"--- threadz 1 ---\n\n--- Thread 7f794ab90940 (name: main/14748) stack: ---\n", "thread profile"),
    (b"goroutine profile: total 5\n1 @ 0x43a1a5\n", "Go wrote with"),
]


@pytest.mark.parametrize(("data", "name"), LEGACY)
def test_a_legacy_profile_is_refused_by_name(data: bytes, name: str) -> None:
    for content in (data, gzip.compress(data)):
        with pytest.raises(ParseError, match=name) as raised:
            read_profile(content)
        assert "pprof -proto" in (raised.value.hint or "")
