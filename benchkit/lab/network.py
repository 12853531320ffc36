"""Addresses and links of a lab: commands for `ip` and `tc`, and the networks that this machine already uses."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network
from itertools import islice
from typing import Any

from benchkit.errors import HostError

BRIDGE = "switch"
UPLINK = "uplink"
PREFIX = 24
CONTROLLER_INDEX = 1
FIRST_HOST_INDEX = 11

POOLS = (IPv4Network("198.18.0.0/15"), IPv4Network("10.0.0.0/8"))
"""Networks from which a lab's is chosen: first the block for benchmarks (RFC 2544, appendix C.2.2), which no
company's network routes, then private addresses."""

TBF_BURST_S = 0.01
"""Size of the bucket as a time: tc-tbf(8) requires at least rate / HZ, and 100 is the smallest HZ of kernels."""
TBF_MIN_BURST_BYTES = 1 << 16
"""Smallest bucket: one segmentation-offload packet of up to 64 KiB, which would otherwise be split before sending."""
TBF_LATENCY = "50ms"
"""Longest time that a packet waits for tokens, as in the examples of tc-tbf(8)."""


def choose_subnet(used: Iterable[IPv4Network], seed: int) -> IPv4Network:
    """Return a /24 that no route or address of this machine overlaps; `seed` decides where the search starts."""
    taken = [network for network in used if network.prefixlen > 0]  # without the default route
    for candidate in _candidates(seed):
        if not any(candidate.overlaps(network) for network in taken):
            return candidate
    raise HostError(
        "no free network for the lab",
        why=f"routes of this machine cover {' and '.join(str(pool) for pool in POOLS)}",
        hint="take down a VPN or a lab, then `benchkit lab up` again",
    )


def used_networks(ip: str) -> list[IPv4Network]:
    """Return the destinations of this machine's IPv4 routes, of all tables (its addresses are local routes)."""
    completed = subprocess.run(
        [ip, "-json", "-4", "route", "show", "table", "all"], capture_output=True, text=True, check=False
    )
    if completed.returncode != 0:
        raise HostError("cannot list the routes of this machine", why=completed.stderr.strip(), where=ip)
    return networks_of(json.loads(completed.stdout or "[]"))


def networks_of(routes: Iterable[dict[str, Any]]) -> list[IPv4Network]:
    """Return the destinations of routes as `ip -json route` prints them."""
    return [IPv4Network(route["dst"], strict=False) for route in routes if route.get("dst") not in (None, "default")]


def cap_discipline(bps: float | None) -> str | None:
    """Return the queueing discipline that limits the rate of a link's sending side; None without a limit."""
    if bps is None:
        return None
    burst = max(math.ceil(bps / 8 * TBF_BURST_S), TBF_MIN_BURST_BYTES)
    return f"root tbf rate {bps:.0f}bit burst {burst}b latency {TBF_LATENCY}"


def uplink_commands(link: str, subnet: IPv4Network, switch_pid: int) -> list[str]:
    """Return the `ip` commands that link this machine to the lab's switch."""
    return [
        f"link add {link} type veth peer name {UPLINK} netns {switch_pid}",
        f"addr add {subnet[CONTROLLER_INDEX]}/{PREFIX} dev {link}",
        f"link set {link} up",
    ]


def _candidates(seed: int) -> Iterator[IPv4Network]:
    for pool in POOLS:
        count = 1 << (PREFIX - pool.prefixlen)
        first = seed % count
        yield from islice(pool.subnets(new_prefix=PREFIX), first, None)
        yield from islice(pool.subnets(new_prefix=PREFIX), first)
