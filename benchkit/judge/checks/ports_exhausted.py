"""Check ports-exhausted: the client ran out of local ports."""

from __future__ import annotations

from benchkit import units
from benchkit.judge.check import LOAD, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.cpu_time import machine_of
from benchkit.judge.evidence import Evidence
from benchkit.models.thresholds import Thresholds

PORT_RANGE = "net.ipv4.ip_local_port_range"
REUSE = "net.ipv4.tcp_tw_reuse"
REUSE_ALWAYS = "1"
"""Value that allows reuse of a port after a second in TIME_WAIT (Documentation/networking/ip-sysctl.rst of Linux; 2
does so over loopback only)."""
IN_USE = "in_use"
HOLDING_STATES = ("time_wait", IN_USE)
"""States of sockets that hold a port: connections, and those that wait for late packets (RFC 9293, 3.5)."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the sockets of each load host with its local ports for connections to one address.

    A tool that finds no port gets EADDRNOTAVAIL, which it counts as a failed connect if it counts any. Kept
    connections that were opened without a failure need no more ports: their TIME_WAIT sockets are of earlier trials.
    Without a failed connect, TIME_WAIT also proves nothing where its ports are reused, and sockets prove nothing where
    those of a server are counted with the client's.
    """
    failed = evidence.number("errors_connect")
    if evidence.record.keeps_connections and not failed:
        return ()
    uses = {host: _ports_in_use(evidence, host, _counted_states(evidence, host)) for host in evidence.load_hosts}
    known = [(*use, host) for host, use in uses.items() if use is not None]
    used, ports, host = max(known, key=lambda each: each[0] / each[1], default=(0, 1, ""))
    if used < thresholds.ports * ports:
        unknown = [host for host, use in uses.items() if use is None]
        quantities = f"the sockets, the port range or the failed connects of {', '.join(unknown)}"
        return SkippedCheck(why=f"unknown: {quantities}") if unknown else ()
    failures = f", and {units.count(failed)} connects failed" if failed else ""
    return [
        Finding(
            severity="invalid",
            metrics=LOAD,
            seen=f"{units.count(used)} of the {units.count(ports)} local ports of {host} were in use{failures}",
            threshold=f"limit: {units.share(thresholds.ports)}",
            means="The load host waited for free ports, so the rate is limited by its sockets in TIME_WAIT.",
            advice="Widen net.ipv4.ip_local_port_range, set net.ipv4.tcp_tw_reuse, or add load hosts.",
        )
    ]


CHECK = Check("ports-exhausted", "the client ran out of local ports", of_trial=of_trial)


def _counted_states(evidence: Evidence, host: str) -> tuple[str, ...] | None:
    """Return the states of sockets whose ports the load tool could not use; None if only failed connects could tell."""
    failed = evidence.number("errors_connect")
    if failed:
        return HOLDING_STATES
    if any(_has_same_addresses(evidence, host, server) for server in evidence.server_hosts):
        return None if failed is None else ()
    if evidence.facts_of(host).sysctls.get(REUSE) == REUSE_ALWAYS:
        return None if failed is None else (IN_USE,)
    return HOLDING_STATES


def _ports_in_use(evidence: Evidence, host: str, states: tuple[str, ...] | None) -> tuple[float, int] | None:
    """Return (most ports in use at once, local ports); None if one of them is unknown."""
    port_range = (evidence.facts_of(host).sysctls.get(PORT_RANGE) or "").split()
    series = [each for each in evidence.telemetry.series("tcp_sockets", host) if each.instance in HOLDING_STATES]
    sockets = {each.instance: maximum for each in series if (maximum := each.maximum(evidence.window_s)) is not None}
    if states is None or len(port_range) != len(("first", "last")) or len(sockets) < len(HOLDING_STATES):
        return None
    first, last = map(int, port_range)
    return sum(sockets[state] for state in states), last - first + 1


def _has_same_addresses(evidence: Evidence, host: str, other: str) -> bool:
    """Return True if two hosts are one to the network: the same name, or one machine with the same addresses."""
    addresses = [_addresses(evidence, each) for each in (host, other)]
    equal = bool(addresses[0]) and addresses[0] == addresses[1]
    return host == other or (equal and machine_of(evidence, host) == machine_of(evidence, other))


def _addresses(evidence: Evidence, host: str) -> frozenset[str]:
    interfaces = evidence.facts_of(host).interfaces
    return frozenset(address for interface in interfaces for address in interface.addresses)
