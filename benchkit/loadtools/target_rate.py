"""The rate that a load tool achieved where a target rate was set. Pure."""

from __future__ import annotations

from dataclasses import replace

from benchkit.loadtools.tool import ParsedOutput, RateSupport
from benchkit.models.load import Load


def with_achieved_rate(output: ParsedOutput, load: Load, support: RateSupport | None) -> ParsedOutput:
    """Return the output of one generator with the rate that it achieved, where its load has a target rate."""
    if load.rate is None or support is None or output.measurement is None:
        return output
    rate = _achieved_rate(output, load, support)
    return replace(output, measurement=replace(output.measurement, achieved_rate=rate))


def _achieved_rate(output: ParsedOutput, load: Load, support: RateSupport) -> float | None:
    """Return answered requests per second, from the instants of the requests where the tool states them.

    Requests are sent at instants that are an interval apart; n of them cover n - 1 intervals, on each connection where
    each has its own. In an open loop requests are sent at the target rate whatever becomes of them, so that only those
    count that were answered before the last one was sent. Those sent within the time of the fastest answer before that
    cannot have been: the time is shorter by that much. A backlog that grows is thus a rate below the target, and never
    more than was sent.
    """
    measured = output.measurement
    sending = None if measured is None else measured.sending
    if measured is None or sending is None or sending.answered_later is None:
        return output.result.rps
    sent_together = {"one": 1, "per connection": load.connections, "per stream": load.in_flight}[support.clocks]
    if sending.requests <= sent_together or sending.span_s <= 0:
        return output.result.rps
    if not support.is_open:
        return (sending.requests - sent_together) / sending.span_s
    raw = measured.histograms.get("raw")
    fastest_s = (None if raw is None else raw.min_s) or 0.0
    if fastest_s >= sending.span_s:
        return 0.0  # nothing was answered before the last request was sent
    sent = (sending.requests - 1) / sending.span_s
    return min(sent, (sending.requests - sending.answered_later) / (sending.span_s - fastest_s))
