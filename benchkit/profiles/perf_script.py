"""What `perf script` prints, with or without call stacks → `Profile`.

Read is its default output and what `-F` leaves of it, as long as each sample has its event and its addresses with
symbols. A sample is a line of its own, then a line for each frame, innermost first, then an empty line:

    nginx 4711/4711 [001] 5158.414337:    3412969 cpu-clock:
        ffffffff81e2eed9 sock_write_iter+0x179 ([kernel.kallsyms])
                       fde9d writev+0x4d (/usr/lib/x86_64-linux-gnu/libc.so.6)

The number before the event is its period: what the sample stands for, in nanoseconds where the event is a clock
(perf-record(1), linux/perf_event.h). A program's name and a function's may hold blanks, brackets and colons, so both
lines are read from their ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from benchkit.errors import ParseError
from benchkit.models.profile import Frame, Profile, ValueType
from benchkit.profiles.interned import Interned

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
"""What may follow an event's name: where it counts and how precisely (perf-list(1)); a tracepoint's own colon is none."""

_INLINED = "inlined"
_NAMELESS = "[unknown]"
_KERNEL_FROM = 1 << 63
"""Addresses from here on are the kernel's, on every 64-bit machine that Linux runs on."""
_KERNEL = re.compile(r"\[(?:guest\.)?kernel\..*|.*\.ko(?:\.[gx]z|\.zst)?")
_CLOCKS = frozenset({"cpu-clock", "task-clock"})

LOOKED_AT = 200
"""Lines at the beginning in which a sample must stand."""
_SHOWN = 100
"""Characters of foreign text in a message."""


def looks_like_perf_script(text: str) -> bool:
    """Whether a sample stands near the beginning of a text."""
    return any(_HEADER.fullmatch(line) for line in text.split("\n", LOOKED_AT)[:LOOKED_AT])


def parse_perf_script(text: str) -> Profile:
    """A profile from what `perf script` printed. Raises ParseError where it is none, or only a part of one."""
    reading = _Reading()
    lines = enumerate(text.removesuffix("\n").split("\n"), 1)
    for number, line in lines:
        if line.strip() and not line.startswith("#"):
            reading.sample(number, line, lines)
    return reading.profile()


@dataclass
class _Reading:
    """The tables as far as they are read."""

    frames: Interned[Frame] = field(default_factory=Interned)
    stacks: Interned[tuple[int, ...]] = field(default_factory=Interned)
    events: Interned[str] = field(default_factory=Interned)
    rows: list[tuple[int, int, int | None]] = field(default_factory=list)
    """Of each sample its stack, its event and its period."""
    known: dict[str, int] = field(default_factory=dict)
    """Lines of frames that were read before: most are repeated."""

    def sample(self, number: int, line: str, lines: Iterator[tuple[int, str]]) -> None:
        """Read the sample that begins with a line, and take its other lines."""
        header = _HEADER.fullmatch(line)
        if header is None:
            raise _strange(number, line, "the first line of a sample")
        if header["frame"] is not None:
            stack = [self.frame(number, header["frame"])]
        else:
            stack = []
            for below, each in lines:
                if not each:
                    break
                place = self.known.get(each)
                if place is None:
                    place = self.known[each] = self.frame(below, each)
                stack.append(place)
            else:
                raise ParseError("a part of what perf script prints", why="it ends in the middle of a sample")
        event = self.events.place(_MODIFIERS.sub("", header["event"]))
        period = None if header["period"] is None else int(header["period"])
        self.rows.append((self.stacks.place(tuple(stack)), event, period))

    def frame(self, number: int, line: str) -> int:
        """Read a frame."""
        found = _FRAME.fullmatch(line)
        parts = found and (_WITH_OFFSET.fullmatch(found["rest"]) or _WITHOUT_OFFSET.fullmatch(found["rest"]))
        if not (found and parts):
            raise _strange(number, line, "a frame")
        symbol, module = parts["symbol"], parts["module"]
        inlined = module == _INLINED
        return self.frames.place(
            Frame(
                function="" if symbol == _NAMELESS else symbol,
                module=None if inlined or module == _NAMELESS else module.removesuffix(" (deleted)"),
                inlined=inlined,
                kernel=int(found["address"], 16) >= _KERNEL_FROM or _KERNEL.fullmatch(module) is not None,
            )
        )

    def profile(self) -> Profile:
        """What was read, as a profile."""
        if not self.rows:
            raise ParseError("no output of perf script", why="there is no sample in it")
        periods = [(event, period) for _, event, period in self.rows if period is not None]
        events = self.events.things if len(periods) == len(self.rows) else ()
        columns = [tuple(period if event == i else 0 for event, period in periods) for i in range(len(events))]
        default = next((i for i, event in enumerate(events, 1) if event in _CLOCKS), min(1, len(events)))
        return Profile(
            profiler="perf",
            value_types=(
                ValueType("samples", "count"),
                *(ValueType(event, "nanoseconds" if event in _CLOCKS else "count") for event in events),
            ),
            default_value=default,
            frames=self.frames.things,
            stacks=self.stacks.things,
            samples=tuple(stack for stack, _, _ in self.rows),
            values=((1,) * len(self.rows), *columns),
        )


def _strange(number: int, line: str, expected: str) -> ParseError:
    shown = line.strip()[:_SHOWN]
    return ParseError("not what perf script prints", why=f"line {number} is not {expected}: {shown!r}")
