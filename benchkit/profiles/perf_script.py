"""A parser of the output of `perf script`, with or without call stacks.

It reads the default output and output restricted by `-F`, if each sample has its event and its addresses with symbols.
A sample is a header line, then a line for each frame, innermost first, then an empty line:

    nginx 4711/4711 [001] 5158.414337:    3412969 cpu-clock:
        ffffffff81e2eed9 sock_write_iter+0x179 ([kernel.kallsyms])
                       fde9d writev+0x4d (/usr/lib/x86_64-linux-gnu/libc.so.6)

The number before the event is its period: the amount that the sample represents, in nanoseconds if the event is a clock
(perf-record(1), linux/perf_event.h). Names of programs and functions may contain blanks, brackets and colons, so both
lines are parsed from their ends.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Profile, ValueType

_HEADER = re.compile(
    r"""\s*(?P<comm>\S.*?)\s+
    (?:(?P<pid>-?[0-9]+)/)?(?P<tid>-?[0-9]+)\s+
    (?:\[(?P<cpu>[0-9]+)\]\s+)?
    (?:(?P<time>[0-9]+\.[0-9]+):\s+)?
    (?:(?P<period>[0-9]{1,19})\s+)?
    (?P<event>[^\s:](?:[^\s]*[^\s:])?):\s*
    (?P<frame>[0-9a-f]{1,16}\s.*\))?\s*""",
    re.VERBOSE,
)
_FRAME = re.compile(r"\s*(?P<address>[0-9a-f]{1,16})\s+(?P<rest>\S.*)")
_WITH_OFFSET = re.compile(r"(?P<symbol>.*)\+0x[0-9a-f]+ \((?P<module>.*)\)", re.DOTALL)
_WITHOUT_OFFSET = re.compile(r"(?P<symbol>.*) \((?!deleted\)\))(?P<module>.*)\)", re.DOTALL)
_MODIFIERS = re.compile(r"(?<=[^:]):[ukhHGPpSDIWeb]+$")
"""Suffix of an event's name: where and how precisely it counts (perf-list(1)); the colon of a tracepoint is not
a suffix."""

_INLINED = "inlined"
_NAMELESS = "[unknown]"
_KERNEL_FROM = 1 << 63
"""Lowest address of the kernel, on every 64-bit machine that runs Linux."""
_KERNEL = re.compile(r"\[(?:guest\.)?kernel\..*|.*\.ko(?:\.[gx]z|\.zst)?")
_CLOCKS = frozenset({"cpu-clock", "task-clock"})

MAX_LINES_BEFORE_SAMPLE = 200
"""Number of lines at the start of a text of which at least one must begin a sample."""
_EXCERPT_CHARACTERS = 100
"""Length of foreign text in a message."""


def looks_like_perf_script(text: str) -> bool:
    """Return True if a sample begins near the start of a text."""
    return any(_HEADER.fullmatch(line) for line in text.split("\n", MAX_LINES_BEFORE_SAMPLE)[:MAX_LINES_BEFORE_SAMPLE])


def parse_perf_script(text: str) -> Profile:
    """Parse the output of `perf script`. Raises ParseError for other text, and for incomplete output."""
    parser = _Parser()
    lines = enumerate(text.removesuffix("\n").split("\n"), 1)
    for number, line in lines:
        if line.strip() and not line.startswith("#"):
            parser.parse_sample(number, line, lines)
    return parser.build()


@dataclass
class _Parser:
    frames: dict[Frame, int] = field(default_factory=dict)
    rows: list[tuple[tuple[int, ...], str, int | None]] = field(default_factory=list)
    """Stack, event and period of each sample."""
    known_frames: dict[str, int] = field(default_factory=dict)
    """Frames by their lines: most lines are repeated."""

    def parse_sample(self, number: int, line: str, lines: Iterator[tuple[int, str]]) -> None:
        """Parse the sample that begins with a line, taking its other lines from the iterator."""
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _unexpected_line(number, line, "the first line of a sample")
        if header["frame"] is not None:
            stack = [self.parse_frame(number, header["frame"])]
        else:
            stack = []
            for frame_number, frame_line in lines:
                if not frame_line:
                    break
                frame = self.known_frames.get(frame_line)
                if frame is None:
                    frame = self.known_frames[frame_line] = self.parse_frame(frame_number, frame_line)
                stack.append(frame)
            else:
                raise ParseError("the output of perf script is truncated", why="it ends in the middle of a sample")
        period = None if header["period"] is None else int(header["period"])
        self.rows.append((tuple(stack), _MODIFIERS.sub("", header["event"]), period))

    def parse_frame(self, number: int, line: str) -> int:
        """Parse the line of a frame, and return its index."""
        found = _FRAME.fullmatch(line)
        parts = found and (_WITH_OFFSET.fullmatch(found["rest"]) or _WITHOUT_OFFSET.fullmatch(found["rest"]))
        if not (found and parts):
            raise _unexpected_line(number, line, "a frame")
        symbol, module = parts["symbol"], parts["module"]
        frame = Frame(
            function="" if symbol == _NAMELESS else symbol,
            module=None if module in {_INLINED, _NAMELESS} else module.removesuffix(" (deleted)"),
            kernel=int(found["address"], 16) >= _KERNEL_FROM or _KERNEL.fullmatch(module) is not None,
        )
        return self.frames.setdefault(frame, len(self.frames))

    def build(self) -> Profile:
        if not self.rows:
            raise ParseError("not output of perf script", why="it contains no sample")
        events = dict.fromkeys(event for _, event, _ in self.rows)
        counted = next((event for event in events if event in _CLOCKS), next(iter(events)))
        has_periods = all(period is not None for *_, period in self.rows)
        sums: defaultdict[tuple[int, ...], int] = defaultdict(int)
        for stack, event, period in self.rows:
            if not has_periods or event == counted:
                sums[stack] += 1 if period is None or not has_periods else period
        unit = "nanoseconds" if counted in _CLOCKS else "count"
        return Profile(
            profiler="perf",
            value_type=ValueType(counted, unit) if has_periods else ValueType("samples", "count"),
            frames=tuple(self.frames),
            stacks=tuple(sums),
            weights=tuple(sums.values()),
        )


def _unexpected_line(number: int, line: str, expected: str) -> ParseError:
    shown = line.strip()[:_EXCERPT_CHARACTERS]
    return ParseError("not output of perf script", why=f"line {number} is not {expected}: {shown!r}")
