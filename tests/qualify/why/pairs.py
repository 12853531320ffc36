"""Pairs of servers that differ by one known cause, and what must be named as the reason of their difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchkit.comparison.components import Component
from benchkit.comparison.diagnoses.diagnosis import Cause
from tests.support.paths import ROOT

SERVERS = ROOT / "tests" / "support" / "servers"
Named = Callable[[list[Cause], list[Component]], bool]
"""Test of the causes of a pair and the parts of its CPU time, the largest first."""


@dataclass(frozen=True)
class CausePair:
    """Two stacks, `base` and `other`, that differ by one cause."""

    name: str
    base: Mapping[str, Any]
    other: Mapping[str, Any]
    is_named: Named = field(repr=False)
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the scenario."""

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario that compares them."""
        return {
            "factors": {"stack": ["base", "other"]},
            "stacks": {"base": self.base, "other": self.other},
            "baseline": {"stack": "base"},
            "design": "sliced",
            "roles": {"sut": {"quota": 0.4}, "load": {}},
            "load": {"tool": "h2load", "connections": 16, "duration_s": 2},
            **self.fields,
        }


def cause(*codes: str) -> Named:
    """Return the test that the first cause has one of these codes."""
    return lambda causes, _: bool(causes) and causes[0].code in codes


def part(*names: str) -> Named:
    """Return the test that no cause is named, and the largest part of the CPU time is one of these."""
    return lambda causes, parts: not causes and bool(parts) and parts[0].component in names


def one(backend: str, **options: object) -> dict[str, Any]:
    """Return a stack of one service."""
    return {"entry": "app", "services": {"app": {"backend": backend, "listen": 8080, **options}}}


def go(cause: str) -> dict[str, Any]:
    """Return the server of `tests/support/servers/causes`."""
    build = {"run": ["go", "build", "-o", "{out}/server", "."], "from": str(SERVERS / "causes")}
    return one("command", run=f"./server {cause} {{port}}", build=build)


def workers(mode: str) -> dict[str, Any]:
    """Return the server with two workers."""
    return one("command", run=f"python3 workers.py {{port}} {mode}", files=[str(SERVERS / "workers.py")])


def behind_nginx(**options: object) -> dict[str, Any]:
    """Return the kit's Go server behind nginx."""
    return {
        "entry": "front",
        "services": {
            "app": {"backend": "nethttp", "listen": "127.0.0.1:9000"},
            "front": {"backend": "nginx", "listen": 8080, "upstream": "app", **options},
        },
    }


PROFILED = {"profile": {"blocks": 3, "duration_s": 3}}
FEW = {"load": {"tool": "wrk", "connections": 4, "duration_s": 2}}
"""A load that leaves the CPU idle where requests wait."""
DIFFERS = [{"what": ["header_bytes", "body_bytes", "body"], "why": "one of them compresses"}]

PAIRS = (
    CausePair("a loop in user space", go("none"), go("loop"), part("handler"), PROFILED),
    CausePair("ten system calls more", go("none"), go("calls"), part("handler"), PROFILED),
    CausePair("the answer in two pieces", go("none"), go("pieces"), part("read/write"), PROFILED),
    CausePair("64 KiB allocated", go("none"), go("allocate"), part("allocation", "gc"), PROFILED),
    CausePair("a lock held", one("nethttp"), one("nethttp", inject_fault=["lock:0.2ms"]), cause("lock-waits"), FEW),
    CausePair("a wait of 1 ms", go("none"), go("wait"), cause("waits"), FEW),
    CausePair(
        "gzip",
        one("nginx", file_bytes=16384),
        one("nginx", file_bytes=16384, gzip=True),
        cause("answer-sizes"),
        {
            "load": {"tool": "wrk", "connections": 16, "duration_s": 2, "headers": {"Accept-Encoding": "gzip"}},
            "differs": DIFFERS,
        },
    ),
    CausePair("an access log on a disk", go("none"), go("log"), cause("file-writes")),
    CausePair(
        "an upstream without keep-alive",
        behind_nginx(),
        behind_nginx(upstream_keepalive=0),
        cause("upstream-connections"),
    ),
    CausePair("a cache that answers", behind_nginx(), behind_nginx(cache_s=60), cause("cached-answers")),
    CausePair("Nagle with delayed acknowledgements", go("pieces"), go("nagle"), cause("nagle"), FEW),
    CausePair("one of two workers has all connections", workers("even"), workers("uneven"), cause("one-busy")),
)
