"""The network was the limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchkit import units
from benchkit.analysis.verdicts.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds

FRAME_OVERHEAD_BYTES = 24
"""What Ethernet has on the wire for each packet beside what interfaces count: preamble 8, checksum 4, gap 12 (IEEE 802.3,
clause 3). That is how many small packets fill a link that their bytes do not."""

BITS = 8
LOOPBACK = "lo"
MOST = 0.5
"""Of what the busiest interface of a host carries, which the links of known rate have to carry for its traffic to be
theirs: bridges, bonds and tunnels count once more what goes over a real one."""
DIRECTIONS = ("sent", "received")


@dataclass(frozen=True)
class _Link:
    """One interface of a host, and how much goes over it."""

    host: str
    interface: str
    rate_bps: float
    on_wire: bool
    """Whether packets have their overhead on the wire in the rate; a cap counts bytes alone."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Bytes and packets of every link whose rate is known, in either direction."""
    links = {host: list(_links(evidence, host)) for host in evidence.hosts}
    uses = [(_use(evidence, each, way), each, way) for of in links.values() for each in of for way in DIRECTIONS]
    known = [(use, link, direction) for use, link, direction in uses if use is not None]
    bps, link, direction = max(known, key=lambda each: each[0] / each[1].rate_bps, default=(0.0, None, ""))
    share = 0.0 if link is None else bps / link.rate_bps
    if link is None or share < thresholds.link:
        return _unknown(evidence, links)
    return [
        Finding(
            severity="invalid",
            metrics=LOAD,
            seen=f"host {link.host} {direction} {units.bits_per_s(bps)} over {link.interface}, {units.share(share)} of its "
            f"{units.bits_per_s(link.rate_bps)}",
            threshold=f"from {units.share(thresholds.link)} on",
            means="The network was the limit, so the rate is the link's and the times are those of its queue.",
            advice="Use a faster link or smaller answers; CPU per request stays comparable.",
        )
    ]


CHECK = Check("link-saturated", "the network was the limit", of_trial=of_trial)


def _unknown(evidence: Evidence, links: Mapping[str, Sequence[_Link]]) -> CheckResult:
    """The hosts whose traffic is not seen to go over links of a known rate; nothing where there is none."""
    carried = {host: _carried(evidence, host) for host in links}
    unwatched = [host for host, by_interface in carried.items() if not by_interface]
    unrated = [
        host
        for host, by_interface in carried.items()
        if by_interface
        and sum(by_interface.get(link.interface, 0.0) for link in links[host]) < MOST * max(by_interface.values())
    ]
    said = [f"not watched: the links of {', '.join(unwatched)}"] if unwatched else []
    if unrated:
        said.append(f"nobody says how fast the links of {', '.join(unrated)} are (inventory: link_bps)")
    return SkippedCheck(why="; ".join(said)) if said else ()


def _carried(evidence: Evidence, host: str) -> dict[str, float]:
    """Bytes a second over each of the host's interfaces, both directions together."""
    found: dict[str, float] = {}
    for direction in DIRECTIONS:
        for each in evidence.telemetry.series(f"net_{direction}_bytes_total", host):
            rate = each.rate(evidence.window_s)
            if each.instance not in (None, LOOPBACK) and rate is not None:
                found[str(each.instance)] = found.get(str(each.instance), 0.0) + rate
    return found


def _links(evidence: Evidence, host: str) -> Iterator[_Link]:
    """The host's interfaces by the cap that its inventory or lab names, else by the rates of its real ones."""
    facts = evidence.facts.get(host, {})
    cap = facts.get("link_bps")
    for each in evidence.telemetry.series("net_sent_bytes_total", host):
        if each.instance in (None, LOOPBACK):
            continue
        if cap is not None:
            yield _Link(host, str(each.instance), float(cap), on_wire=False)
    if cap is None:
        for interface in facts.get("interfaces") or ():
            # Virtual interfaces state a rate that nothing holds them to.
            if interface.get("speed_bps") and interface.get("virtual") is False:
                yield _Link(host, interface["name"], float(interface["speed_bps"]), on_wire=True)


def _use(evidence: Evidence, link: _Link, direction: str) -> float | None:
    """Bits a second over the link."""
    metrics = [f"net_{direction}_bytes_total", f"net_{direction}_packets_total"]
    series = (evidence.telemetry.instance(metric, link.host, link.interface) for metric in metrics)
    bytes_per_s, packets_per_s = (None if each is None else each.rate(evidence.window_s) for each in series)
    if bytes_per_s is None:
        return None
    overhead = FRAME_OVERHEAD_BYTES * (packets_per_s or 0.0) if link.on_wire else 0.0
    return (bytes_per_s + overhead) * BITS
