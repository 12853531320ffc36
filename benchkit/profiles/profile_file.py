"""Profile files from any supported profiler, gzipped or plain, and several profiles merged into one."""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Sequence

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Profile
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
    if any((each.profiler, each.value_type) != (first.profiler, first.value_type) for each in profiles):
        counted = sorted({f"{each.profiler}: {each.value_type.kind}" for each in profiles})
        raise ParseError("profiles with different value types cannot be merged", why="; ".join(counted))
    frames: dict[Frame, int] = {}
    sums: defaultdict[tuple[int, ...], int] = defaultdict(int)
    for profile in profiles:
        place_of = [frames.setdefault(frame, len(frames)) for frame in profile.frames]
        for stack, weight in zip(profile.stacks, profile.weights, strict=True):
            sums[tuple(place_of[frame] for frame in stack)] += weight
    durations = [each.duration_s for each in profiles if each.duration_s is not None]
    started = [each.started_at for each in profiles if each.started_at is not None]
    return Profile(
        profiler=first.profiler,
        value_type=first.value_type,
        frames=tuple(frames),
        stacks=tuple(sums),
        weights=tuple(sums.values()),
        started_at=min(started, default=None),
        duration_s=sum(durations) if len(durations) == len(profiles) else None,
    )
