"""Checks of what the load tool did: its ceilings, requests for percentiles, target rates, capacities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.cpu_time import quota_withheld
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.judge.usage import generator_use, link_use, server_use
from benchkit.models.load import RATE
from benchkit.models.metrics import CAPACITY, GOODPUT, LATENCIES, P99, PERCENTILES, metric_named
from benchkit.models.thresholds import Thresholds

HEY_CAP = "hey-cap"
"""Note of hey's parser: hey keeps 1,000,000 results (requester/requester.go, maxRes)."""


def _known_ceilings(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Look for known ceilings: hey's million results, the resolution of siege and ab, and siege's users."""
    return [*_capped_results(evidence), *_below_resolution(evidence), *_other_connections(evidence)]


TOOL_LIMIT = Check("tool-limit", "the load tool's own ceiling was reached", of_trial=_known_ceilings)


def _capped_results(evidence: Evidence) -> Iterator[Finding]:
    if HEY_CAP in evidence.notes:
        yield Finding(
            severity="invalid",
            metrics=LATENCIES,
            seen=evidence.notes[HEY_CAP],
            threshold="limit: 1,000,000 results per process",
            means="Latencies cover only the beginning of the window; the rate counts every request.",
            advice="Use more hey processes, a shorter window, or wrk.",
        )


def _below_resolution(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding for a mean latency that is absent in `trials` because it is below the tool's resolution."""
    step_s = evidence.number("latency_resolution_s")
    if step_s is not None and evidence.number("requests") and evidence.number("latency_mean_s") is None:
        tool = evidence.row.tool
        yield Finding(
            severity="suspect",
            metrics=LATENCIES,
            seen=f"the mean latency is below the resolution of {tool}, {units.seconds(step_s)}",
            threshold="limit: one step of the resolution",
            means="The tool cannot measure latencies this short; its percentiles are rounded to whole steps.",
            advice="Use wrk or vegeta, which measure microseconds, for latencies this short.",
        )


def _other_connections(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding for each generator that reports another number of connections than requested."""
    for load, result in evidence.record.outputs:
        reported = result.connections
        if reported is not None and reported != load.connections:
            yield Finding(
                severity="invalid",
                metrics=ALL,
                seen=f"the tool reports {reported:,} of {units.counted(load.connections, 'requested connection')}",
                threshold="limit: the requested number",
                means="The server was measured under another load than the cell states.",
                advice="Stay below the tool's limit, or use more processes of it.",
            )


def required_requests(metric: str, thresholds: Thresholds) -> float:
    """Return the number of requests that a percentile needs."""
    return round(thresholds.samples_beyond / (1 - PERCENTILES[metric].share), 6)


def _samples_of_percentiles(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the number of requests with what the requested percentiles need.

    Other percentiles in the table are excluded where they are used (`benchkit.judge.verdicts`), but as
    the scenario does not ask about them, they are no finding.
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

    The fault follows from when the load tool sent, and from which of tool, server and link was saturated. A rate with a
    shape has no shortfall: the trial is to show whether a server can follow it.
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

    A load tool that sent in time is not at fault, however busy its cores were. If a quota stopped it, it also received
    late, and is at fault. A tool that states no lag is at fault if it had no CPU left. The tool comes first: a server
    cannot answer in time what was sent late. A full link comes before the server, which works on what waits behind the
    link.
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


AT_SHARES = (*LATENCIES, GOODPUT, "overload_error_share", "recovery_s")
"""Metrics that are compared at a share of a capacity."""
MORE_LOAD = "give the load tool more cores, threads or processes, or add a load host."


def _search_end(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Read how the search that the trial followed had ended."""
    found, goal = evidence.record.capacity, evidence.record.load.capacity
    if found is None or goal is None:
        return ()
    probes = units.counted(len(found.probes), "probe")
    if found.high is not None and found.low is not None:
        if found.precision <= goal.precision:
            return ()
        return [
            Finding(
                severity="suspect",
                metrics=(CAPACITY,),
                seen=f"after {probes} the interval of the capacity is {units.rate(found.low)} to "
                f"{units.requests_per_s(found.high)}, {units.share(found.precision)} to one side; the search ended because "
                f"{found.reason}",
                threshold=f"limit: {units.share(goal.precision)}, as the scenario asks",
                means="Whether a rate keeps the objective depended on chance, or too few probes could be used.",
                advice="Give the search more time (budget_s), or longer probes (duration_s).",
            )
        ]
    limited = sum(probe.outcome == "generator" for probe in found.probes)
    unusable = [probe.why for probe in found.probes if probe.outcome == "unusable"]
    clauses = [
        *([f"the load tool was the limit of {limited} of {probes}"] if limited else []),
        *([f"{len(unusable)} of {probes} cannot be used ({unusable[-1]})"] if unusable else []),
    ]
    held, tried = found.highest_held, found.highest_tried
    kept = (
        "no rate kept the objective"
        if held is None
        else f"the objective was kept at up to {units.requests_per_s(held)}"
    )
    return [
        Finding(
            severity="invalid",
            metrics=(CAPACITY,),
            seen=f"{' and '.join(clauses) or f'none of {probes} failed'}: {kept}"
            + ("" if tried is None else f", and the highest rate tried is {units.rate(tried)}"),
            threshold="limit: probes at which the server is the limit",
            means="No probe shows a rate that the server does not keep: its capacity is not bounded.",
            advice="Run it again on a quieter host, or with longer probes."
            if len(unusable) > limited
            else MORE_LOAD.capitalize(),
        )
    ]


def _shares_of_bounds(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """Find the trials at a share of a capacity of which only a lower bound is known."""
    load = evidence.manifest.scenario.get("load") or {}
    rate = load.get(RATE)
    share = (rate if isinstance(rate, Mapping) else load).get("share_of_capacity")
    if share is None:
        return {}
    trials, factor = evidence.trials, str(share).removeprefix("$")
    others = {
        cell.cell_id: tuple((name, level) for name, level in cell.levels.items() if name != factor)
        for cell in evidence.manifest.cells
    }
    is_search = (trials["kind"] == "calibrate") & trials["capacity_rps"].notna()
    unbounded = trials[is_search & trials["capacity_high"].isna()]
    lows = {others[str(cell)]: low for cell, low in zip(unbounded["cell_id"], unbounded["capacity_low"], strict=True)}
    measured = trials[trials["kind"] == "measure"]
    return {
        str(trial_id): [
            Finding(
                severity="suspect",
                metrics=AT_SHARES,
                seen="the capacity, of which the target rate is a share, is at least "
                f"{units.requests_per_s(float(lows[others[str(cell)]]))}",
                threshold="limit: a capacity with an interval",
                means="The figures hold at this rate, which may be a smaller share of the capacity than asked for.",
                advice=f"Read them by their rate, or {MORE_LOAD}",
            )
        ]
        for trial_id, cell in zip(measured["trial_id"], measured["cell_id"], strict=True)
        if others.get(str(cell)) in lows
    }


CAPACITY_FOUND = Check(
    "capacity-found", "the search for the capacity did not find it", of_trial=_search_end, of_run=_shares_of_bounds
)
