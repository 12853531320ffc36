"""Adaptation of a comparison to its servers: the next change of load or design that one block calls for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchkit import units
from benchkit.judge.cpu_time import capacity, generator_cores
from benchkit.judge.sliced_blocks import neighbour_inequality, neighbour_share
from benchkit.judge.usage import STARVED
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import TrialRecord
from benchkit.scenario.versus import DEFAULT_CONNECTIONS, ServerComparison, slice_for

QUOTAS = (0.5, 0.25)
"""CPUs of a server to try, one after the other, while the load tool is the limit."""

RECONNECTING_TOOL = "wrk"
"""Load tool that opens a new connection where a server says that it closes one."""

CONNECTING_TOOL = "hey"
"""Load tool that closes each connection itself, and counts no error where the server closed it."""

MOST_CONNECTIONS = 512
"""Connections from which on an idle server's are no longer doubled."""

LEAST_LEFT = 0.01
"""Least share of the CPU that other programs are assumed to leave."""

TOO_LONG_SLICE_S, LONG_SLICE_S = 2.0, 1.0
"""Length of slices above which a slow server gets fewer connections, as a minute would have too few slices. The second
is the most that its slices then have."""

FEWEST_CONNECTIONS = 8
"""Connections that a slow server gets at least: several for each of its workers."""

SLOWED = 0.8
"""Rate relative to the one with more connections, below which a server needs more: short trials differ by less."""

LATEST_RESTART = 0.5
"""Share of a comparison's time after which it does not restart: the rest has room for few blocks."""

LOST_CONNECTIONS = frozenset({"accept-overflow", "missing-connections"})
"""Checks that find connections which servers did not accept, or did not keep."""


@dataclass(frozen=True)
class ObservedBlock:
    """The load of a block of a comparison, as measured."""

    records: Sequence[TrialRecord]
    checks: frozenset[str]
    """Checks that invalidate its trials."""
    thresholds: Thresholds
    shortest_queue: int | None = None
    """Connections that may wait at the server with the shortest listen queue; None: unknown."""
    foreign_share: float = 0.0
    """Largest share of its CPUs that other programs used in a trial."""
    rate_before: float | None = None
    """Requests per second of the slowest server before its connections were reduced; None: they were not."""
    is_closing: bool = False
    """True where a server closes its connections, and the load tool opens no new ones."""

    @property
    def generator_share(self) -> float:
        """Largest share of its available CPU that a generator used."""
        generators = (generator for record in self.records for generator in record.generators)
        return max(
            (generator_cores(each) / capacity(len(each.cpus), each.threads, None) for each in generators), default=0.0
        )

    @property
    def slowest_rate(self) -> float | None:
        """Requests per second of the slowest server that answered; None where none did."""
        return min((rate for record in self.records if (rate := _rate(record)) > 0), default=None)

    @property
    def neighbour_inequality(self) -> float:
        """Difference between the CPU time that servers without load took from one cell and from another."""
        return neighbour_inequality(share for record in self.records if (share := neighbour_share(record)) is not None)

    @property
    def server_share(self) -> float | None:
        """Smallest share that a server used of the CPU that other programs left; None: unknown."""
        share = self.whole_server_share
        return None if share is None else share / max(LEAST_LEFT, 1.0 - self.foreign_share)

    @property
    def whole_server_share(self) -> float | None:
        """Smallest share that a server used of its CPU; None: unknown."""
        shares = [
            max(
                (each.cpu_s or 0.0) / record.window_s / capacity(len(each.cpus), each.parallelism, each.quota)
                for each in record.services
            )
            for record in self.records
            if record.services and all(each.cpu_s is not None and each.cpus for each in record.services)
        ]
        return min(shares) if shares else None

    @property
    def is_idle(self) -> bool:
        """True where a server waits for most of the time, as for acknowledgements that its clients delay by 40 ms."""
        share, whole = self.server_share, self.whole_server_share
        if share is None or whole is None or self.generator_share >= self.thresholds.generator_cpu:
            return False
        return share < self.thresholds.server_cpu / 2 or whole < STARVED

    @property
    def is_slowed(self) -> bool:
        """True where a server that is not busy serves fewer requests than with more connections."""
        rate, before, share = self.slowest_rate, self.rate_before, self.whole_server_share
        if rate is None or before is None or share is None:
            return False
        return rate < SLOWED * before and share < self.thresholds.server_cpu


@dataclass(frozen=True)
class Adaptation:
    """A changed comparison, and the reason as a sentence."""

    comparison: ServerComparison
    reason: str


def adapt(comparison: ServerComparison, observed: ObservedBlock, *, reserve: float = 0.0) -> Adaptation | None:
    """Return the comparison with the next change that its block calls for; None: no change is needed.

    `reserve` is the share of its CPU by which the load tool has to be below its limit.
    """
    return next(_adaptations(comparison, observed, reserve), None)


