"""Parser of wrk2's output by the one of wrk, with wrk2's own marks.

Meaning of the figures, read from its source (src/wrk.c, src/stats.c); the rest is as in wrk's parser:

- Marks of wrk2 are its lines "Thread calibration", and "HdrHistogram" in the heading of its distribution.
  Without them a text looks like wrk's, and only who ran it knows.
- Latency counts from when a request was due at the target rate (`-R`), which is not printed: it is corrected for
  coordinated omission. The "Uncorrected" distribution counts from sending and is stated only where it stands alone.
- The calibration of the first ten seconds is not in the latencies, but in requests, bytes and duration.
- An overloaded server raises these times for as long as the run lasts.
"""

from __future__ import annotations

from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.text import has_line
from benchkit.loadtools.wrk.output import FORMAT as WRK
from benchkit.loadtools.wrk.output import WRK2_MARKS, parse_wrk2
from benchkit.models.load_result import LoadResult, Note

_OPEN_LOOP = Note(
    code="open-loop",
    message="latencies count from when a request was due at wrk2's target rate, which it does not print",
)


def parse(text: str) -> LoadResult:
    """Return the result that wrk2 printed. Raises ParseError for other text, and for several runs."""
    result = parse_wrk2(text)
    return result.model_copy(update={"notes": (*result.notes, _OPEN_LOOP)}) if result.latency.corrected else result


FORMAT = OutputFormat("wrk2", has_line(*WRK2_MARKS), parse, WRK.starts, dialect_of="wrk")
