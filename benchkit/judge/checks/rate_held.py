"""Check rate-held: the target rate was not held, so that latencies are not those at that rate."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.judge.check import Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.checks.generator_saturated import generator_use
from benchkit.judge.checks.link_saturated import link_use
from benchkit.judge.checks.server_idle import server_use
from benchkit.judge.checks.throttled import quota_withheld
from benchkit.judge.evidence import Evidence
from benchkit.models.metrics import LATENCIES, P99
from benchkit.models.thresholds import Thresholds

FULL = 0.90
"""Share of its CPU at which a load tool or a server was the limit, as `generator_cpu` has it by default."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the rate achieved with the target rate, and the lag of sending with the latency.

    Who was at fault follows from when the load tool sent, and from which of tool, server and link had nothing left. A
    rate with a shape has no shortfall: that a server cannot follow it is what the trial shows.
    """
    if evidence.closed_loop:
        return ()
    achieved = evidence.number("rate_achieved")
    if achieved is None:
        return SkippedCheck(why="the tool reports no rate")
    findings = [*_shortfall(evidence, achieved, thresholds)] if evidence.record.load.shape is None else []
    return findings or [*_lag(evidence, thresholds)]


CHECK = Check("rate-held", "the target rate was not held", of_trial=of_trial)


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


def _lag(evidence: Evidence, thresholds: Thresholds) -> Iterator[Finding]:
    if not _is_sent_late(evidence, thresholds):
        return
    use = generator_use(evidence)
    seen = f", and {use[1].format(units.share(use[0]))}" if use is not None else ""
    yield Finding(
        severity="invalid",
        metrics=LATENCIES,
        seen=f"{_late_requests(evidence)}{seen}",
        threshold=f"limit: {units.share(thresholds.send_lag)} of the p99 latency, {units.seconds(evidence.number(P99))}",
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

    A load tool that sent in time is not at fault, however busy its cores were, unless a quota stopped it: then it also
    receives late. One that states no lag is if it had no CPU left. It comes first: what it sends late, a server cannot
    answer in time. A full link comes before the server, which works on what waits behind the link.
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
    is_full = generator is not None and generator[0] >= FULL
    is_late = _is_sent_late(evidence, thresholds)
    if is_late or (is_late is None and is_full):
        used = "" if generator is None else generator[1].format(units.share(generator[0]))
        clauses = [*([_late_requests(evidence)] if is_late else []), *([used] if used else [])]
        return (
            f"The load tool was at fault: {', and '.join(clauses)}.",
            "Give it more cores, threads or processes, add a load host, or lower the rate.",
        )
    if link is not None and link[0] >= thresholds.link:
        return f"The link was at fault: {link[1]}.", "Lower the rate, use smaller answers or a faster link."
    if server is not None and server[0] >= FULL:
        return (
            f"The server was at fault: {server[1]} used {units.share(server[0])} of the CPU available to it.",
            "Lower the rate below the server's capacity.",
        )
    if generator is None or server is None:
        unknown = [who for who, use in (("the load tool", generator), ("the server", server)) if use is None]
        return (
            f"Who was at fault is not known: the CPU time of {' and '.join(unknown)} was not recorded.",
            "Lower the rate, or measure on hosts that are watched.",
        )
    return (
        "Neither the load tool nor the server was out of CPU.",
        "Find what requests wait for: a lock or delay in the server, too few connections, or the network.",
    )