def adapt_to_first_block(comparison: ServerComparison, observed: ObservedBlock, *, spent_s: float) -> Adaptation | None:
    """Return the change that the first block calls for; None where none is needed, or it is too late."""
    is_late = comparison.spent_s + spent_s > LATEST_RESTART * comparison.budget_s
    return None if is_late else adapt(comparison, observed)


def _adaptations(comparison: ServerComparison, observed: ObservedBlock, reserve: float) -> Iterator[Adaptation]:
    connections, queue = comparison.connections, observed.shortest_queue
    loses = not observed.checks.isdisjoint(LOST_CONNECTIONS)
    is_queue_short = queue is not None and 0 < queue < connections
    if loses and is_queue_short and queue is not None and "connections" not in comparison.fixed:
        reason = f"A server has a listen queue of {queue}, so that {queue} connections are used and not {connections}."
        yield Adaptation(replace(comparison, connections=queue), reason)
    if not observed.is_idle and not observed.is_slowed and "connections" not in comparison.fixed:
        yield from _load_for_slow_servers(comparison, observed)
    if "tool" not in comparison.fixed and comparison.keepalive:
        if observed.is_closing and comparison.tool != RECONNECTING_TOOL:
            reason = f"A server closes connections, so that the load tool is {RECONNECTING_TOOL}, which opens new ones."
            yield Adaptation(replace(comparison, tool=RECONNECTING_TOOL), reason)
        if "missing-connections" in observed.checks and queue is not None and not is_queue_short:
            yield _with_new_connections(comparison, "A server closes connections without saying so")
    if (observed.is_idle or observed.is_slowed) and queue is not None:
        yield from _load_for_idle_servers(comparison, observed.server_share or 0.0, queue)
    is_uneven = observed.neighbour_inequality > observed.thresholds.neighbour_cpu
    if is_uneven and comparison.is_sliced and comparison.design is None:
        reason = (
            f"Servers without load used {units.share(observed.neighbour_inequality)} more of one server's CPU time than of "
            "another's, so that one server runs at a time (--design blocks)."
        )
        yield Adaptation(replace(comparison, is_sliced=False), reason)
    quota = next((each for each in QUOTAS if each < (comparison.quota or 1.0)), None)
    if (
        quota is not None
        and "quota" not in comparison.fixed
        and observed.generator_share >= observed.thresholds.generator_cpu - reserve
    ):
        reason = f"A server gets {quota:g} CPUs, so that the load tool is not the limit."
        yield Adaptation(replace(comparison, quota=quota), reason)


def _load_for_slow_servers(comparison: ServerComparison, observed: ObservedBlock) -> Iterator[Adaptation]:
    rate, fewer, answers = observed.slowest_rate, comparison.connections, observed.thresholds.slice_answers
    if rate is None or slice_for(rate, fewer, answers) <= TOO_LONG_SLICE_S:
        return
    while fewer // 2 >= FEWEST_CONNECTIONS and slice_for(rate, fewer, answers) > LONG_SLICE_S:
        fewer //= 2
    if fewer < comparison.connections:
        reason = f"A server answers {rate:,.0f} requests a second, so that {fewer} connections are used."
        yield Adaptation(replace(comparison, connections=fewer), reason)


def _load_for_idle_servers(comparison: ServerComparison, share: float, queue: int) -> Iterator[Adaptation]:
    connections = comparison.connections
    more = connections
    while more < MOST_CONNECTIONS and more * share / connections < 1:
        more *= 2
    more = min(more, queue)
    is_few = connections == queue or connections < DEFAULT_CONNECTIONS
    if "tool" not in comparison.fixed and is_few and connections <= DEFAULT_CONNECTIONS and comparison.keepalive:
        yield _with_new_connections(comparison, f"A server idles with {connections} kept connections")
    if "connections" not in comparison.fixed and connections <= DEFAULT_CONNECTIONS and connections < more:
        reason = f"A server idles with {connections} connections, so that {more} are used."
        fixed = comparison.fixed | {"connections"} if connections < DEFAULT_CONNECTIONS else comparison.fixed
        yield Adaptation(replace(comparison, connections=more, fixed=fixed), reason)


def _with_new_connections(comparison: ServerComparison, why: str) -> Adaptation:
    changed = replace(comparison, tool=CONNECTING_TOOL, keepalive=False)
    return Adaptation(changed, f"{why}, so that each request has a new one, by {CONNECTING_TOOL}.")


def _rate(record: TrialRecord) -> float:
    return sum(each.result.rps or 0.0 for each in record.generators if each.result is not None)
