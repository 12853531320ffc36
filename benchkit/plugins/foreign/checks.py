"""The checks of published results. A check of single results and one of a whole table have the same shape. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.thresholds import Thresholds
from benchkit.plugins.foreign.published import PublishedResult
from benchkit.stats.inference import t_quantile

BITS = 8
COUNTS_AGREE = 0.02
"""Relative difference between a rate and the requests by their time, which tools round or measure otherwise."""
PLATEAU = 0.015
"""Width of a plateau, as a share of the rate: repetitions of one server spread further on most machines."""
WRK2 = "wrk2"
"""A load tool that always holds a target rate, and does not state it."""
IDLE = "connections were not in use, unless a target rate was held (--target-rate)"
MIN_PLATEAU, PLATEAU_SHARE = 3, 0.2
"""Fewest results on a plateau, and their least share of the table."""

AuditSeverity = Literal["invalid", "suspect"]


class AuditFinding(Frozen):
    """A finding in published results."""

    check: str
    severity: AuditSeverity
    results: tuple[str, ...]
    """Labels of the results that it is about."""
    text: str
    """Sentences: observed values, and what they mean."""


class SkippedAudit(Frozen):
    """A check that could not be made, for as many results, and what is missing."""

    check: str
    results: int
    why: str


@dataclass(frozen=True)
class AuditContext:
    """Facts that the published results do not state."""

    link_bps: float | None = None
    is_rate_held: bool = False
    """True if the load tools held a target rate, so that connections may have been idle."""
    noise: float | None = None
    """Standard deviation of repetitions, as a share of the rate, where the table has none."""
    thresholds: Thresholds = field(default_factory=Thresholds)


AuditOutcome = AuditFinding | str | None
"""A finding, the reason why a check was skipped, or nothing found."""


def _complete(result: PublishedResult, _context: AuditContext) -> AuditOutcome:
    if result.complete:
        return None
    return _finding("incomplete", "invalid", [result], "The output breaks off, or is of a run that did not finish.")


def _errors(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    if result.failures is None or not result.requests:
        return "failures or requests are not stated"
    if not result.failures:
        return None
    share = result.failures / max(result.requests, result.failures)
    limit = context.thresholds.errors
    return _finding(
        "errors",
        "invalid" if share > limit else "suspect",
        [result],
        f"{units.counted(result.failures, 'request')} failed, {100 * share:.3g} %: a failure takes other work than an answer.",
    )


def _counts(result: PublishedResult, _context: AuditContext) -> AuditOutcome:
    if result.requests is None or not result.duration_s or not result.rps:
        return "requests, their time or the rate are not stated"
    counted = result.requests / result.duration_s
    if abs(counted / result.rps - 1) <= COUNTS_AGREE:
        return None
    return _finding(
        "rate-and-count",
        "suspect",
        [result],
        f"{units.count(result.requests)} requests in {units.seconds(result.duration_s)} are "
        f"{units.requests_per_s(counted)}, and {units.requests_per_s(result.rps)} are stated.",
    )


def _littles_law(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    """Compare the latencies with the mean that rate and connections imply (Little 1961), in a closed loop."""
    implied_s, limit = _implied_mean_s(result, context), context.thresholds.littles_law
    if isinstance(implied_s, str):
        return implied_s
    if result.max_s is not None and implied_s > result.max_s * (1 + limit):
        means = f"more than the longest latency, {units.seconds(result.max_s)}: {IDLE}."
        return _contradiction(result, implied_s, means)
    if result.mean_s is None:
        return _implied_by_p99(result, implied_s)
    if result.corrected is not False and result.tool is not None:
        return "the mean includes the tool's own correction, or it is unknown whether it does"
    share = result.mean_s / implied_s
    if abs(share - 1) <= limit + (result.resolution_s or 0.0) / implied_s:
        return None
    means = "more requests were in flight than there are connections" if share > 1 else IDLE
    return _contradiction(result, implied_s, f"and {units.seconds(result.mean_s)} is stated: {means}.")


def _implied_mean_s(result: PublishedResult, context: AuditContext) -> float | str:
    """Return the mean latency of connections that are always in use, or the reason why it is unknown."""
    if not result.rps or not result.connections:
        return "rate or connections are not stated"
    if context.is_rate_held or result.tool == WRK2:
        return "a target rate was held: connections may have been idle"
    return result.connections / result.rps


def _implied_by_p99(result: PublishedResult, implied_s: float) -> AuditOutcome:
    """Compare p99 with the implied mean: the slowest 1 % would have to make up for what it leaves."""
    p99_s = result.percentiles.get(99.0)
    if p99_s is None:
        return "no latency is stated"
    if implied_s <= p99_s:
        return None
    slowest_s = (implied_s - 0.99 * p99_s) / 0.01
    means = (
        f"more than the p99 of {units.seconds(p99_s)}: the slowest 1 % would take {units.seconds(slowest_s)} on average; "
        f"{IDLE}."
    )
    return _contradiction(result, implied_s, means)


def _contradiction(result: PublishedResult, implied_s: float, means: str) -> AuditFinding:
    text = (
        f"{units.requests_per_s(result.rps)} on {units.counted(result.connections or 0, 'connection')} are a mean of "
        f"{units.seconds(implied_s)}, {means}"
    )
    return _finding("littles-law", "invalid", [result], text)


def _link(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    if context.link_bps is None:
        return "the rate of the link is not known (--link)"
    if result.bytes_per_s is None:
        return "bytes per second are not stated"
    share = result.bytes_per_s * BITS / context.link_bps
    if share < context.thresholds.link:
        return None
    means = "more than it can carry" if share > 1 else "so the link was the limit"
    return _finding(
        "link",
        "invalid",
        [result],
        f"{units.bits_per_s(result.bytes_per_s * BITS)} are {units.share(share)} of the link, {means}.",
    )


def _percentiles(result: PublishedResult, context: AuditContext) -> AuditOutcome:
    if not result.percentiles:
        return "no percentile is stated"
    if result.requests is None:
        return "the number of requests is not stated"
    below = [p for p in result.percentiles if 50 < p < 100]  # noqa: PLR2004 - the median, and the longest latency
    lacking = [p for p in below if result.requests < context.thresholds.samples_beyond / (1 - p / 100) * (1 - 1e-9)]
    if not lacking:
        return None
    shown = ", ".join(f"p{p:g}" for p in sorted(lacking))
    return _finding(
        "too-few-samples",
        "suspect",
        [result],
        f"{shown} of {units.counted(result.requests, 'request')}: fewer than {context.thresholds.samples_beyond:g} lie "
        "beyond.",
    )


def _plateau(results: Sequence[PublishedResult], _context: AuditContext) -> AuditOutcome:
    """Find the most results whose rates differ by no more than `PLATEAU`."""
    ranked = sorted((result for result in results if result.rps), key=lambda result: result.rps or 0.0)
    if len(ranked) < MIN_PLATEAU:
        return f"fewer than {MIN_PLATEAU} rates"
    rates = [result.rps or 0.0 for result in ranked]
    reaches = [(bisect_right(rates, rate * (1 + PLATEAU)) - start, start) for start, rate in enumerate(rates)]
    count, start = max(reaches, key=lambda each: each[0])
    if count < MIN_PLATEAU or count < PLATEAU_SHARE * len(ranked):
        return None
    on_it = ranked[start : start + count]
    return _finding(
        "plateau",
        "suspect",
        on_it,
        f"{count} of {len(ranked)} results lie between {units.rate(rates[start])} and "
        f"{units.requests_per_s(rates[start + count - 1])}, within {units.share(PLATEAU)}: something that they share was "
        "probably the limit, such as the load tool, the link or a rate that was asked for.",
    )


def _ranks(results: Sequence[PublishedResult], context: AuditContext) -> AuditOutcome:
    """Compare neighbours in rank with the spread of repetitions: those of the table, else the one that was given."""
    logs: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        if result.rps:
            logs[result.name].append(math.log(result.rps))
    if len(logs) < 2:  # noqa: PLR2004 - sides of a difference
        return "fewer than two rates"
    df = sum(len(each) - 1 for each in logs.values())
    if df:
        squares = sum(float(np.var(each)) * len(each) for each in logs.values())
        spread, reach, source = math.sqrt(squares / df), t_quantile(0.95, df), "its repetitions"
    elif context.noise is not None:
        spread, reach, source = context.noise, t_quantile(0.95, math.inf), "--noise"
    else:
        return "each server was measured once, so that the noise is unknown (--noise states it)"
    ranked = sorted(((float(np.mean(each)), len(each), name) for name, each in logs.items()), reverse=True)
    pairs = list(pairwise(ranked))
    equal = [
        pair for pair in pairs if pair[0][0] - pair[1][0] <= reach * spread * math.sqrt(1 / pair[0][1] + 1 / pair[1][1])
    ]
    if not equal:
        return None
    first = ranked[0]
    tied = [each for each in ranked if first[0] - each[0] <= reach * spread * math.sqrt(1 / first[1] + 1 / each[1])]
    names = {name for pair in equal for _, _, name in pair}
    return _finding(
        "rank-noise",
        "suspect",
        [result for result in results if result.name in names],
        f"{len(equal)} of {len(pairs)} neighbours in rank differ by no more than the noise ({units.share(spread)} by "
        f"{source}); {units.counted(len(tied), 'result')} cannot be told from the first.",
    )


RESULT_CHECKS: Mapping[str, Callable[[PublishedResult, AuditContext], AuditOutcome]] = {
    "incomplete": _complete,
    "errors": _errors,
    "rate-and-count": _counts,
    "littles-law": _littles_law,
    "link": _link,
    "too-few-samples": _percentiles,
}
"""Checks of a single result, by code."""
TABLE_CHECKS: Mapping[str, Callable[[Sequence[PublishedResult], AuditContext], AuditOutcome]] = {
    "plateau": _plateau,
    "rank-noise": _ranks,
}
"""Checks that compare results at the same number of connections, by code."""


def run_checks(
    results: Sequence[PublishedResult], context: AuditContext
) -> tuple[tuple[AuditFinding, ...], tuple[SkippedAudit, ...]]:
    """Return the findings of all checks, and the checks that were skipped with the reason."""
    findings: list[AuditFinding] = []
    skipped: defaultdict[tuple[str, str], int] = defaultdict(int)
    for code, count, outcome in _outcomes(results, context):
        if isinstance(outcome, AuditFinding):
            findings.append(outcome)
        elif outcome is not None:
            skipped[code, outcome] += count
    return tuple(findings), tuple(
        SkippedAudit(check=code, results=count, why=why) for (code, why), count in skipped.items()
    )


def _outcomes(results: Sequence[PublishedResult], context: AuditContext) -> Iterator[tuple[str, int, AuditOutcome]]:
    groups: defaultdict[int | None, list[PublishedResult]] = defaultdict(list)
    for result in results:
        groups[result.connections].append(result)
    for code, check_table in TABLE_CHECKS.items() if len(results) > 1 else ():
        for group in groups.values():
            yield code, len(group), check_table(group, context)
    for code, check_result in RESULT_CHECKS.items():
        for result in results:
            yield code, 1, check_result(result, context)


def _finding(code: str, severity: AuditSeverity, results: Sequence[PublishedResult], text: str) -> AuditFinding:
    return AuditFinding(check=code, severity=severity, results=tuple(result.label for result in results), text=text)
