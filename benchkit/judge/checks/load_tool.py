"""Checks of what the load tool did: its ceilings, requests for percentiles, target rates, capacities."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.cpu_time import quota_withheld
from benchkit.judge.evidence import Evidence, Severity
from benchkit.judge.usage import generator_use, link_use, server_use
from benchkit.models.metrics import CAPACITY, LATENCIES, P99, PERCENTILES, metric_named
from benchkit.models.thresholds import Thresholds

HEY_CAP = "hey-cap"
"""Note of hey's parser: hey keeps 1,000,000 results (requester/requester.go, maxRes)."""


def _known_ceilings(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Look for known ceilings: hey's million results, the resolution of siege and ab, and siege's users."""
    found: list[tuple[Severity, tuple[str, ...], str, str, str]] = []
    if HEY_CAP in evidence.notes:
        means = "Latencies cover only the beginning of the window; the rate counts every request."
        advice = "Use more hey processes, a shorter window, or wrk."
        found.append(("invalid", LATENCIES, evidence.notes[HEY_CAP], means, advice))
    step_s = evidence.number("latency_resolution_s")
    if step_s is not None and evidence.number("requests") and evidence.number("latency_mean_s") is None:
        seen = f"the mean latency is below the resolution of {evidence.row.tool}, {units.seconds(step_s)}"
        means = "The tool cannot measure latencies this short; its percentiles are rounded to whole steps."
        advice = "Use wrk or vegeta, which measure microseconds, for latencies this short."
        found.append(("suspect", LATENCIES, seen, means, advice))
    for load, result in evidence.record.outputs:
        if result.connections is not None and result.connections != load.connections:
            wanted = units.counted(load.connections, "requested connection")
            seen = f"the tool reports {result.connections:,} of {wanted}"
            means = "The server was not measured under the load that the cell states."
            found.append(("invalid", ALL, seen, means, "Stay below the tool's limit, or use more processes of it."))
    limit = "limit: the tool's own ceiling"
    return [
        Finding(severity=severity, metrics=metrics, seen=seen, threshold=limit, means=means, advice=advice)
        for severity, metrics, seen, means, advice in found
    ]


TOOL_LIMIT = Check("tool-limit", "the load tool's own ceiling was reached", of_trial=_known_ceilings)


def required_requests(metric: str, thresholds: Thresholds) -> float:
    """Return the number of requests that a percentile needs."""
    return round(thresholds.samples_beyond / (1 - PERCENTILES[metric].share), 6)


def _samples_of_percentiles(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the number of requests with what the requested percentiles need.

    Other percentiles of too few requests are excluded (`benchkit.judge.verdicts`), but without a finding.
    """
    requests = evidence.number("requests")
    required = {name: required_requests(name, thresholds) for name in PERCENTILES if name in evidence.requested_metrics}
    if requests is None:
        return SkippedCheck(why="the tool does not report the number of requests") if required else ()
    lacking = {metric: number for metric, number in required.items() if requests < number}
    if not lacking:
        return ()
    titles = " and ".join(metric_named(metric).title for metric in lacking)
    return [
        Finding(
            severity="invalid",
            metrics=tuple(lacking),
            seen=f"{titles} of {units.counted(int(requests), 'request')}",
            threshold=f"needs {units.count(max(lacking.values()))}",
            means=f"Fewer than {thresholds.samples_beyond:g} requests lie beyond it: it is the latency of those few.",
            advice="Measure longer, or ask for a lower percentile.",
        )
    ]


TOO_FEW_SAMPLES = Check(
    "too-few-samples", "a percentile rests on a handful of requests", of_trial=_samples_of_percentiles
)


FULL = 0.90
"""Share of its CPU at which a load tool or a server was the limit: the default of `generator_cpu`."""


def _rate_held(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the rate achieved with the target rate, and the lag of sending with the latency.

    The finding names what was at fault, by the lag of sending and by the saturation of tool, server and link. A rate
    with a shape has no shortfall: such a trial tests if the server can follow it.
    """
    if evidence.closed_loop:
        return ()
    achieved = evidence.number("rate_achieved")
    if achieved is None:
        return SkippedCheck(why="the tool reports no rate")
    findings = list(_shortfall(evidence, achieved, thresholds)) if evidence.record.load.shape is None else []
    return findings or list(_lag(evidence, thresholds))


RATE_HELD = Check("rate-held", "the target rate was not held", of_trial=_rate_held)


def _shortfall(evidence: Evidence, achieved: float, thresholds: Thresholds) -> Iterator[Finding]:
    target = evidence.record.load.rate or 0.0
    if achieved >= thresholds.rate_held * target:
        return
    means, advice = _fault(evidence, thresholds)
    yield Finding(
        severity="invalid",
        metrics=LATENCIES,
        seen=f"{units.requests_per_s(achieved)} were answered, {units.share(achieved / target)} of the target rate",
        threshold=f"limit: {units.share(thresholds.rate_held)} of {units.requests_per_s(target)}",
        means=f"{means} Latencies are not those at the target rate.",
        advice=advice,
    )


MOST_LAG = 0.5
"""Lag as a share of a latency, above which the latency is mostly the load tool's delay. Below it, the interval of a
ratio includes that share (`benchkit.comparison.ratios`)."""


def _lag(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    if not _is_sent_late(evidence, thresholds):
        return
    use = generator_use(evidence)
    seen = f", and {use.text}" if use is not None else ""
    is_most = _is_sent_late(evidence, thresholds.model_copy(update={"send_lag": MOST_LAG}))
    limit = f"{units.share(thresholds.send_lag)} of the p99 latency, {units.seconds(evidence.number(P99))}"
    yield Finding(
        severity="invalid" if is_most else evidence.disturbance,
        metrics=LATENCIES,
        seen=f"{_late_requests(evidence)}{seen}",
        threshold=f"limit: {limit}, else suspect; above {units.share(MOST_LAG)} invalid",
        means="The load tool was at fault: it could not send in time, and that much of the latencies is its own delay.",
        advice="Give it a core of its own, more cores or more processes, or lower the rate.",
    )


def _is_sent_late(evidence: Evidence, thresholds: Thresholds) -> bool | None:
    """Return True if latencies contain much waiting to be sent; None where the tool does not state the lag."""
    lag_s, latency_s = evidence.number("send_lag_p99_s"), evidence.number(P99)
    return None if lag_s is None or latency_s is None else lag_s > thresholds.send_lag * latency_s


def _late_requests(evidence: Evidence) -> str:
    return f"a hundredth of the requests was sent at least {units.seconds(evidence.number('send_lag_p99_s'))} late"


def _fault(evidence: Evidence, thresholds: Thresholds) -> tuple[str, str]:
    """Return who could not hold the rate, and what to do about it: two sentences.

    The load tool comes first: a server cannot answer in time what was sent late. A tool that sent in time is not at
    fault, however busy its cores were, unless a quota stopped it. A full link comes before the server behind it.
    """
    withheld, host = max(
        ((quota_withheld(evidence, host) or 0.0, host) for host in evidence.load_hosts), default=(0.0, "")
    )
    if withheld > thresholds.throttled:
        return (
            f"The load tool was at fault: a CPU quota withheld CPU time from {host} for {units.share(withheld)} of the window.",
            "Remove the quota from the load host, or lower the rate.",
        )
    generator, link, server = generator_use(evidence), link_use(evidence), server_use(evidence)
    is_full = generator is not None and generator.share >= FULL
    is_late = _is_sent_late(evidence, thresholds)
    if is_late or (is_late is None and is_full):
        clauses = [_late_requests(evidence) if is_late else "", generator.text if generator is not None else ""]
        return (
            f"The load tool was at fault: {', and '.join(filter(None, clauses))}.",
            "Give it more cores, threads or processes, add a load host, or lower the rate.",
        )
    if link is not None and link.share >= thresholds.link:
        return f"The link was at fault: {link.text}.", "Lower the rate, use smaller answers or a faster link."
    if server is not None and server.share >= FULL:
        return f"The server was at fault: {server.text}.", "Lower the rate below the server's capacity."
    return (
        "Neither the load tool nor the server is known to have been out of CPU.",
        "Find what requests wait for: a lock or delay in the server, too few connections, or the network.",
    )


def _search_end(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Compare the interval of a search for a capacity with the precision that the scenario asks for."""
    found, goal = evidence.record.capacity, evidence.record.load.capacity
    if found is None or goal is None:
        return ()
    is_bounded = found.high is not None and found.low is not None
    if is_bounded and found.precision <= goal.precision:
        return ()
    interval = f"at least {units.requests_per_s(found.highest_held)}" if found.highest_held else "not known"
    if is_bounded:
        interval = f"{units.rate(found.low)} to {units.requests_per_s(found.high)}"
    limited = sum(probe.outcome == "generator" for probe in found.probes)
    unusable = sum(probe.outcome == "unusable" for probe in found.probes)
    return [
        Finding(
            severity="suspect" if is_bounded else "invalid",
            metrics=(CAPACITY,),
            seen=f"after {units.counted(len(found.probes), 'probe')} the capacity is {interval}; the load tool was the limit "
            f"of {limited}, and {unusable} cannot be used; the search ended because {found.reason}",
            threshold=f"limit: an interval of {units.share(goal.precision)} to either side, as the scenario asks",
            means="The probes do not show closely enough where the server stops keeping the objective.",
            advice="Give the load tool more cores, threads or processes, and the search more time (budget_s) or longer "
            "probes (duration_s).",
        )
    ]


CAPACITY_FOUND = Check("capacity-found", "the search did not find the capacity", of_trial=_search_end)
