"""The checks of single published results. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.thresholds import Thresholds
from benchkit.plugins.foreign.published import PublishedResult

BITS = 8
AuditSeverity = Literal["invalid", "suspect"]

COUNTS_AGREE = 0.02
"""Largest relative difference between a rate and requests ÷ duration that rounding by tools explains."""
THOUSANDS = 1000
"""Step in which autocannon states larger numbers of requests."""
WRK2 = "wrk2"
"""A load tool that always holds a target rate, and does not state it."""
HOLDS_RATE = frozenset({WRK2, "vegeta", "openloop", "nighthawk"})
"""Load tools that always hold a target rate, or nearly always."""
UNSTATED_RATE = frozenset({"autocannon", "bombardier", "h2load", "hey", "oha"})
"""Tools that hold a rate on request and do not print it: their connections may have been idle."""
THINKS = frozenset({"k6", "locust", "jmeter", "gatling", "siege", "artillery"})
"""Load tools whose users may wait between requests, as their outputs do not state."""
IDLE = "connections were idle, or latencies lack a part of a request, unless a target rate was held (--target-rate)"
SHORT_S = 1.0
"""Shortest run in seconds whose rate and mean are checked: beginning and end dominate shorter ones."""
SAMPLED_S: Mapping[str, float] = {"autocannon": 5.0}
"""The same for tools that state the mean of the rates of whole seconds."""
FAILED = 0.2
"""Share of failed requests above which rate and mean are not compared: some tools time answers alone."""
EACH = 5
"""Fewest requests for each connection at which means are compared: the first and last ones dominate fewer."""
STARTUP_S = 1.0
"""Seconds of a target rate that may be missing at the beginning of a run."""
STREAMS = 1.9
"""Requests in flight for each connection from which an unstated number of streams is assumed."""
ORDERED = 0.05
"""Relative excess of a lower percentile over a higher one that rounding explains: Locust has two digits."""
BOUNDED = 0.1
"""Largest relative distance of a mean from its bounds by percentiles that rounding explains."""
REOPENS = 0.01
"""Connections opened for each request from which the time to open them explains a mean that is too short."""
NOTES: Mapping[str, AuditSeverity] = {
    "hey-cap": "suspect",
    "dropped-iterations": "suspect",
    "aborted": "invalid",
    "wrk-unaccounted": "suspect",
}
"""Notes on outputs that are findings, by their codes."""


class AuditFinding(Frozen):
    """A finding in published results."""

    check: str
    severity: AuditSeverity
    results: tuple[str, ...]
    """Labels of the results with the finding."""
    text: str
    """Sentences: observed values, and what they mean."""


class SkippedAudit(Frozen):
    """A check that was skipped for a number of results, and the reason."""

    check: str
    results: int
    why: str


@dataclass(frozen=True)
class AuditContext:
    """Facts that the published results do not state."""

    link_bps: float | None = None
    streams: int | None = None
    """Requests in flight on each connection, where the results do not state it."""
    is_rate_held: bool = False
    """True if the load tools held a target rate, so that connections may have been idle."""
    noise: float | None = None
    """Standard deviation of repetitions, as a share of the rate, where the table has none."""
    thresholds: Thresholds = field(default_factory=Thresholds)


AuditOutcome = AuditFinding | str | None
"""A finding, the reason why a check was skipped, or nothing found."""


def finding_of(code: str, severity: AuditSeverity, results: Sequence[PublishedResult], text: str) -> AuditFinding:
    """Return a finding in these results."""
    return AuditFinding(check=code, severity=severity, results=tuple(result.label for result in results), text=text)


def _complete(result: PublishedResult, _context: AuditContext) -> AuditOutcome:
    if result.complete:
        return None
    return finding_of("incomplete", "invalid", [result], "The output breaks off, or is of a run that did not finish.")


def _errors(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    share = failure_share(result)
    if share is None:
        return "failures or requests are not stated"
    if not share or _is_errors_only(result):
        return None
    percent = f"{100 * share:.3g} %"
    counted = f"{units.counted(result.failures, 'request')} failed, {percent}" if result.failures else None
    limit = context.thresholds.errors
    return finding_of(
        "errors",
        "invalid" if share > limit else "suspect",
        [result],
        f"{counted or f'{percent} of the requests failed'}: a failure takes other work than an answer.",
    )


def failure_share(result: PublishedResult) -> float | None:
    """Return the failed requests as a share of all: as stated, else by their counts; None where neither is known.

    More failures than requests are none of them: tools such as wrk count answers as requests.
    """
    if result.failure_share or result.failures is None or not result.requests:
        return result.failure_share
    is_part = result.failures <= result.requests
    return result.failures / (result.requests if is_part else result.requests + result.failures)


def _is_errors_only(result: PublishedResult) -> bool:
    return result.rps == 0 and bool(result.failures)


def _errors_only(result: PublishedResult, _context: AuditContext) -> AuditOutcome:
    if result.rps is None or not _is_errors_only(result):
        return None
    answers = ", ".join(f"{units.count(n)} of {kind}" for kind, n in result.statuses.items() if n)
    return finding_of(
        "errors-only",
        "invalid",
        [result],
        f"The rate is zero, and {units.counted(result.failures or 0, 'request')} failed{f' ({answers})' if answers else ''}: "
        "it answered, but never as asked. The row measures no server.",
    )


def _connect_errors(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    """Find connections that could not be opened, as a share of those asked for: wrk does not try again."""
    if result.errors_connect is None or not result.connections:
        return None
    share = result.errors_connect / result.connections
    if not result.errors_connect or share > 1:  # the tool tried again: they count as failed requests
        return None
    return finding_of(
        "connect-errors",
        "invalid" if share > 1 - context.thresholds.connections else "suspect",
        [result],
        f"{units.count(result.errors_connect)} of {units.counted(result.connections, 'connection')} could not be "
        f"opened, {units.share(share)}: the load came from the other "
        f"{units.count(result.connections - result.errors_connect)}.",
    )


def _counts(result: PublishedResult, _context: AuditContext) -> AuditOutcome:
    """Compare the rate with requests ÷ duration; a rate of the answers 2xx and 3xx alone is accepted."""
    if result.requests is None or not result.duration_s or not result.rps:
        return "requests, their time or the rate are not stated"
    if _is_short(result):
        return f"a run of {units.seconds(result.duration_s)} is too short"
    good = sum(count for kind, count in result.statuses.items() if kind in {"2xx", "3xx"})
    rounding = THOUSANDS / 2 if any(note.code == "autocannon-thousands" for note in result.notes) else 0
    allowed = COUNTS_AGREE + result.duration_step_s / 2 / result.duration_s + rounding / max(result.requests, 1)
    allowed += _step_of(result.rps) / 2 / result.rps
    for count in filter(None, (result.requests, good)):
        if abs(count / result.duration_s / result.rps - 1) <= allowed:
            return None
    counted = result.requests / result.duration_s
    return finding_of(
        "rate-and-count",
        "suspect",
        [result],
        f"{units.count(result.requests)} requests in {units.seconds(result.duration_s)} are "
        f"{units.requests_per_s(counted)}. The stated {units.requests_per_s(result.rps)} would take "
        f"{units.seconds(result.requests / result.rps)}.",
    )


def _step_of(figure: float) -> float:
    """Return the value of the last digit of a figure as stated: tools round low rates to whole numbers, or tenths."""
    return 1 if figure.is_integer() else 10.0 ** -len(repr(figure).partition(".")[2])


def _held_rate(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    """Compare the achieved rate with the target rate: below it, the latencies belong to another load."""
    if result.target_rate is None and result.rate_ratio is None:
        return None
    ratio = result.rate_ratio
    if ratio is None and result.target_rate and result.rps is not None:
        by_count = result.requests / result.duration_s if result.requests and result.duration_s else 0.0
        ratio = max(result.rps, by_count) / result.target_rate  # bombardier states the mean rate of short intervals
        unanswered_s = (result.connections or 0) / result.target_rate
        if result.duration_s is not None and (1 - ratio) * result.duration_s < STARTUP_S + unanswered_s:
            return None
    if ratio is None or ratio >= context.thresholds.rate_held:
        return None
    asked = (
        "the target rate" if result.target_rate is None else f"the target of {units.requests_per_s(result.target_rate)}"
    )
    return finding_of(
        "rate-held",
        "invalid",
        [result],
        f"{units.share(ratio)} of {asked} were achieved: latencies show a growing queue, not that rate.",
    )


def _dropped(result: PublishedResult, _context: AuditContext) -> AuditOutcome:
    if not result.dropped:
        return None
    due = units.counted(result.dropped, "iteration" if result.tool == "k6" else "request")
    model = " of an open model" if result.tool in {"k6", "zrk"} else ""
    return finding_of(
        "dropped-iterations",
        "suspect",
        [result],
        f"{due}{model} were due at a target rate and not started: too few users or connections were free. Latencies "
        "lack the requests that waited longest.",
    )


def _notes(result: PublishedResult, _context: AuditContext) -> list[AuditFinding]:
    """Return the defects of the tool that its parser saw in the output."""
    return [
        finding_of(note.code, NOTES[note.code], [result], f"{note.message[:1].upper()}{note.message[1:]}.")
        for note in result.notes
        if note.code in NOTES
    ]


def _times(result: PublishedResult, _context: AuditContext) -> AuditOutcome:
    """Compare percentiles with each other, and a table's mean with its bounds by percentiles.

    Each request between two percentiles takes at least the lower one, and at most the higher one.
    """
    step_s = result.resolution_s or 0.0
    times = sorted(result.percentiles.items()) + ([] if result.max_s is None else [(100.0, result.max_s)])
    for (low, below), (high, above) in pairwise(times):
        if below > above * (1 + ORDERED) + step_s:
            text = f"{_percentile(low)} of {units.seconds(below)} is more than {_percentile(high)} of {units.seconds(above)}."
            return finding_of("order-of-times", "invalid", [result], text)
    if result.mean_s is None or result.tool is not None or not times:
        return None
    least_s = sum((high - low) / 100 * below for (low, below), (high, _) in pairwise([*times, (100.0, 0.0)]))
    most_s = sum((high - low) / 100 * above for (low, _), (high, above) in pairwise([(0.0, 0.0), *times]))
    bounds = f"{', '.join(f'{_percentile(each)} of {units.seconds(time)}' for each, time in times)}"
    if result.mean_s < least_s * (1 - BOUNDED) - step_s:
        text = f"The mean is {units.seconds(result.mean_s)}, and {bounds} imply at least {units.seconds(least_s)}."
        return finding_of("order-of-times", "suspect", [result], text)
    if result.max_s is not None and result.mean_s > most_s * (1 + BOUNDED) + step_s:
        text = f"The mean is {units.seconds(result.mean_s)}, and {bounds} imply at most {units.seconds(most_s)}."
        is_longer = result.mean_s > result.max_s * (1 + ORDERED) + step_s
        return finding_of("order-of-times", "invalid" if is_longer else "suspect", [result], text)
    return None


def _percentile(percent: float) -> str:
    return "the longest" if percent == 100 else f"p{percent:g}"  # noqa: PLR2004 - all requests


def in_flight_share(result: PublishedResult) -> float | None:
    """Return requests in flight (rate times mean, Little 1961) for each that connections and streams allow."""
    if not result.rps or not result.mean_s or not result.connections:
        return None
    return result.rps * result.mean_s / (result.connections * (result.streams or 1))


def has_unstated_streams(result: PublishedResult) -> bool:
    """Return whether unstated streams explain that more requests were in flight than connections."""
    share = in_flight_share(result)
    return share is not None and result.streams is None and share >= STREAMS


def _littles_law(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    """Compare the latencies with the mean that rate and connections imply (Little 1961), in a closed loop.

    A tool's corrections only raise its mean, so that a mean below the implied one always contradicts it.
    """
    implied_s, limit = _implied_mean_s(result, context), context.thresholds.littles_law
    if isinstance(implied_s, str):
        return implied_s
    step_s = result.resolution_s or 0.0
    if result.mean_s is not None and result.mean_s > implied_s * (1 + limit) + step_s:
        return _too_many_in_flight(result, implied_s)
    if result.tool in THINKS:
        return f"users of {result.tool} may wait between requests: connections may have been idle"
    if result.max_s is not None and implied_s > result.max_s * (1 + limit) + step_s:
        means = f"more than the longest latency, {units.seconds(result.max_s)}: {IDLE}."
        return _contradiction(result, implied_s, means)
    if result.mean_s is None:
        return _implied_by_p99(result, implied_s)
    return _too_few_in_flight(result, implied_s) if result.mean_s < implied_s * (1 - limit) - step_s else None


def _too_few_in_flight(result: PublishedResult, implied_s: float) -> AuditFinding:
    """Return the finding of a mean that is too short: suspect where opened connections explain it."""
    opened = (result.reconnects or 0) / result.requests if result.requests else 0.0
    if opened < REOPENS:
        return _contradiction(result, implied_s, f"and {units.seconds(result.mean_s)} is stated: {IDLE}.")
    means = (
        f"and {units.seconds(result.mean_s)} is stated: a connection was opened for every {1 / opened:.3g} requests, "
        "and the mean lacks that time."
    )
    return _contradiction(result, implied_s, means, severity="suspect")


def _too_many_in_flight(result: PublishedResult, implied_s: float) -> AuditOutcome:
    if result.corrected is not False and result.tool is not None:
        return "the mean includes the tool's own correction, or it is unknown whether it does"
    if has_unstated_streams(result) or (result.is_multiplexed and (result.streams or 1) == 1):
        return "more requests were in flight than connections: pipelined, or streams whose number is not stated (--streams)"
    means = f"and {units.seconds(result.mean_s)} is stated: more requests were in flight than {_allowed(result)}."
    return _contradiction(result, implied_s, means)


def _allowed(result: PublishedResult) -> str:
    return "connections and their streams allow" if (result.streams or 1) > 1 else "there are connections"


def _is_short(result: PublishedResult) -> bool:
    return result.duration_s is not None and result.duration_s < SAMPLED_S.get(result.tool or "", SHORT_S)


def _has_few_requests(result: PublishedResult) -> bool:
    """Return whether a load tool's output has so few requests that the first and the last ones dominate."""
    return result.tool is not None and 0 < (result.requests or 0) < EACH * (result.connections or 0)


