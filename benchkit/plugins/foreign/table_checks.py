"""The checks that compare the results of a table, and the examination of all results. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from benchkit import units
from benchkit.plugins.foreign.checks import (
    RESULT_CHECKS,
    AuditContext,
    AuditFinding,
    AuditOutcome,
    SkippedAudit,
    finding_of,
    has_unstated_streams,
    in_flight_share,
)
from benchkit.plugins.foreign.published import PublishedResult
from benchkit.stats.inference import t_quantile

PLATEAU = 0.015
"""Width of a plateau, as a share of the rate: repetitions of one server spread further on most machines."""
MIN_PLATEAU, PLATEAU_SHARE = 3, 0.2
"""Fewest servers on a plateau, and their least share of the table."""
MIN_COPIES = 3
"""Fewest rows with a percentile equal to the mean that are no coincidence of rounding."""
LEAST_COPIED = 75.0
"""Lowest percentile that cannot equal the mean; lower ones can in a skewed distribution."""
ROBUST_FROM = 10
"""Degrees of freedom from which a median of deviations is known well enough."""
WHOLE = 5e-4
"""Largest relative distance of requests ÷ rate from whole seconds that truncated rates explain."""
WHOLE_SHARE = 0.8
"""Share of rows with whole seconds from which these are taken for the requested duration."""
CLOSES = 0.5
"""Connections opened for each request from which most requests had one of their own."""
CLOSES_MORE = 3.0
"""Connections opened for each request, relative to the median of the table, from which a row differs from it."""
Results = Sequence[PublishedResult]


@dataclass(frozen=True)
class Ranking:
    """The servers of a table by their mean rates, and how many neighbours the noise separates."""

    servers: int
    spread: float
    """Standard deviation of repetitions, as a share of the rate."""
    source: str
    pairs: int
    equal: int
    """Neighbours in rank that differ by no more than the noise."""
    tied: int
    """Servers that cannot be told from the first, itself included."""
    names: frozenset[str]
    """Servers in pairs of equal neighbours."""


def spread_of(repetitions: Iterable[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation of repetitions around their means, and its degrees of freedom.

    It is the pooled one; from `ROBUST_FROM` degrees on, the estimate by the median deviation if that is smaller. A
    repetition that failed is no noise. The normal distribution's median deviation is 0.6745 of its standard deviation
    (Hampel, The influence curve and its role in robust estimation, JASA 69, 1974).
    """
    deviations: list[float] = []
    df = 0
    for logs in repetitions:
        count = len(logs)
        df += count - 1
        if count > 1:
            scale = math.sqrt(count / (count - 1))
            deviations += [abs(float(each - np.mean(logs))) * scale for each in logs]
    if not df:
        return 0.0, 0
    pooled = math.sqrt(sum(each**2 for each in deviations) / len(deviations))
    return (min(pooled, median(deviations) / 0.6745) if df >= ROBUST_FROM else pooled), df


def noise_of(results: Results) -> float | None:
    """Return the spread of the repetitions of a table, over all its tests, as a share of the rate; None without any."""
    logs: defaultdict[tuple[str, str | None, int | None], list[float]] = defaultdict(list)
    for result in results:
        if result.rps:
            logs[result.name, result.test, result.connections].append(math.log(result.rps))
    spread, df = spread_of(logs.values())
    return spread if df else None


def rank(results: Results, noise: float | None) -> Ranking | str:
    """Rank servers by mean rate, and compare neighbours with the noise; return the reason where that is impossible."""
    if any(result.target_rate is not None for result in results):
        return "a target rate was held, which all servers share"
    logs: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        if result.rps:
            logs[result.name].append(math.log(result.rps))
    if len(logs) < 2:  # noqa: PLR2004 - sides of a difference
        return "fewer than two rates"
    spread, df = spread_of(logs.values())
    if df:
        reach, source = t_quantile(0.95, df), "its repetitions"
    elif noise is not None:
        spread, reach, source = noise, t_quantile(0.95, math.inf), "--noise"
    else:
        return "each server was measured once, so that the noise is unknown (--noise states it)"
    ranked = sorted(((float(np.mean(each)), len(each), name) for name, each in logs.items()), reverse=True)

    def is_within(first: tuple[float, int, str], second: tuple[float, int, str]) -> bool:
        return first[0] - second[0] <= reach * spread * math.sqrt(1 / first[1] + 1 / second[1])

    pairs = list(pairwise(ranked))
    equal = [pair for pair in pairs if is_within(*pair)]
    tied = sum(is_within(ranked[0], each) for each in ranked)
    names = frozenset(name for pair in equal for _, _, name in pair)
    return Ranking(len(ranked), spread, source, len(pairs), len(equal), tied, names)


