"""A parser of pprof's format (`profile.proto`), in which Go and others write profiles.

Names come from the profile itself, where Go writes all of them, as with `go tool pprof` without the program's binary.
The patterns `drop_frames` and `keep_frames`, which some C++ heap profilers write, are not applied. Labels are ignored.

The format is published, package `perftools.profiles` (github.com/google/pprof, proto/profile.proto). The protobuf
library gets number and type of each field in code, so that no generated module depends on the library's version. Two
deviations do not show on the wire. `string_table` is read as bytes, because names in real profiles are not always
UTF-8. Fields that benchkit does not use are not described, and the library skips them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Profile, ValueType

_PACKAGE = "benchkit.profiles.profile"

_Type = descriptor_pb2.FieldDescriptorProto
_INT64, _UINT64, _BOOL, _BYTES, _MESSAGE = (
    _Type.TYPE_INT64,
    _Type.TYPE_UINT64,
    _Type.TYPE_BOOL,
    _Type.TYPE_BYTES,
    _Type.TYPE_MESSAGE,
)
_ONE, _MANY = _Type.LABEL_OPTIONAL, _Type.LABEL_REPEATED

_MESSAGES: Mapping[str, Mapping[str, tuple[int, int, int, str]]] = MappingProxyType(
    {
        "Profile": {
            "sample_type": (1, _MANY, _MESSAGE, "ValueType"),
            "sample": (2, _MANY, _MESSAGE, "Sample"),
            "mapping": (3, _MANY, _MESSAGE, "Mapping"),
            "location": (4, _MANY, _MESSAGE, "Location"),
            "function": (5, _MANY, _MESSAGE, "Function"),
            "string_table": (6, _MANY, _BYTES, ""),
            "time_nanos": (9, _ONE, _INT64, ""),
            "duration_nanos": (10, _ONE, _INT64, ""),
            "default_sample_type": (14, _ONE, _INT64, ""),
        },
        # Texts are given by their index in the string table.
        "ValueType": {"type": (1, _ONE, _INT64, ""), "unit": (2, _ONE, _INT64, "")},
        # Locations innermost first; as many values as the profile has sample types.
        "Sample": {"location_id": (1, _MANY, _UINT64, ""), "value": (2, _MANY, _INT64, "")},
        "Mapping": {"id": (1, _ONE, _UINT64, ""), "filename": (5, _ONE, _INT64, "")},
        # Several lines for inlined functions; the last is the function that contains the others.
        "Location": {
            "id": (1, _ONE, _UINT64, ""),
            "mapping_id": (2, _ONE, _UINT64, ""),
            "line": (4, _MANY, _MESSAGE, "Line"),
        },
        "Line": {"function_id": (1, _ONE, _UINT64, "")},
        "Function": {
            "id": (1, _ONE, _UINT64, ""),
            "name": (2, _ONE, _INT64, ""),
            "filename": (4, _ONE, _INT64, ""),
        },
    }
)


@cache
def profile_message() -> type[Any]:
    """Return the class of the message `Profile`."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, label, kind, of) in fields.items():
            message.field.add(
                name=field,
                number=number,
                label=label,
                type=kind,
                type_name=f".{_PACKAGE}.{of}" if of else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Profile"))


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
        raise ParseError("not a pprof profile", why="it is not a protocol buffer, or it is truncated") from None
    if not message.sample_type:
        raise ParseError("not a pprof profile", why="it has no sample types")
    texts = _Texts(message.string_table)
    types = tuple(ValueType(texts[each.type], texts[each.unit]) for each in message.sample_type)
    frames: dict[Frame, int] = {}
    frames_of = _frames_by_location(message, texts, frames)
    default = _default_index(types, texts[message.default_sample_type])
    sums: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for sample in message.sample:
        try:
            stack = tuple([frame for location in sample.location_id for frame in frames_of[location]])
        except KeyError as error:
            raise ParseError(_DAMAGED, why=f"a sample refers to location {error}, which is missing") from None
        if len(sample.value) != len(types):
            raise ParseError(_DAMAGED, why=f"a sample has {len(sample.value)} values, not {len(types)}")
        sums[stack] += sample.value[default]
    return Profile(
        profiler="pprof",
        value_type=types[default],
        frames=tuple(frames),
        stacks=tuple(sums),
        weights=tuple(sums.values()),
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


def _frames_by_location(message: Any, texts: _Texts, frames: dict[Frame, int]) -> Mapping[int, tuple[int, ...]]:  # noqa: ANN401 - its class is made at run time
    """Return the frames of each location, innermost first: several for inlined functions, an unknown one for none."""
    modules = {each.id: texts[each.filename] or None for each in message.mapping}
    functions = {each.id: (texts[each.name], texts[each.filename] or None) for each in message.function}
    found: dict[int, tuple[int, ...]] = {}
    for location in message.location:
        if location.id == 0 or location.id in found:
            raise ParseError(_DAMAGED, why=f"location ids must be unique and not 0; found {location.id}")
        module = modules.get(location.mapping_id)
        stack = []
        for line in location.line:
            if line.function_id not in functions:
                raise ParseError(_DAMAGED, why=f"a location refers to function {line.function_id}, which is missing")
            name, file = functions[line.function_id]
            stack.append(frames.setdefault(Frame(name, module, file), len(frames)))
        found[location.id] = tuple(stack) or (frames.setdefault(Frame("", module), len(frames)),)
    return found


def _default_index(types: Sequence[ValueType], kind: str) -> int:
    return next((i for i, each in enumerate(types) if kind and each.kind == kind), len(types) - 1)


def _datetime(nanoseconds: int) -> datetime | None:
    """Return a time since 1970; None for 0, which means unknown, and for times outside the calendar."""
    try:
        return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds else None
    except OverflowError:
        return None
