"""The client ran out of ports."""

from __future__ import annotations

from benchkit import units
from benchkit.analysis.verdicts.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.cpu_time import machine_of
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds

PORT_RANGE = "net.ipv4.ip_local_port_range"
REUSE = "net.ipv4.tcp_tw_reuse"
REUSED = "1"
"""The value with which a port is taken again after a second in TIME_WAIT (Documentation/networking/ip-sysctl.rst of
Linux; 2, over loopback alone)."""
IN_USE = "in_use"
TAKEN = ("time_wait", IN_USE)
"""Sockets that hold a port: connections, and those that wait for late packets (RFC 9293, 3.5)."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """The sockets of each load host against the ports that it has for connections to one address.

    A tool that finds none is told EADDRNOTAVAIL, which it counts as a failed connect where it counts anything. Connections
    that are kept and were opened without a failure needed no more ports: what is in TIME_WAIT then is of trials before.
    Without a failed connect TIME_WAIT says nothing either where its ports are used again, and sockets say nothing where
    those of a server are counted with the client's.
    """
    failed = evidence.number("errors_connect")
    if evidence.record.load.keepalive and not failed:
        return ()
    uses = {host: _use(evidence, host, _holding(evidence, host)) for host in evidence.load_hosts}
    known = [(*use, host) for host, use in uses.items() if use is not None]
    taken, ports, host = max(known, key=lambda each: each[0] / each[1], default=(0, 1, ""))
    if taken < thresholds.ports * ports:
        lacking = [host for host, use in uses.items() if use is None]
        what = f"the sockets, the port range or the failed connects of {', '.join(lacking)}"
        return SkippedCheck(why=f"not known: {what}") if lacking else ()
    refused = f", and {units.count(failed)} connects failed" if failed else ""
    return [
        Finding(
            severity="invalid",
            metrics=LOAD,
            seen=f"{units.count(taken)} of the {units.count(ports)} local ports of {host} were taken{refused}",
            threshold=f"from {units.share(thresholds.ports)} on",
            means="The load host waited for ports to come free, so the rate is that of its TIME_WAIT.",
            advice="Widen net.ipv4.ip_local_port_range, set net.ipv4.tcp_tw_reuse, or add load hosts.",
        )
    ]


CHECK = Check("ports-exhausted", "the client ran out of ports", of_trial=of_trial)


def _holding(evidence: Evidence, host: str) -> tuple[str, ...] | None:
    """The states of those sockets of a load host whose ports its tool could not have; None where only failures tell."""
    failed = evidence.number("errors_connect")
    if failed:
        return TAKEN
    if any(_share_ports(evidence, host, server) for server in evidence.server_hosts):
        return None if failed is None else ()
    if (evidence.facts.get(host, {}).get("sysctls") or {}).get(REUSE) == REUSED:
        return None if failed is None else (IN_USE,)
    return TAKEN


def _use(evidence: Evidence, host: str, states: tuple[str, ...] | None) -> tuple[float, int] | None:
    """(most ports taken at once, ports there are); None where one of them is not known."""
    ports = str((evidence.facts.get(host, {}).get("sysctls") or {}).get(PORT_RANGE) or "").split()
    series = [each for each in evidence.telemetry.series("tcp_sockets", host) if each.instance in TAKEN]
    most = {each.instance: highest for each in series if (highest := each.maximum(evidence.window_s)) is not None}
    if states is None or len(ports) != len(("first", "last")) or len(most) < len(TAKEN):
        return None
    first, last = map(int, ports)
    return sum(most[state] for state in states), last - first + 1


def _share_ports(evidence: Evidence, one: str, other: str) -> bool:
    """Whether two hosts are one to the network: by name, or one machine with the same addresses."""
    addresses = [_addresses(evidence, host) for host in (one, other)]
    same = bool(addresses[0]) and addresses[0] == addresses[1]
    return one == other or (same and machine_of(evidence, one) == machine_of(evidence, other))


def _addresses(evidence: Evidence, host: str) -> frozenset[str]:
    interfaces = evidence.facts.get(host, {}).get("interfaces") or ()
    return frozenset(address for each in interfaces for address in each["addresses"])