def _ranks(results: Results, context: AuditContext) -> AuditOutcome:
    ranking = rank(results, context.noise)
    if isinstance(ranking, str):
        return ranking
    if not ranking.equal:
        return None
    text = (
        f"{ranking.equal} of {ranking.pairs} neighbours in rank differ by no more than the noise "
        f"({units.share(ranking.spread)} by {ranking.source}); {units.counted(ranking.tied, 'result')} cannot be told from "
        "the first."
    )
    return finding_of("rank-noise", "suspect", [each for each in results if each.name in ranking.names], text)


def _plateau(results: Results, _context: AuditContext) -> AuditOutcome:
    """Find the largest group of servers whose rates differ by no more than `PLATEAU`."""
    if any(result.target_rate is not None for result in results):
        return "a target rate was held, which all servers share"
    by_name: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        if result.rps:
            by_name[result.name].append(result.rps)
    ranked = sorted((float(np.mean(rates)), name) for name, rates in by_name.items())
    if len(ranked) < MIN_PLATEAU:
        return f"fewer than {MIN_PLATEAU} rates"
    rates = [rate for rate, _ in ranked]
    reaches = [(bisect_right(rates, rate * (1 + PLATEAU)) - start, start) for start, rate in enumerate(rates)]
    count, start = max(reaches, key=lambda each: each[0])
    if count < MIN_PLATEAU or count < PLATEAU_SHARE * len(ranked):
        return None
    names = {name for _, name in ranked[start : start + count]}
    text = (
        f"{count} of {len(ranked)} results lie between {units.rate(rates[start])} and "
        f"{units.requests_per_s(rates[start + count - 1])}, within {units.share(PLATEAU)}. Something that they share was "
        "probably the limit, such as the load tool, the link or a target rate."
    )
    return finding_of("plateau", "suspect", [each for each in results if each.name in names and each.rps], text)


def _whole_seconds(results: Results, _context: AuditContext) -> AuditOutcome:
    """Find rates by whole seconds, whose rounding exceeds the differences between neighbours in rank."""
    windows = [each.requests / each.rps for each in results if each.requests and each.rps and each.duration_step_s]
    if len(windows) < MIN_PLATEAU:
        return None
    whole = [window for window in windows if abs(window - round(window)) <= WHOLE * window and round(window)]
    if len(whole) < WHOLE_SHARE * len(windows):
        return None
    step = 0.5 / median(whole)
    rates = sorted(math.log(each.rps) for each in results if each.rps)
    near = sum(high - low < step for low, high in pairwise(rates))
    if not near:
        return None
    text = (
        f"Rates are counts divided by {units.seconds(round(median(whole)))}, a duration in whole seconds. Half a second more "
        f"or less is {units.share(step)}, and {near} of {len(rates) - 1} neighbours in rank are closer."
    )
    return finding_of("whole-seconds", "suspect", [each for each in results if each.rps], text)


def _reconnects(results: Results, _context: AuditContext) -> AuditOutcome:
    """Find servers that closed their connections, where most of the table kept them."""
    opened = {
        id(each): each.reconnects / each.requests for each in results if each.reconnects is not None and each.requests
    }
    if not opened:
        return None
    usual = median(opened.values())
    unlike = [each for each in results if opened.get(id(each), 0.0) > max(CLOSES, CLOSES_MORE * usual)]
    if not unlike:
        return None
    text = (
        f"{units.counted(len(unlike), 'result')} with a new connection for at least every second request: "
        f"their rates measure connecting. The median of the table has {usual:.3g} for each."
    )
    return finding_of("reconnects", "suspect", unlike, text)


