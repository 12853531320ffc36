"""A parser of pprof's format (`profile.proto`), in which Go and others write profiles.

Names come from the profile itself, where Go writes all of them, as with `go tool pprof` without the program's binary.
The patterns `drop_frames` and `keep_frames`, which some C++ heap profilers write, are not applied. Labels are ignored,
so that a difference that pprof wrote (`-diff_base`, `-proto`) is read as plain samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.message import DecodeError

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.profiles.interned import Interned
from benchkit.profiles.pprof_schema import profile_message

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECOND = 1e-9
_DAMAGED = "the pprof profile is damaged"


def parse_pprof(data: bytes) -> Profile:
    """Parse an uncompressed profile in pprof's format.

    Raises ParseError for other data, and for inconsistent profiles.
    """
    message = profile_message()()
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise ParseError("not a pprof profile", why="it is not a protocol buffer, or a truncated one") from None
    if not message.sample_type:
        raise ParseError("not a pprof profile", why="it has no sample types")
    texts = _Texts(message.string_table)
    types = tuple(ValueType(texts[each.type], texts[each.unit]) for each in message.sample_type)
    frames: Interned[Frame] = Interned()
    stacks: Interned[tuple[int, ...]] = Interned()
    frames_of = _frames_by_location(message, texts, frames)
    samples: list[int] = []
    rows: list[Sequence[int]] = []
    for sample in message.sample:
        try:
            stack = tuple([frame for location in sample.location_id for frame in frames_of[location]])
        except KeyError as error:
            raise ParseError(_DAMAGED, why=f"a sample refers to location {error}, which is missing") from None
        if len(sample.value) != len(types):
            raise ParseError(_DAMAGED, why=f"a sample has {len(sample.value)} values, not {len(types)}")
        samples.append(stacks.index(stack))
        rows.append(sample.value)
    return Profile(
        profiler="pprof",
        value_types=types,
        default_value=_default_index(types, texts[message.default_sample_type]),
        frames=frames.values,
        stacks=stacks.values,
        samples=tuple(samples),
        values=tuple(zip(*rows, strict=True)) if rows else ((),) * len(types),
        started_at=_datetime(message.time_nanos),
        duration_s=message.duration_nanos * _NANOSECOND if message.duration_nanos > 0 else None,
    )


class _Texts:
    """The string table as text; bytes that are not UTF-8 are replaced."""

    def __init__(self, table: Sequence[bytes]) -> None:
        self._texts = [text.decode("utf-8", "replace") for text in table] or [""]

    def __getitem__(self, index: int) -> str:
        if 0 <= index < len(self._texts):
            return self._texts[index]
        raise ParseError(_DAMAGED, why=f"it refers to string {index} of {len(self._texts)}")


def _frames_by_location(message: Any, texts: _Texts, frames: Interned[Frame]) -> Mapping[int, tuple[int, ...]]:  # noqa: ANN401 - its class is made at run time
    """Return the frames of each location, innermost first: several for inlined functions, an unknown one for none."""
    modules = {each.id: texts[each.filename] or None for each in message.mapping}
    functions = {each.id: (texts[each.name], texts[each.filename] or None) for each in message.function}
    found: dict[int, tuple[int, ...]] = {}
    for location in message.location:
        if location.id == 0 or location.id in found:
            raise ParseError(_DAMAGED, why=f"location ids must be unique and not 0; found {location.id}")
        module = modules.get(location.mapping_id)
        stack = []
        last = len(location.line) - 1
        for i, line in enumerate(location.line):
            if line.function_id not in functions:
                raise ParseError(_DAMAGED, why=f"a location refers to function {line.function_id}, which is missing")
            name, file = functions[line.function_id]
            stack.append(frames.index(Frame(name, module, file, inlined=i < last)))
        found[location.id] = tuple(stack) or (frames.index(Frame("", module)),)
    return found


def _default_index(types: Sequence[ValueType], kind: str) -> int:
    """Return the index of the default value type: the named one, else the last."""
    return next((i for i, each in enumerate(types) if kind and each.kind == kind), len(types) - 1)


def _datetime(nanoseconds: int) -> datetime | None:
    """Return a time since 1970; None for 0, which means unknown, and for times outside the calendar."""
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds else None
    except OverflowError:
        return None
