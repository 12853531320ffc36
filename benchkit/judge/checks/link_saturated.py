"""Check link-saturated: the network was the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchkit import units
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds

FRAME_OVERHEAD_BYTES = 24
"""Bytes of each packet on the wire of Ethernet that interfaces do not count: preamble 8, checksum 4, gap 12 (IEEE
802.3, clause 3). With them, small packets fill a link that their bytes alone do not."""

BITS = 8
LOOPBACK = "lo"
MIN_CARRIED = 0.5
"""Share of the traffic of a host's busiest interface that links of known rate must carry to be the links of the load:
bridges, bonds and tunnels count traffic again that goes over a real link."""
DIRECTIONS = ("sent", "received")


@dataclass(frozen=True)
class _Link:
    """One interface of a host, and its rate."""

    host: str
    interface: str
    rate_bps: float
    is_ethernet: bool
    """True if the rate includes the overhead of packets on the wire; a cap counts bytes only."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare bytes and packets of every link of known rate with that rate, in both directions."""
    use = link_use(evidence)
    if use is None or use[0] < thresholds.link:
        return _unknown_links(evidence, {host: list(_links(evidence, host)) for host in evidence.hosts})
    return [
        Finding(
            severity="invalid",
            metrics=LOAD,
            seen=use[1],
            threshold=f"limit: {units.share(thresholds.link)}",
            means="The network was the limit, so the rate is that of the link and the latencies are those of its queue.",
            advice="Use a faster link or smaller answers; CPU per request stays comparable.",
        )
    ]


CHECK = Check("link-saturated", "the network was the limit", of_trial=of_trial, reads="hosts")


def link_use(evidence: Evidence) -> tuple[float, str] | None:
    """Return the share of its rate that the fullest link carried in one direction, and a clause that says so.

    None where no link of known rate was watched.
    """
    loads = [
        (bps / link.rate_bps, bps, link, direction)
        for host in evidence.hosts
        for link in _links(evidence, host)
        for direction in DIRECTIONS
        if (bps := _bits_per_s(evidence, link, direction)) is not None
    ]
    if not loads:
        return None
    share, bps, link, direction = max(loads, key=lambda each: each[0])
    return share, (
        f"host {link.host} {direction} {units.bits_per_s(bps)} over {link.interface}, {units.share(share)} of its "
        f"{units.bits_per_s(link.rate_bps)}"
    )


def _unknown_links(evidence: Evidence, links: Mapping[str, Sequence[_Link]]) -> CheckResult:
    """Return the hosts whose traffic cannot be attributed to links of known rate; no finding if there are none."""
    traffic = {host: _traffic(evidence, host) for host in links}
    unwatched = [host for host, by_interface in traffic.items() if not by_interface]
    unrated = [
        host
        for host, by_interface in traffic.items()
        if by_interface
        and sum(by_interface.get(link.interface, 0.0) for link in links[host])
        < MIN_CARRIED * max(by_interface.values())
    ]
    reasons = [f"no telemetry for the links of {', '.join(unwatched)}"] if unwatched else []
    if unrated:
        reasons.append(f"link speed of {', '.join(unrated)} unknown; set link_bps in the inventory")
    return SkippedCheck(why="; ".join(reasons)) if reasons else ()


def _traffic(evidence: Evidence, host: str) -> dict[str, float]:
    """Return the bytes per second of each interface of the host, in both directions together."""
    by_interface: dict[str, float] = {}
    for direction in DIRECTIONS:
        for each in evidence.telemetry.series(f"net_{direction}_bytes_total", host):
            rate = each.rate(evidence.window_s)
            if each.instance not in (None, LOOPBACK) and rate is not None:
                by_interface[str(each.instance)] = by_interface.get(str(each.instance), 0.0) + rate
    return by_interface


def _links(evidence: Evidence, host: str) -> Iterator[_Link]:
    """Yield the host's interfaces with the cap of its inventory or lab, else its physical ones with their rates."""
    facts = evidence.facts_of(host)
    cap = facts.link_bps
    if cap is not None:
        for each in evidence.telemetry.series("net_sent_bytes_total", host):
            if each.instance not in (None, LOOPBACK):
                yield _Link(host, str(each.instance), cap, is_ethernet=False)
        return
    for interface in facts.interfaces:
        # A virtual interface reports a rate that does not limit it.
        if interface.speed_bps and interface.virtual is False:
            yield _Link(host, interface.name, interface.speed_bps, is_ethernet=True)


def _bits_per_s(evidence: Evidence, link: _Link, direction: str) -> float | None:
    """Return the bits per second over the link; None without telemetry."""
    metrics = [f"net_{direction}_bytes_total", f"net_{direction}_packets_total"]
    series = (evidence.telemetry.instance(metric, link.host, link.interface) for metric in metrics)
    bytes_per_s, packets_per_s = (None if each is None else each.rate(evidence.window_s) for each in series)
    if bytes_per_s is None:
        return None
    overhead = FRAME_OVERHEAD_BYTES * (packets_per_s or 0.0) if link.is_ethernet else 0.0
    return (bytes_per_s + overhead) * BITS
