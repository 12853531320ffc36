from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.agent.frames import HEAD, MAGIC, MAX_BODY, FrameError, FrameReader, pack


def pieces_of(stream: bytes, sizes: list[int]) -> Callable[[int], bytes]:
    """Return `receive` of a stream that arrives in pieces of these sizes."""
    rest = bytearray(stream)
    left = iter(sizes)

    def receive(size: int) -> bytes:
        take = min(size, next(left, 65536))
        piece = bytes(rest[:take])
        del rest[:take]
        return piece

    return receive


@given(st.binary(min_size=HEAD.size, max_size=200).filter(lambda text: not text.startswith(MAGIC)))
def test_what_is_no_frame_is_refused(text: bytes) -> None:
    with pytest.raises(FrameError, match="no frame begins"):
        FrameReader(pieces_of(text, [])).next()


@pytest.mark.parametrize("text", [b"[1]", b'"x"', b"{", b"\xff"])
def test_a_header_is_a_json_object(text: bytes) -> None:
    with pytest.raises(FrameError, match="JSON"):
        FrameReader(pieces_of(HEAD.pack(MAGIC, len(text), 0) + text, [])).next()


def test_sizes_beyond_the_limits_are_refused_before_anything_is_read() -> None:
    head = struct.pack(">4sII", MAGIC, 2, MAX_BODY + 1)
    with pytest.raises(FrameError, match="no frame begins"):
        FrameReader(pieces_of(head, [])).next()
    with pytest.raises(FrameError, match="allowed"):
        pack({}, bytes(MAX_BODY + 1))
