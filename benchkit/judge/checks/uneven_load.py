"""Check uneven-load: a load host started late, or was slower than the others."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchkit import units
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the load hosts of a trial: when they started, and the rate of each for its share of the load."""
    if len(evidence.load_hosts) < 2:  # noqa: PLR2004
        return ()
    late = [*_late(evidence, thresholds)]
    rates = _rates(evidence)
    if rates is None:
        return late or SkippedCheck(why="the rate of each load host is not known")
    return [*late, *_slow(rates, thresholds)]


CHECK = Check("uneven-load", "a load host started late, or was slower than the others", of_trial=of_trial)


def _late(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    record = evidence.record
    length_s = record.slices[0].duration_s if record.slices else evidence.window_s
    if record.start_spread_s <= thresholds.start_spread * length_s:
        return
    last = max(record.generators, key=lambda each: each.late_s or 0.0)
    yield Finding(
        severity="suspect",
        metrics=LOAD,
        seen=f"the load tool on {last.host} started {units.seconds(record.start_spread_s)} after the first one",
        threshold=f"limit: {units.share(thresholds.start_spread)} of {units.seconds(length_s)}",
        means="Until then the load was smaller than requested.",
        advice=f"Find what delays processes on {last.host}, such as a busy core, or make windows longer.",
    )


def _rates(evidence: Evidence) -> dict[str, float] | None:
    """Return the rate of each load host, divided by its part of connections or target rate; None: unknown."""
    rates: dict[str, float] = dict.fromkeys(evidence.load_hosts, 0.0)
    shares = dict(rates)
    for each in evidence.record.generators:
        if each.result is None or each.result.rps is None:
            return None
        rates[each.host] += each.result.rps
        shares[each.host] += each.load.connections if each.load.rate is None else each.load.rate
    return {host: rates[host] / shares[host] for host in rates}


def _slow(rates: dict[str, float], thresholds: Thresholds) -> Iterator[Finding]:
    slowest = min(rates, key=rates.__getitem__)
    others = median(rate for host, rate in rates.items() if host != slowest)
    if rates[slowest] >= thresholds.load_host_rate * others:
        return
    yield Finding(
        severity="suspect",
        metrics=LOAD,
        seen=f"{slowest} had {units.share(rates[slowest] / others)} of the median rate of the other load hosts, for its "
        "share of the load",
        threshold=f"limit: {units.share(thresholds.load_host_rate)}",
        means="Its connections waited longer than the others, so that rates and latencies are those of unlike load hosts.",
        advice=f"Find what slows {slowest}: a busy core, its link, its way to the server; or remove it from the inventory.",
    )
