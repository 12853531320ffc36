"""Findings in one output of a load tool: failures, limits of the tool, and figures that contradict each other. Pure.

The figures alone are known: hosts and servers were not watched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Literal, NamedTuple

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.load_result import LoadResult
from benchkit.models.thresholds import Thresholds

LIMITS = Thresholds()

HOLDS_RATE = frozenset({"wrk2", "vegeta", "openloop"})
"""Load tools that always hold a target rate, or nearly always."""
UNSTATED_RATE = frozenset({"autocannon", "bombardier", "h2load", "hey", "oha"})
"""Tools that hold a rate on request and do not print it: their connections may have been idle."""
THINKS = frozenset({"k6", "locust", "jmeter", "gatling", "siege"})
"""Load tools whose users may wait between requests, as their outputs do not state."""
OPEN = frozenset({"open-loop", "open-model", "target-rate", "short-run"})
"""Codes of notes on outputs whose requests were, or may have been, due at a rate."""
OF_OTHER_SAMPLES = frozenset({"ab-mean", "buckets"})
"""Codes of notes on outputs whose mean and percentiles are not of the same samples, or whose percentiles are coarse."""
IDLE = "connections were idle, or latencies lack a part of a request, unless a target rate was held"
SHORT_S = 1.0
"""Shortest run in seconds whose rate and mean are compared: beginning and end dominate shorter ones."""
FAILED = 0.2
"""Share of failed requests above which rate and mean are not compared: some tools time answers alone."""
EACH = 5
"""Fewest requests for each connection at which means are compared: the first and last ones dominate fewer."""
STARTUP_S = 1.0
"""Seconds of a target rate that may be missing at the beginning of a run."""
BEYOND = 1.1
"""Achieved rate as a share of the target rate beyond which the requests are not those of the schedule."""
STREAMS = 1.9
"""Requests in flight for each connection from which an unstated number of streams is assumed."""
ORDERED = 0.05
"""Relative excess of a lower percentile over a higher one that rounding explains: Locust has two digits."""
EQUAL_STEP = 0.01
"""Step of times, as a share of them, below which equal percentiles are not explained by rounding."""
BOUNDED = 0.1
"""Largest relative distance of a mean from its bounds by percentiles that rounding explains."""
REOPENS = 0.99
"""Read errors of wrk for each answer from which the server is taken to close every connection."""
QUEUED = 0.2
"""Share of the time after the last request that the mean latency has where a queue grew, not a straggler."""
NOTES: Mapping[str, Literal["invalid", "suspect"]] = {
    "hey-cap": "suspect",
    "aborted": "invalid",
    "wrk-unaccounted": "suspect",
}
"""Notes of parsers that are findings, by their codes."""


class OutputFinding(Frozen):
    """A reason not to use an output, or to use it with care."""

    code: str
    severity: Literal["invalid", "suspect"]
    text: str
    """Observed values, and what they mean: sentences."""


class StatedLoad(NamedTuple):
    """Figures of a load in the command line above an output; None for those that it does not state."""

    connections: int | None = None
    streams: int | None = None
    rate: float | None = None
    """Target rate in requests per second."""
    is_held: bool = False
    """True: each connection, or the tool, held a rate."""


_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "wrk": {"connections": "-c|--connections", "rate": "-R|--rate"},
    "hey": {"connections": "-c", "is_held": "-q"},
    "oha": {"connections": "-c", "streams": "-p", "rate": "-q", "is_held": "--burst-rate|--burst-delay"},
    "h2load": {"connections": "-c|--clients", "streams": "-m|--max-concurrent-streams", "is_held": "--rps"},
    "bombardier": {"connections": "-c|--connections", "rate": "-r|--rate"},
    "autocannon": {"connections": "-c|--connections", "streams": "-p|--pipelining", "rate": "-R|--overallRate"},
    "vegeta": {"connections": "-max-connections"},
}
"""Options of load tools, by the field that each states."""
_IN_TEXT: Mapping[str, tuple[str, str]] = {
    "autocannon": ("streams", r"with ([0-9]+) pipelining factor|\"pipelining\":\s*([0-9]+)"),
    "fortio": ("rate", r"\"RequestedQPS\":\s*\"?([0-9.]+)|\bat ([0-9.]+) q(?:ps|ueries per second)"),
}
"""Patterns of the load in the text of a tool, with the field that each states."""
_CONTINUED = re.compile(r"[\\`^]\n")
"""End of a line of a command that continues on the next line, in any shell."""


def stated_load(tool: str, text: str) -> StatedLoad:
    """Return the load that the text of one run states, in the command line above its output."""
    name = "wrk" if tool == "wrk2" else tool
    stated: dict[str, str] = {}
    command = re.search(rf"(?:^|[\s/\\>]){name}2?(?:\.exe)?\s(.*)", _CONTINUED.sub(" ", text))
    for field, flags in _OPTIONS.get(name, {}).items() if command else ():
        if found := re.search(rf"(?:^|\s)(?:{flags})[ =]?([0-9]+(?:\.[0-9]+)?k?)\b", f" {command and command[1]}"):
            stated[field] = found[1]
    if name in _IN_TEXT:
        field, pattern = _IN_TEXT[name]
        if printed := re.search(pattern, text):
            stated[field] = next(group for group in printed.groups() if group)
    numbers = {field: float(token.rstrip("k")) * (1000 if token[-1] == "k" else 1) for field, token in stated.items()}
    counts = {field: int(numbers[field]) for field in ("connections", "streams") if field in numbers}
    rate = numbers.get("rate") or None  # fortio states 0 for full speed
    return StatedLoad(**counts, rate=rate, is_held="is_held" in numbers or rate is not None)


UNSTATED = StatedLoad()


def find(result: LoadResult, load: StatedLoad = UNSTATED) -> list[OutputFinding]:
    """Return the findings in an output, whose command line stated `load`."""
    return list(_Examination(result, load).findings())


class _Examination:
    def __init__(self, result: LoadResult, load: StatedLoad) -> None:
        self.result, self.load = result, load
        self.codes = {note.code for note in result.notes}
        self.streams = load.streams or 1
        self.step_s = result.latency.resolution_s or 0.0
        self.percentiles = {float(name): time for name, time in result.latency.percentiles.items()}
        connections = result.connections
        if connections and result.threads and result.tool in {"wrk", "wrk2"}:  # each thread opens the same number
            connections = connections // result.threads * result.threads
        self.connections = connections or 0
        errors, answers = result.errors, result.requests or 0
        read = errors.read or 0
        self.closes = result.tool in {"wrk", "wrk2"} and 0 < REOPENS * answers <= read <= answers
        """True: the server closes each connection after its answer, which wrk counts as a read error."""
        redirects = sum(number for code, number in result.status.items() if code[0] == "3")
        counts = (errors.connect, 0 if self.closes else errors.read, errors.write, errors.timeout, errors.other)
        known = [each for each in (*counts, result.non_2xx) if each is not None]
        failures = sum(known) - (redirects if result.non_2xx is not None else 0)
        if result.failed is not None:  # an answer of another length is not a failure
            failures = max(failures, result.failed - (result.failed_length or 0))
        self.failures = failures if known or result.failed is not None else None

    def findings(self) -> Iterator[OutputFinding]:
        checks: tuple[Callable[[], Iterator[OutputFinding]], ...] = (
            self.completeness,
            self.errors,
            self.connect_errors,
            self.held_rate,
            self.order_of_times,
            self.equal_times,
            self.littles_law,
            self.samples,
        )
        for check in checks:
            yield from check()

    def completeness(self) -> Iterator[OutputFinding]:
        result = self.result
        if not result.complete:
            text = "The text breaks off, lacks a part of the output, or is of a run that did not finish."
            yield OutputFinding(code="incomplete", severity="invalid", text=text)
        for note in result.notes:
            if note.code in NOTES:
                text = f"{note.message[:1].upper()}{note.message[1:]}."
                yield OutputFinding(code=note.code, severity=NOTES[note.code], text=text)
        if result.dropped:
            due = units.counted(result.dropped, "iteration" if result.tool == "k6" else "request")
            text = (
                f"{due} of an open model were due at a target rate and not started: too few users or connections were "
                "free. Latencies lack the requests that waited longest."
            )
            yield OutputFinding(code="dropped-iterations", severity="suspect", text=text)

    @property
    def failure_share(self) -> float | None:
        """Failed requests as a share of all; more failures than requests are none of them, as with wrk."""
        result = self.result
        stated = None if result.availability is None else 1 - result.availability
        if stated or self.failures is None or not result.requests:
            return stated
        is_part = self.failures <= result.requests
        return self.failures / (result.requests if is_part else result.requests + self.failures)

    def errors(self) -> Iterator[OutputFinding]:
        share = self.failure_share
        if not share:
            return
        percent = f"{100 * share:.3g} %"
        failed = f"{units.counted(self.failures, 'request')} failed, {percent}" if self.failures else None
        yield OutputFinding(
            code="errors",
            severity="invalid" if share > LIMITS.errors else "suspect",
            text=f"{failed or f'{percent} of the requests failed'}: a failure is different work from an answer.",
        )

    def connect_errors(self) -> Iterator[OutputFinding]:
        """Find connections that could not be opened, as a share of those asked for: wrk does not try again."""
        failed, connections = self.result.errors.connect or 0, self.connections
        if not 0 < failed <= connections:  # more: the tool tried again, and they count as failed requests
            return
        share = failed / connections
        yield OutputFinding(
            code="connect-errors",
            severity="invalid" if share > 1 - LIMITS.connections else "suspect",
            text=f"{units.count(failed)} of {units.counted(connections, 'connection')} could not be opened, "
            f"{units.share(share)}: the load came from the other {units.count(connections - failed)}.",
        )

    def held_rate(self) -> Iterator[OutputFinding]:
        """Compare the achieved rate with the target rate, or with that of the answers."""
        result, target = self.result, self.load.rate
        rps, duration_s, requests = result.rps or 0.0, result.duration_s or 0.0, result.requests or 0
        if result.answered_rps and rps and duration_s:
            wait_s = requests / result.answered_rps - duration_s
            if wait_s > STARTUP_S and wait_s > BOUNDED * duration_s and (result.latency.mean_s or 0) > QUEUED * wait_s:
                text = (
                    f"Requests were sent for {units.seconds(duration_s)}, and the answers took another "
                    f"{units.seconds(wait_s)}: a queue grew. {units.requests_per_s(rps)} were sent, and "
                    f"{units.requests_per_s(result.answered_rps)} answered."
                )
                yield OutputFinding(code="rate-held", severity="invalid", text=text)
        if target is None or not rps:
            return
        achieved = max(rps, requests / duration_s if duration_s else 0.0)  # bombardier's rate is of short intervals
        asked = f"the target of {units.requests_per_s(target)}"
        if achieved > BEYOND * target and requests > target * duration_s + self.connections + 1:
            text = (
                f"{units.requests_per_s(rps)} are more than {asked}: the requests are not those of the schedule, as "
                "with a script that pipelines them. Latencies do not count from when they were due."
            )
            yield OutputFinding(code="rate-held", severity="invalid", text=text)
        missing_s = (1 - achieved / target) * duration_s - self.connections / target
        if achieved < LIMITS.rate_held * target and (not duration_s or missing_s >= STARTUP_S):
            text = f"{units.share(achieved / target)} of {asked} were achieved: latencies show a growing queue."
            yield OutputFinding(code="rate-held", severity="invalid", text=text)

    def order_of_times(self) -> Iterator[OutputFinding]:
        """Compare percentiles with each other, and the mean with its bounds by percentiles.

        Each request between two percentiles takes at least the lower one, and at most the higher one.
        """
        latency, step_s = self.result.latency, self.step_s
        times = sorted(self.percentiles.items()) + ([] if latency.max_s is None else [(100.0, latency.max_s)])
        for (low, below), (high, above) in pairwise(times):
            if below > above * (1 + ORDERED) + step_s:
                text = f"{_named(low)} of {units.seconds(below)} is more than {_named(high)} of {units.seconds(above)}."
                yield OutputFinding(code="order-of-times", severity="invalid", text=text)
                return
        mean_s = latency.mean_s
        if mean_s is None or not times or self.codes & OF_OTHER_SAMPLES:
            return
        least_s = sum((high - low) / 100 * below for (low, below), (high, _) in pairwise([*times, (100.0, 0.0)]))
        most_s = sum((high - low) / 100 * above for (low, _), (high, above) in pairwise([(0.0, 0.0), *times]))
        bounds = ", ".join(f"{_named(each)} of {units.seconds(time)}" for each, time in times)
        if mean_s < least_s * (1 - BOUNDED) - step_s:
            is_far = mean_s < least_s / 2 - step_s
            needs = f"at least {units.seconds(least_s)}"
        elif latency.max_s is not None and mean_s > most_s * (1 + BOUNDED) + step_s:
            is_far = mean_s > latency.max_s * (1 + ORDERED) + step_s
            needs = f"at most {units.seconds(most_s)}"
        else:
            return
        text = f"The mean is {units.seconds(mean_s)}, and {bounds} imply {needs}."
        yield OutputFinding(code="order-of-times", severity="invalid" if is_far else "suspect", text=text)

    def equal_times(self) -> Iterator[OutputFinding]:
        """Find percentiles that are all alike, up to the longest time: no measured distribution is."""
        longest_s = self.result.latency.max_s
        upper = [time for percent, time in self.percentiles.items() if percent >= 50]  # noqa: PLR2004 - from the median
        if longest_s and len(upper) >= 3 and set(upper) == {longest_s} and 0 < self.step_s < EQUAL_STEP * longest_s:  # noqa: PLR2004
            names = ", ".join(f"p{percent:g}" for percent in sorted(self.percentiles))
            text = f"{names} and the longest time are all {units.seconds(longest_s)}: no measured distribution is so."
            yield OutputFinding(code="equal-times", severity="suspect", text=text)

    def implied_mean_s(self) -> float | None:
        """Return the mean latency of connections that are always in use; None where it is not known that they are."""
        result = self.result
        is_short = result.duration_s is not None and result.duration_s < SHORT_S
        is_few = 0 < (result.requests or 0) < EACH * self.connections
        if not result.rps or not self.connections or is_short or is_few:
            return None
        if self.load.is_held or result.tool in HOLDS_RATE or self.codes & OPEN:
            return None
        if result.latency.corrected and result.tool != "wrk":  # wrk alone corrects a closed loop
            return None
        if 0 < (result.errors.connect or 0) <= self.connections or (self.failure_share or 0) > FAILED:
            return None
        if result.tool == "h2load" and result.failed:  # a lost connection is not opened again
            return None
        return self.connections * self.streams / result.rps

    def littles_law(self) -> Iterator[OutputFinding]:
        """Compare the latencies with the mean that rate and connections imply (Little 1961), in a closed loop.

        A tool's corrections only raise its mean, so that a mean below the implied one always contradicts it.
        """
        result, limit, step_s = self.result, LIMITS.littles_law, self.step_s
        implied_s, mean_s, longest_s = self.implied_mean_s(), result.latency.mean_s, result.latency.max_s
        if implied_s is None:
            return
        severity: Literal["invalid", "suspect"] = "suspect" if result.tool in UNSTATED_RATE else "invalid"
        if mean_s is not None and mean_s > implied_s * (1 + limit) + step_s:
            if result.latency.corrected is not False or self.has_unstated_streams:
                return
            allowed = "connections and their streams allow" if self.streams > 1 else "there are connections"
            means = f"and {units.seconds(mean_s)} is stated: more requests were in flight than {allowed}."
            severity = "invalid"
        elif result.tool in THINKS:
            return
        elif longest_s is not None and implied_s > longest_s * (1 + limit) + step_s:
            means = f"more than the longest latency, {units.seconds(longest_s)}: {IDLE}."
        elif mean_s is not None and mean_s < implied_s * (1 - limit) - step_s:
            means = f"and {units.seconds(mean_s)} is stated: {IDLE}."
            if self.closes:
                means, severity = f"and {units.seconds(mean_s)} is stated, without the time to connect.", "suspect"
        else:
            return
        streams = f" of {units.counted(self.streams, 'stream')}" if self.streams > 1 else ""
        on = f"{units.requests_per_s(result.rps or 0)} on {units.counted(self.connections, 'connection')}{streams}"
        text = f"{on} imply a mean of {units.seconds(implied_s)}, {means}"
        yield OutputFinding(code="littles-law", severity=severity, text=text)

    @property
    def has_unstated_streams(self) -> bool:
        """True where streams that nothing states explain that more requests were in flight than connections."""
        result = self.result
        if self.load.streams is not None and self.load.streams > 1:
            return False
        in_flight = (result.rps or 0) * (result.latency.mean_s or 0)
        protocol = result.negotiated.protocol if result.negotiated else None
        is_multiplexed = protocol in {"h2", "h2c", "h3"} or result.tool == "h2load"
        return is_multiplexed or (self.load.streams is None and in_flight >= STREAMS * self.connections)

    def samples(self) -> Iterator[OutputFinding]:
        requests, beyond = self.result.requests, LIMITS.samples_beyond
        if requests is None:
            return
        lacking = [p for p in self.percentiles if 50 < p < 100 and requests * (1 - p / 100) < beyond * (1 - 1e-9)]  # noqa: PLR2004
        if lacking:
            shown = ", ".join(f"p{p:g}" for p in sorted(lacking))
            text = f"{shown} of {units.counted(requests, 'request')}: fewer than {beyond:g} lie beyond."
            yield OutputFinding(code="too-few-samples", severity="suspect", text=text)


def _named(percent: float) -> str:
    return "the longest" if percent == 100 else f"p{percent:g}"  # noqa: PLR2004 - all requests
