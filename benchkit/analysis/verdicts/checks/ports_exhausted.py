"""The client ran out of ports."""

from __future__ import annotations

from benchkit import units
from benchkit.analysis.verdicts.check import LOAD, Check, Found, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.scenario.thresholds import Thresholds

PORT_RANGE = "net.ipv4.ip_local_port_range"
TAKEN = ("time_wait", "in_use")
"""Sockets that hold a port: connections, and those that wait for late packets (RFC 9293, 3.5)."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> Found:
    """The sockets of each load host against the ports that it has for connections to one address.

    A tool that finds none is told EADDRNOTAVAIL, which it counts as a failed connect where it counts anything. Connections
    that are kept and were opened without a failure needed no more ports: what is in TIME_WAIT then is of trials before.
    """
    failed = evidence.number("errors_connect")
    if evidence.record.load.keepalive and not failed:
        return ()
    looked = [(use, host) for host in evidence.load_hosts if (use := _use(evidence, host)) is not None]
    if not looked:
        return Unchecked(why="the sockets or the port range of the load hosts are not known")
    (taken, ports), host = max(looked, key=lambda each: each[0][0] / each[0][1])
    if taken < thresholds.ports * ports:
        return ()
    refused = f", and {units.count(failed)} connects failed" if failed else ""
    return [
        Reason(
            severity="invalid",
            metrics=LOAD,
            seen=f"{units.count(taken)} of the {units.count(ports)} local ports of {host} were taken{refused}",
            threshold=f"from {units.share(thresholds.ports)} on",
            means="The load host waited for ports to come free, so the rate is that of its TIME_WAIT.",
            advice="Widen net.ipv4.ip_local_port_range, set net.ipv4.tcp_tw_reuse, or add load hosts.",
        )
    ]


CHECK = Check("ports-exhausted", "the client ran out of ports", of_trial=of_trial)


def _use(evidence: Evidence, host: str) -> tuple[float, int] | None:
    """(most ports taken at once, ports there are); None where one of them is not known."""
    ports = str((evidence.facts.get(host, {}).get("sysctls") or {}).get(PORT_RANGE) or "").split()
    states = [each for each in evidence.watched.series("tcp_sockets", host) if each.instance in TAKEN]
    if len(ports) != len(("first", "last")) or not states:
        return None
    first, last = map(int, ports)
    return sum(each.highest(evidence.window_s) for each in states), last - first + 1
