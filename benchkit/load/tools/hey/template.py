"""hey printed through a template of ours: every answer's time to the nanosecond, and exact counts.

hey takes any text for `-o` as a template (Go's text/template) over its report, in all its versions from 0.1.0 to 0.1.4
(requester/print.go); only boom does not. Of the report's fields these stay exact past the million answers that it keeps
(requester/report.go): how many requests there were, their errors, the sum of all times and of all declared lengths, and
how long the run took. Its text goes through fmt.Fprintf as a format, so that a `%` in it would be read as a verb: error
messages are printed in hex.

The reducer reads the rows (tool `hey-template`) and hands on what stands behind them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from benchkit.errors import ParseError
from benchkit.load.tools.text import shown
from benchkit.models.base import Frozen

ROWS = "hey-template"
"""The reducer's name for what the template prints."""

TEMPLATE = """\
benchkit rows of hey: time_s,status,offset_s
{{range $i, $time := .Lats}}{{printf "%.9f,%d,%.6f" $time (index $.StatusCodes $i) (index $.Offsets $i)}}
{{end}}--- benchkit counters of hey 1
requests {{.NumRes}}
duration_ns {{.Total.Nanoseconds}}
bytes {{.SizeTotal}}
time_s {{printf "%.9f" .AvgTotal}}
errors {{printf "%x" (jsonify .ErrorDist)}}
--- end of benchkit counters of hey
"""

_BLOCK = re.compile(
    r"^--- benchkit counters of hey 1\n"
    r"requests ([0-9]{1,18})\nduration_ns ([0-9]{1,18})\nbytes ([0-9]{1,18})\ntime_s ([0-9]{1,18}\.[0-9]{9})\n"
    r"errors ([0-9a-f]*)\n--- end of benchkit counters of hey$",
    re.MULTILINE,
)


class HeyCounters(Frozen):
    """What stands behind the rows."""

    requests: int
    """All of them, failed ones too."""
    duration_s: float
    bytes_total: int
    """Of the bodies whose length was declared."""
    time_s: float
    """The sum of all answers' times."""
    errors: Mapping[str, int]
    """Failed requests by message."""

    @property
    def failed(self) -> int:
        """Requests without an answer."""
        return sum(self.errors.values())


def counters(text: str) -> HeyCounters:
    """The counters behind the rows. Raises ParseError where they are not whole."""
    blocks = _BLOCK.findall(text)
    if len(blocks) != 1:
        raise ParseError(
            "hey printed no counters, or a part of them",
            where="hey",
            hint="did it end by itself, and is it from 0.1 on?",
        )
    requests, duration_ns, length, time_s, errors = blocks[0]
    return HeyCounters(
        requests=int(requests),
        duration_s=int(duration_ns) / 1e9,
        bytes_total=int(length),
        time_s=float(time_s),
        errors=_errors(errors),
    )


def _errors(hexed: str) -> dict[str, int]:
    """Error messages and how often each was met."""
    try:
        found = json.loads(bytes.fromhex(hexed))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(type(n) is int and n > 0 for n in found.values()):
        raise ParseError("the errors that hey counted cannot be read", where="hey", why=shown(hexed))
    return found
