from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchkit.agent.frames import FrameError, FrameReader, pack
from tests.unit.agent.test_frames import pieces_of

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
frames = st.tuples(st.dictionaries(st.text(), values, max_size=3), st.binary(max_size=300))


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


@given(frames, st.data())
def test_a_stream_cut_within_a_frame_is_an_error_and_no_frame(
    frame: tuple[dict[str, object], bytes], data: st.DataObject
) -> None:
    stream = pack(*frame)
    cut = data.draw(st.integers(1, len(stream) - 1))
    with pytest.raises(FrameError, match="within a frame"):
        FrameReader(pieces_of(stream[:cut], [])).next()