def _implied_mean_s(result: PublishedResult, context: AuditContext) -> float | str:
    """Return the mean latency of connections that are always in use, or the reason why it is unknown."""
    if not result.rps or not result.connections:
        return "rate or connections are not stated"
    if context.is_rate_held or result.target_rate is not None or result.is_open or _holds_rate(result):
        opened = f"{result.tool} held a rate (open model)" if result.tool else "a rate was held, or users waited"
        by = opened if result.is_open else "a target rate was held"
        return f"{by}: connections may have been idle"
    if result.errors_connect and result.errors_connect <= result.connections:
        return "connections could not be opened: the number of open ones is unknown"
    if _is_short(result) or _has_few_requests(result):
        return "the run is too short: its beginning and end dominate"
    if (failure_share(result) or 0) > FAILED:
        return "many requests failed, and the mean may leave out their times"
    return result.connections * (result.streams or 1) / result.rps


def _holds_rate(result: PublishedResult) -> bool:
    """Return whether the tool always holds a rate, or corrects for one: wrk alone corrects a closed loop."""
    return result.tool in HOLDS_RATE or (result.corrected is True and result.tool != "wrk")


def _implied_by_p99(result: PublishedResult, implied_s: float) -> AuditOutcome:
    """Compare p99 with the implied mean: if p99 is shorter, only the slowest 1 % can raise the mean so far."""
    p99_s = result.percentiles.get(99.0)
    if p99_s is None:
        return "no latency is stated"
    if implied_s <= p99_s + (result.resolution_s or 0.0):
        return None
    slowest_s = (implied_s - 0.99 * p99_s) / 0.01
    means = (
        f"more than the p99 of {units.seconds(p99_s)}: the slowest 1 % would take {units.seconds(slowest_s)} on average; "
        f"{IDLE}."
    )
    return _contradiction(result, implied_s, means)


