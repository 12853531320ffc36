"""Results that somebody else published: the output of a load tool, or the rows of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationError

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.load_result import LoadResult, Note
from benchkit.plugins.foreign.output_marks import marks_of


class PublishedResult(Frozen):
    """One published measurement; times in seconds, None for what is not stated."""

    name: str
    """Server, or file of the output."""
    test: str | None = Field(default=None, description="what was asked of it: rates of one test alone are compared")
    repetition: int | None = Field(default=None, description="number of the row or column, where they are repetitions")
    tool: str | None = None
    connections: int | None = None
    streams: int | None = Field(
        default=None, description="requests in flight on each connection: pipelined, or streams"
    )
    is_multiplexed: bool = Field(default=False, description="true: over HTTP/2 or 3, whose streams may not be stated")
    target_rate: float | None = Field(default=None, description="rate that the tool held, in requests per second")
    rate_ratio: float | None = Field(default=None, description="achieved rate as a share of the target rate")
    is_open: bool = Field(default=False, description="true: requests were due at a rate, answered or not (open model)")
    rps: float | None = None
    requests: int | None = None
    duration_s: float | None = None
    duration_step_s: float = Field(default=0.0, description="step in which the duration is stated")
    bytes_per_s: float | None = None
    mean_s: float | None = None
    max_s: float | None = None
    percentiles: Mapping[float, float] = Field(default_factory=dict, description="seconds by percentage: {99: 0.002}")
    resolution_s: float | None = Field(default=None, description="step in which times are stated")
    corrected: bool | None = Field(default=None, description="true: its times are corrected by the tool; None: unknown")
    failures: int | None = None
    failure_share: float | None = Field(default=None, description="failed requests as a share of all")
    errors_connect: int | None = None
    statuses: Mapping[str, int] = Field(default_factory=dict, description="answers by class of status: {'2xx': 12}")
    reconnects: int | None = None
    dropped: int | None = Field(default=None, description="requests or iterations that were due and not started")
    complete: bool = True
    notes: tuple[Note, ...] = ()

    @property
    def label(self) -> str:
        """Name, with the test and the connections where they are known."""
        connections = None if self.connections is None else units.counted(self.connections, "connection")
        return ", ".join(filter(None, (self.name, self.test, connections)))


CLOSED_SHARE = 0.99
"""Read errors of wrk for each answer from which the server is taken to close every connection."""
OPEN = frozenset({"open-loop", "open-model", "target-rate"})
"""Codes of notes on outputs whose requests were due at a rate."""
WHOLE_SECONDS_STEP_S = 2.0
"""Step of a duration that is rounded down to whole seconds: half a step, a second, may be missing."""


def result_of_output(name: str, output: LoadResult, text: str = "") -> PublishedResult:
    """Return the result in the output of a load tool; `text` is of this run alone, and states the load."""
    errors, marks = output.errors, marks_of(output.tool, text)
    closed = _closed_connections(output)
    read = errors.read if closed is None else None
    redirects = sum(number for code, number in output.status.items() if code[0] == "3")
    not_2xx = None if output.non_2xx is None else output.non_2xx - redirects
    counts = [errors.connect, read, errors.write, errors.timeout, errors.other, not_2xx]
    known = [count for count in counts if count is not None]
    failures = sum(known) if known else output.failed
    if output.failed is not None:  # the tool's own sum; an answer of another length is no failure
        failures = max(failures or 0, output.failed - (output.failed_length or 0))
    connections = output.connections
    if connections and output.threads and output.tool in {"wrk", "wrk2"}:  # each thread opens the same number
        connections = connections // output.threads * output.threads
    protocol = output.negotiated.protocol if output.negotiated else None
    return PublishedResult(
        name=name,
        tool=output.tool,
        connections=connections or None,
        streams=marks.streams,
        is_multiplexed=protocol in {"h2", "h2c"} or output.tool == "h2load",
        target_rate=marks.target_rate,
        rate_ratio=marks.rate_ratio,
        is_open=marks.is_open or any(note.code in OPEN for note in output.notes),
        rps=output.rps,
        requests=output.requests,
        duration_s=output.duration_s,
        duration_step_s=WHOLE_SECONDS_STEP_S if any(note.code == "whole-seconds" for note in output.notes) else 0.0,
        bytes_per_s=output.bytes_per_s,
        mean_s=output.latency.mean_s,
        max_s=output.latency.max_s,
        percentiles={float(percent): time for percent, time in output.latency.percentiles.items()},
        resolution_s=output.latency.resolution_s,
        corrected=output.latency.corrected,
        failures=failures,
        failure_share=None if output.availability is None else 1 - output.availability,
        errors_connect=errors.connect,
        reconnects=closed,
        dropped=output.dropped,
        complete=output.complete,
        notes=output.notes,
    )


def results_of_outputs(name: str, outputs: Sequence[LoadResult], text: str) -> list[PublishedResult]:
    """Return the results in a text. Several with the same target may be of one server: each is a test of its own."""
    if len(outputs) == 1:
        return [result_of_output(name, outputs[0], text)]
    numbered = [(f"run {number}", each) for number, each in enumerate(outputs, start=1)]
    if len({each.target for each in outputs}) > 1:
        return [result_of_output(f"{name} {run}", each) for run, each in numbered]
    return [result_of_output(name, each).model_copy(update={"test": run}) for run, each in numbered]


def _closed_connections(output: LoadResult) -> int | None:
    """Return wrk's read errors if they are no failures: one for each answer, as the server closes unannounced."""
    read, answers = output.errors.read, output.requests
    if output.tool not in {"wrk", "wrk2"} or not read or not answers:
        return None
    return read if CLOSED_SHARE * answers <= read <= answers else None


class PublishedTable(NamedTuple):
    """The results of a table, and the headings of the columns that no result uses."""

    results: Sequence[PublishedResult]
    unused: Sequence[str]


def stated_result(text: str) -> LoadResult | None:
    """Return the result that a document of `benchkit parse --json` is; None for other text."""
    try:
        return LoadResult.model_validate_json(text) if text.lstrip().startswith("{") else None
    except ValidationError:
        return None


def tests_apart(tables: Mapping[str, PublishedTable]) -> list[list[PublishedResult]]:
    """Return the results of several files; results of tables have the name of their file as test."""
    several = sum(any(each.tool is None for each in table.results) for table in tables.values()) > 1
    return [
        [
            each.model_copy(update={"test": ", ".join(filter(None, (Path(file).name.partition(".")[0], each.test)))})
            if several and each.tool is None
            else each
            for each in table.results
        ]
        for file, table in tables.items()
    ]
