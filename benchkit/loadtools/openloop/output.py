"""The summary that openloop prints, a line of JSON on stderr, and its meaning (backends/openloop/record.go).

- `requests` got a response, whatever its status. `errors` are requests that got none, by message.
- `duration_s` is from the first request that was due to the last response; `bytes` counts bodies.
- `seed` repeats random arrivals: with the flag `-seed` the same requests are due at the same instants again.
- `tls` has the handshakes of its connections, also from before the first request is due. `early` counts the resumed
  ones in which the server took early data (0-RTT); it is absent where none was asked for. Protocol and cipher are of
  the last handshake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from benchkit import units
from benchkit.errors import ParseError
from benchkit.loadtools.reader import OutputFormat
from benchkit.loadtools.text import (
    Count,
    Figure,
    errors_of,
    has_line,
    line_with,
    not_output_of,
    several_runs,
    split_lines,
)
from benchkit.models.base import Frozen
from benchkit.models.load_result import Latency, LoadResult, Note
from benchkit.models.protocol import HttpProtocol, Negotiated
from benchkit.validation import first_fault

_START = '{"openloop":'


class _Handshakes(Frozen):
    alpn: str
    version: str
    cipher: str
    full: Count
    resumed: Count
    early: Count | None = None

    @property
    def negotiated(self) -> Negotiated | None:
        """Protocol and cipher of the last connection; None where no handshake ended."""
        if not self.full + self.resumed:
            return None
        names: Mapping[str, HttpProtocol] = {"http/1.1": "https1", "h2": "h2", "h3": "h3"}
        return Negotiated(
            protocol=names.get(self.alpn), tls_version=self.version.removeprefix("TLS "), cipher=self.cipher
        )


class _Summary(Frozen):
    openloop: Literal[1]
    """Version of the summary."""
    duration_s: Figure
    requests: Count
    bytes: Count
    errors: Mapping[str, Count]
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] | None = None
    tls: _Handshakes | None = None


def parse(text: str) -> LoadResult:
    """Return the result that openloop printed. Raises ParseError for other text, and for several runs."""
    lines = split_lines(text)
    summaries = [line for each in lines if (line := each.strip()).startswith(_START)]
    if not summaries:
        raise not_output_of("openloop", lines)
    if len(summaries) > 1:
        raise several_runs("openloop", summaries[0])
    try:
        output = _Summary.model_validate_json(summaries[0], strict=True)
    except ValidationError as error:
        raise ParseError("not a summary of openloop", why=first_fault(error, _Summary)) from None
    duration_s = output.duration_s or None
    return LoadResult(
        tool="openloop",
        duration_s=duration_s,
        requests=output.requests,
        rps=None if duration_s is None else output.requests / duration_s,
        bytes_total=output.bytes,
        bytes_per_s=None if duration_s is None else output.bytes / duration_s,
        latency=Latency(covers="connect+request", corrected=False),
        errors=errors_of(output.errors),
        failed=sum(output.errors.values()),
        negotiated=None if output.tls is None else output.tls.negotiated,
        notes=tuple(_notes(output)),
    )


def _notes(output: _Summary) -> Iterator[Note]:
    if output.errors:
        messages = [f"{message}: {count}" for message, count in output.errors.items()]
        yield Note(code="openloop-errors", message="; ".join(messages))
    if output.tls is not None and output.tls.early is not None:
        handshakes = units.counted(output.tls.full + output.tls.resumed, "handshake")
        yield Note(
            code="openloop-early-data", message=f"{units.count(output.tls.early)} of {handshakes} had early data"
        )


FORMAT = OutputFormat("openloop", has_line(re.escape(_START)), parse, (line_with(re.escape(_START)),))