def _streams(results: Results, context: AuditContext) -> AuditOutcome:
    """Find rows with several requests in flight on each connection whose number is not stated."""
    found = [each for each in results if each.tool is None and has_unstated_streams(each)]
    if not found or context.is_rate_held:
        return None
    shares = [share for each in found if (share := in_flight_share(each))]
    few, many = f"{min(shares):.3g}", f"{max(shares):.3g}"
    text = (
        f"{units.counted(len(found), 'result')} with {few if few == many else f'{few} to {many}'} requests in flight for each "
        "connection, by rate and mean. They were pipelined or multiplexed, and their number is not stated (--streams)."
    )
    return finding_of("unstated-streams", "suspect", found, text)


TABLE_CHECKS: Mapping[str, Callable[[Results, AuditContext], AuditOutcome]] = {
    "plateau": _plateau,
    "rank-noise": _ranks,
    "whole-seconds": _whole_seconds,
    "reconnects": _reconnects,
    "unstated-streams": _streams,
}
"""Checks that compare results of one test at the same number of connections, by code."""


def copied_percentiles(results: Results) -> Iterator[tuple[float, list[PublishedResult]]]:
    """Yield each percentile that is the mean in every row of a test, with its rows: a copy, not a measurement."""
    groups = groups_of(results)
    for percent in sorted({each for result in results for each in result.percentiles if each >= LEAST_COPIED}):
        copies: list[PublishedResult] = []
        for group in groups:
            both = [each for each in group if each.mean_s is not None and percent in each.percentiles]
            copies += both if all(each.mean_s == each.percentiles[percent] for each in both) else []
        if len(copies) >= MIN_COPIES and len({each.mean_s for each in copies}) > 1:
            yield percent, copies


def _copies(results: Results) -> list[AuditFinding]:
    return [
        finding_of(
            f"p{percent:g}-is-mean",
            "invalid",
            copies,
            f"p{percent:g} equals the mean in every one of {units.counted(len(copies), 'row')}, to the last digit: "
            "it is a copy of the mean, not a measured percentile.",
        )
        for percent, copies in copied_percentiles(results)
    ]


def run_checks(results: Results, context: AuditContext) -> tuple[tuple[AuditFinding, ...], tuple[SkippedAudit, ...]]:
    """Return the findings of all checks, and the checks that were skipped with the reason."""
    if context.streams is not None:
        results = [each if each.streams else each.model_copy(update={"streams": context.streams}) for each in results]
    findings: list[AuditFinding] = []
    skipped: defaultdict[tuple[str, str], int] = defaultdict(int)
    for code, count, outcome in _outcomes(results, context):
        if isinstance(outcome, AuditFinding):
            findings.append(outcome)
        elif isinstance(outcome, str):
            skipped[code, outcome] += count
        elif outcome is not None:
            findings += outcome
    return tuple(findings), tuple(
        SkippedAudit(check=code, results=count, why=why) for (code, why), count in skipped.items()
    )


def groups_of(results: Results) -> list[list[PublishedResult]]:
    """Return the results that are compared: of one test, at the same number of connections."""
    groups: defaultdict[tuple[str | None, int | None, int | None], list[PublishedResult]] = defaultdict(list)
    for result in results:
        groups[result.test, result.connections, result.streams].append(result)
    return list(groups.values())


def _outcomes(results: Results, context: AuditContext) -> Iterator[tuple[str, int, AuditOutcome | list[AuditFinding]]]:
    if len(results) > 1:
        groups = groups_of(results)
        for code, check_table in TABLE_CHECKS.items():
            for group in groups:
                yield code, len(group), check_table(group, context)
        yield "p99-is-mean", len(results), _copies(results)
    for code, check_result in RESULT_CHECKS.items():
        for result in results:
            yield code, 1, check_result(result, context)
