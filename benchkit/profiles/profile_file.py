"""Profile files from any supported profiler, gzipped or plain, and several profiles merged into one."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Interned, Profile
from benchkit.profiles.perf_script import looks_like_perf_script, parse_perf_script
from benchkit.profiles.pprof import parse_pprof

_GZIP = b"\x1f\x8b"
_PERF_DATA = (b"PERFILE2", b"2ELIFREP")
_HEAD_BYTES = 1 << 16
_EXPECTED = "expected a pprof profile or the output of `perf script`, gzipped or not"


def read_profile(data: bytes) -> Profile:
    """Read the profile in these bytes. Raises ParseError for unknown formats and for incomplete profiles."""
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except EOFError:
            raise ParseError("the gzip file is truncated", why="it ends before the end of its content") from None
        except (OSError, zlib.error) as error:
            raise ParseError("the gzip file is damaged", why=str(error)) from None
    if data.startswith(_PERF_DATA):
        raise ParseError(
            "not the output of perf script but a perf.data file",
            why=_EXPECTED,
            hint="convert it: perf script -i FILE > FILE.txt",
        )
    if not data.strip():
        raise ParseError("the file is empty", why=_EXPECTED)
    if looks_like_perf_script(data[:_HEAD_BYTES].decode("utf-8", "replace")):
        return parse_perf_script(data.decode("utf-8", "replace").replace("\r\n", "\n"))
    try:
        return parse_pprof(data)
    except ParseError as error:
        raise ParseError(error.what, why=error.why, hint=_EXPECTED) from None


def merge_profiles(profiles: Sequence[Profile]) -> Profile:
    """Merge the samples of profiles; durations add up. Raises ParseError for profiles with different value types."""
    first = profiles[0]
    if len(profiles) == 1:
        return first
    if any((each.profiler, each.value_types) != (first.profiler, first.value_types) for each in profiles):
        counted = sorted({f"{each.profiler}: {', '.join(v.kind for v in each.value_types)}" for each in profiles})
        raise ParseError("profiles with different value types cannot be merged", why="; ".join(counted))
    frames: Interned[Frame] = Interned()
    stacks: Interned[tuple[int, ...]] = Interned()
    samples: list[int] = []
    for profile in profiles:
        place_of = [frames.index(frame) for frame in profile.frames]
        stack_of = [stacks.index(tuple(place_of[frame] for frame in stack)) for stack in profile.stacks]
        samples += [stack_of[stack] for stack in profile.samples]
    durations = [each.duration_s for each in profiles if each.duration_s is not None]
    started = [each.started_at for each in profiles if each.started_at is not None]
    return Profile(
        profiler=first.profiler,
        value_types=first.value_types,
        default_value=first.default_value,
        frames=frames.values,
        stacks=stacks.values,
        samples=tuple(samples),
        values=tuple(
            tuple(value for each in profiles for value in each.values[i]) for i in range(len(first.value_types))
        ),
        started_at=min(started, default=None),
        duration_s=sum(durations) if len(durations) == len(profiles) else None,
    )