def _contradiction(
    result: PublishedResult, implied_s: float, means: str, severity: AuditSeverity = "invalid"
) -> AuditFinding:
    streams = f" of {units.counted(result.streams or 1, 'stream')}" if (result.streams or 1) > 1 else ""
    text = (
        f"{units.requests_per_s(result.rps)} on {units.counted(result.connections or 0, 'connection')}{streams} imply "
        f"a mean of {units.seconds(implied_s)}, {means}"
    )
    may_hold_rate = IDLE in means and result.tool in UNSTATED_RATE
    return finding_of("littles-law", "suspect" if may_hold_rate else severity, [result], text)


def _link(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    if context.link_bps is None:
        return "the rate of the link is not known (--link)"
    if result.bytes_per_s is None:
        return "bytes per second are not stated"
    share = result.bytes_per_s * BITS / context.link_bps
    if share < context.thresholds.link:
        return None
    means = "more than it can carry" if share > 1 else "so the link was the limit"
    return finding_of(
        "link",
        "invalid",
        [result],
        f"{units.bits_per_s(result.bytes_per_s * BITS)} are {units.share(share)} of the link, {means}.",
    )


def _samples(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    if not result.percentiles:
        return "no percentile is stated"
    if result.requests is None:
        return "the number of requests is not stated"
    below = [p for p in result.percentiles if 50 < p < 100]  # noqa: PLR2004 - the median, and the longest latency
    lacking = [p for p in below if result.requests < context.thresholds.samples_beyond / (1 - p / 100) * (1 - 1e-9)]
    if not lacking:
        return None
    shown = ", ".join(f"p{p:g}" for p in sorted(lacking))
    return finding_of(
        "too-few-samples",
        "suspect",
        [result],
        f"{shown} of {units.counted(result.requests, 'request')}: fewer than {context.thresholds.samples_beyond:g} lie "
        "beyond.",
    )


RESULT_CHECKS: Mapping[str, Callable[[PublishedResult, AuditContext], AuditOutcome | list[AuditFinding]]] = {
    "incomplete": _complete,
    "errors": _errors,
    "errors-only": _errors_only,
    "connect-errors": _connect_errors,
    "rate-and-count": _counts,
    "rate-held": _held_rate,
    "dropped-iterations": _dropped,
    "notes": _notes,
    "order-of-times": _times,
    "littles-law": _littles_law,
    "link": _link,
    "too-few-samples": _samples,
}
"""Checks of a single result, by code; `notes` gives findings with codes of their own."""
