"""The network was the limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchkit import units
from benchkit.analysis.verdicts.check import LOAD, Check, Found, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.scenario.thresholds import Thresholds

FRAME_OVERHEAD_BYTES = 24
"""What Ethernet has on the wire for each packet beside what interfaces count: preamble 8, checksum 4, gap 12 (IEEE 802.3,
clause 3). That is how many small packets fill a link that their bytes do not."""

BITS = 8
LOOPBACK = "lo"
DIRECTIONS = ("sent", "received")


@dataclass(frozen=True)
class _Link:
    """One interface of a host, and how much goes over it."""

    host: str
    interface: str
    rate_bps: float
    on_wire: bool
    """Whether packets have their overhead on the wire in the rate; a cap counts bytes alone."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> Found:
    """Bytes and packets of every link whose rate is known, in either direction."""
    links = [link for host in evidence.hosts for link in _links(evidence, host)]
    if not links:
        return Unchecked(why="nobody says how fast the hosts' links are (inventory: link_bps)")
    uses = [(_use(evidence, link, direction), link, direction) for link in links for direction in DIRECTIONS]
    known = [(use, link, direction) for use, link, direction in uses if use is not None]
    if not known:
        return Unchecked(why="the links were not watched")
    bps, link, direction = max(known, key=lambda each: each[0] / each[1].rate_bps)
    share = bps / link.rate_bps
    if share < thresholds.link:
        return ()
    return [
        Reason(
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


def _links(evidence: Evidence, host: str) -> Iterator[_Link]:
    """The host's interfaces by the cap that its inventory or lab names, else by the rates of its real ones."""
    facts = evidence.facts.get(host, {})
    cap = facts.get("link_bps")
    for each in evidence.watched.series("net_sent_bytes_total", host):
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
    series = (evidence.watched.instance(metric, link.host, link.interface) for metric in metrics)
    bytes_per_s, packets_per_s = (None if each is None else each.rate(evidence.window_s) for each in series)
    if bytes_per_s is None:
        return None
    overhead = FRAME_OVERHEAD_BYTES * (packets_per_s or 0.0) if link.on_wire else 0.0
    return (bytes_per_s + overhead) * BITS
