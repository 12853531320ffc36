"""Profiles of Go programs, and of others in pprof's format: `profile.proto` → `Profile`.

What is read is what `go tool pprof` reads without the program's binary: the names that stand in the profile (Go writes
them all). Not applied are the patterns `drop_frames` and `keep_frames`, which some C++ heap profilers write and Go does
not. Labels are left aside, so that a difference that pprof wrote (`-diff_base`, `-proto`) is read as plain samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.message import DecodeError

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.profiles.interned import Interned
from benchkit.profiles.profile_schema import profile_message

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECOND = 1e-9
_DAMAGED = "a damaged pprof profile"


def parse_pprof(data: bytes) -> Profile:
    """A profile in pprof's format, already unpacked. Raises ParseError where it is none, or contradicts itself."""
    message = profile_message()()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise ParseError("no pprof profile", why="it is no protocol buffer, or only a part of one") from None
    if not message.sample_type:
        raise ParseError("no pprof profile", why="it does not say what was sampled")
    texts = _Texts(message.string_table)
    types = tuple(ValueType(texts[each.type], texts[each.unit]) for each in message.sample_type)
    frames: Interned[Frame] = Interned()
    stacks: Interned[tuple[int, ...]] = Interned()
    frames_of = _frames_of_locations(message, texts, frames)
    samples: list[int] = []
    rows: list[Sequence[int]] = []
    for sample in message.sample:
        try:
            stack = tuple([frame for location in sample.location_id for frame in frames_of[location]])
        except KeyError as error:
            raise ParseError(_DAMAGED, why=f"a sample is at location {error}, which it does not have") from None
        if len(sample.value) != len(types):
            raise ParseError(_DAMAGED, why=f"a sample has {len(sample.value)} values, not {len(types)}")
        samples.append(stacks.place(stack))
        rows.append(sample.value)
    return Profile(
        profiler="pprof",
        value_types=types,
        default_value=_default(types, texts[message.default_sample_type]),
        frames=frames.things,
        stacks=stacks.things,
        samples=tuple(samples),
        values=tuple(zip(*rows, strict=True)) if rows else ((),) * len(types),
        started_at=_moment(message.time_nanos),
        duration_s=message.duration_nanos * _NANOSECOND if message.duration_nanos > 0 else None,
    )


class _Texts:
    """The string table as text; what is no UTF-8 in it is replaced."""

    def __init__(self, table: Sequence[bytes]) -> None:
        self._texts = [text.decode("utf-8", "replace") for text in table] or [""]

    def __getitem__(self, index: int) -> str:
        if 0 <= index < len(self._texts):
            return self._texts[index]
        raise ParseError(_DAMAGED, why=f"it names text {index} of {len(self._texts)}")


def _frames_of_locations(message: Any, texts: _Texts, frames: Interned[Frame]) -> Mapping[int, tuple[int, ...]]:  # noqa: ANN401 - its class is made at run time
    """The frames of each location, innermost first: several where functions were inlined, one where none is known."""
    modules = {each.id: texts[each.filename] or None for each in message.mapping}
    functions = {each.id: (texts[each.name], texts[each.filename] or None) for each in message.function}
    found: dict[int, tuple[int, ...]] = {}
    for location in message.location:
        if location.id == 0 or location.id in found:
            raise ParseError(_DAMAGED, why=f"location {location.id} is not the only one of that number")
        module = modules.get(location.mapping_id)
        placed = []
        last = len(location.line) - 1
        for i, line in enumerate(location.line):
            if line.function_id not in functions:
                raise ParseError(_DAMAGED, why=f"it names function {line.function_id}, which it does not have")
            name, file = functions[line.function_id]
            placed.append(frames.place(Frame(name, module, file, inlined=i < last)))
        found[location.id] = tuple(placed) or (frames.place(Frame("", module)),)
    return found


def _default(types: Sequence[ValueType], kind: str) -> int:
    """The index of the value that is meant without further words: the one named, else the last."""
    return next((i for i, each in enumerate(types) if kind and each.kind == kind), len(types) - 1)


def _moment(nanoseconds: int) -> datetime | None:
    """A time since 1970; 0 stands for an unknown one, and what no calendar has is none."""
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds else None
    except OverflowError:
        return None
