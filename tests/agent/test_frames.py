from __future__ import annotations

import json
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.agent.frames import HEAD, MAGIC, MAX_BODY, FrameError, FrameReader, pack

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
frames = st.tuples(st.dictionaries(st.text(), values, max_size=3), st.binary(max_size=300))


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


@pytest.mark.long
@given(st.lists(frames, max_size=6), st.lists(st.integers(1, 40), max_size=50))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(
    sent: list[tuple[dict[str, object], bytes]], sizes: list[int]
) -> None:
    stream = b"".join(pack(header, body) for header, body in sent)
    reader = FrameReader(pieces_of(stream, sizes))
    got = []
    while (frame := reader.next()) is not None:
        got.append(frame)
    assert got == sent


@pytest.mark.long
@given(frames, st.data())
def test_a_stream_cut_within_a_frame_is_an_error_and_no_frame(
    frame: tuple[dict[str, object], bytes], data: st.DataObject
) -> None:
    stream = pack(*frame)
    cut = data.draw(st.integers(1, len(stream) - 1))
    with pytest.raises(FrameError, match="within a frame"):
        FrameReader(pieces_of(stream[:cut], [])).next()


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


def test_the_layout_stays_as_it_is_within_a_protocol() -> None:
    header = {"id": 1, "op": "clock"}
    text = json.dumps(header, separators=(",", ":")).encode()
    assert pack(header, b"xyz") == b"bnch" + len(text).to_bytes(4, "big") + (3).to_bytes(4, "big") + text + b"xyz"
