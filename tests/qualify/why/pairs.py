"""Pairs of servers that differ by one known cause, and what must be named as the reason of their difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchkit.comparison.components import LOGARITHMIC, Component, components_of, finest_parts
from benchkit.comparison.diagnoses.causes import Cause, causes_of
from benchkit.comparison.runs.run_data import RunData, read_run_data
from benchkit.comparison.why import is_shown
from benchkit.store.store import Store
from tests.faults.fault_lab import FaultLab
from tests.support.paths import ROOT

SERVERS = ROOT / "tests" / "support" / "servers"
QUOTA = 0.4
"""CPUs of the servers: few enough that the load tool is not the limit."""
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
            "roles": {"sut": {"quota": QUOTA}, "load": {}},
            "load": {"tool": "h2load", "connections": 16, "duration_s": 2},
            **self.fields,
        }


@dataclass(frozen=True)
class Explained:
    """The reasons that a run of a pair gives."""

    causes: list[Cause]
    parts: list[Component]
    adds_up: bool
    """True where the parts of each level add up to its sum."""

    @property
    def first(self) -> str:
        """Code of the first cause, else the largest part that is shown."""
        shown = [each.component for each in self.parts if is_shown(each)]
        return self.causes[0].code if self.causes else next(iter(shown), "none")


def run_pair(pair: CausePair, lab: FaultLab, blocks: int = 3) -> str:
    """Run a pair of servers, and return the id of the run."""
    (first, *_) = lab.run({**pair.scenario, "blocks": blocks})
    return first.run_id


def explain(store: Store, run_id: str) -> Explained:
    """Return the reasons of the difference in a stored run of a pair."""
    data = read_without_verdicts(store, run_id)
    components = components_of(data)
    return Explained(list(causes_of(data)), finest_parts(components)[:-1], _adds_up(components))


def read_without_verdicts(store: Store, run_id: str) -> RunData:
    """Return a run without exclusions: they are about busy neighbours, which other tests are, and not about causes."""
    data = read_run_data(store, store.run(run_id), without=())
    read = data.table
    assert read is not None
    return replace(data, table=lambda name: read(name).iloc[:0] if name == "verdicts" else read(name))


def _adds_up(components: Sequence[Component]) -> bool:
    levels = {each.level for each in components} - LOGARITHMIC
    for level in levels:
        *parts, total = (each for each in components if each.level == level)
        if not math.isclose(
            math.fsum(each.difference for each in parts), total.difference, rel_tol=1e-9, abs_tol=1e-15
        ):
            return False
    return bool(levels)


def cause(*codes: str) -> Named:
    """Return the test that the first cause has one of these codes."""
    return lambda causes, _: bool(causes) and causes[0].code in codes


def part(*names: str) -> Named:
    """Return the test that no cause is named, and the first part of the CPU time that is named is one of these."""
    return lambda causes, parts: not causes and next((p.component for p in parts if is_shown(p)), None) in names


def any_of(*tests: Named) -> Named:
    """Return the test that one of these holds."""
    return lambda causes, parts: any(test(causes, parts) for test in tests)


def one(backend: str, **options: object) -> dict[str, Any]:
    """Return a stack of one service."""
    return {"entry": "app", "services": {"app": {"backend": backend, "listen": 8080, **options}}}


def go(cause: str, **options: object) -> dict[str, Any]:
    """Return the server of `tests/support/servers/causes`."""
    build = {"run": ["go", "build", "-o", "{out}/server", "."], "from": str(SERVERS / "causes")}
    return one("command", run=f"./server {cause} {{port}}", build=build, **options)


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


PROFILED = {"profile": {"blocks": 3, "duration_s": 4, "frequency_hz": 999}}
FEW = {"load": {"tool": "wrk", "connections": 4, "duration_s": 2}}
"""A load that leaves the CPU idle where requests wait."""
TWO = {"load": {"tool": "wrk", "connections": 2, "duration_s": 2}, "roles": {"sut": {}, "load": {}}}
"""A load whose requests wait for the CPU for less than half a millisecond, even where neighbours double its 0.1 ms.

With a quota they may wait for as long as the pair adds.
"""
DIFFERS = [{"what": ["header_bytes", "body_bytes", "body"], "why": "one of them compresses"}]

EQUAL = CausePair(
    "equal servers", go("none"), go("none"), lambda causes, parts: not causes and not any(map(is_shown, parts))
)
PAIRS = (
    CausePair("a loop in user space", go("none"), go("loop"), part("handler"), PROFILED),
    CausePair("ten system calls more", go("none"), go("calls"), part("handler", "other"), PROFILED),
    CausePair("the answer in two pieces", go("none"), go("pieces"), part("read/write"), PROFILED),
    CausePair(
        "64 KiB allocated",
        go("none"),
        go("allocate"),
        any_of(part("allocation", "gc"), cause("garbage-collection")),
        PROFILED,
    ),
    CausePair("a lock held", one("nethttp"), one("nethttp", inject_fault=["lock:0.2ms"]), cause("lock-waits"), FEW),
    CausePair("a wait of 1 ms", go("none"), go("wait"), cause("waits"), TWO),
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
    # A queue of 40 ms looks the same where all requests are delayed: the next step of `waits` names both.
    CausePair("Nagle with delayed acknowledgements", go("pieces"), go("nagle"), cause("nagle", "waits"), FEW),
    CausePair(
        "a quota of a quarter",
        go("loop"),
        go("loop", role="slow"),  # a request that costs CPU time: without, the load tool is the limit, and no quota
        cause("quota-periods"),
        {"roles": {"sut": {"quota": QUOTA}, "slow": {"quota": QUOTA / 4}, "load": {}}},
    ),
    CausePair("one of two workers has all connections", workers("even"), workers("uneven"), cause("one-busy")),
)
