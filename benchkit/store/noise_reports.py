"""The reports of slow and broken clients: the lines that their program prints, and what it did in a window. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from statistics import fmean

from pydantic import ValidationError

from benchkit.errors import ParseError
from benchkit.models.base import Frozen
from benchkit.models.load import NS_PER_S
from benchkit.models.noise import NoiseRecord


class NoiseReport(Frozen):
    """One line: the connections open at an instant, and totals since the start."""

    t_ns: int
    """Instant on the monotonic clock of the load host."""
    held: Mapping[str, int]
    """Open connections by kind: `slow_readers`, `half_open`."""
    done: Mapping[str, int]
    """Totals: `read_bytes`, `responses`, `malformed`, `refused`, `closed`."""
    answers: Mapping[str, int]
    """Answers to malformed requests, by status; without an answer, by `closed` or `none`."""
    cpu_s: float

    @property
    def connections(self) -> int:
        """Open connections of both kinds."""
        return sum(self.held.values())


def read_noise(content: bytes) -> list[NoiseReport]:
    """Read the complete lines that the program printed. Raises ParseError."""
    try:
        return [NoiseReport.model_validate_json(line) for line in content.split(b"\n")[:-1]]
    except ValidationError as error:
        raise ParseError("the reports of the slow and broken clients are damaged", why=str(error)) from None


def noise_record(
    reports: Sequence[NoiseReport], window_ns: tuple[int, int], host: str, argv: tuple[str, ...], cpus: tuple[int, ...]
) -> NoiseRecord:
    """Return what was done in a window, from the last report before it to the first one after it.

    Raises ParseError where no two reports enclose a part of it.
    """
    start_ns, end_ns = window_ns
    times = [each.t_ns for each in reports]
    inside = reports[max(bisect_right(times, start_ns) - 1, 0) : bisect_left(times, end_ns) + 1]
    if len(inside) < 2:  # noqa: PLR2004 - a difference needs two
        raise ParseError("the slow and broken clients reported nothing in the measured window")
    first, last = inside[0], inside[-1]

    def done(name: str) -> int:
        return last.done.get(name, 0) - first.done.get(name, 0)

    answers = {status: count - first.answers.get(status, 0) for status, count in last.answers.items()}
    return NoiseRecord(
        host=host,
        argv=argv,
        cpus=cpus,
        cpu_s=last.cpu_s - first.cpu_s,
        observed_s=(last.t_ns - first.t_ns) / NS_PER_S,
        slow_readers=fmean(each.held.get("slow_readers", 0) for each in inside),
        half_open=fmean(each.held.get("half_open", 0) for each in inside),
        read_bytes=done("read_bytes"),
        responses=done("responses"),
        malformed=done("malformed"),
        answers={status: count for status, count in answers.items() if count},
        refused=done("refused"),
        closed=done("closed"),
    )
