"""The format of pprof's profiles (`profile.proto`) for the protobuf library: number and type of each field.

The format is published, package `perftools.profiles`
(github.com/google/pprof, proto/profile.proto). It is described to the library in code, so that no generated module
depends on the library's version. Two deviations do not show on the wire: `string_table` is read as bytes, because names
in real profiles are not always UTF-8; and fields that benchkit does not use are not described (the library skips them).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

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
        # Several lines where functions were inlined, the last one into which the others were.
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
