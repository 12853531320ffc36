"""The load of a comparison of servers, adapted to them: by short trials before it, and by its first block."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.services.external import EXTERNAL

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.models.thresholds import Thresholds
    from benchkit.models.trial import TrialRecord
    from benchkit.run.loop import FirstBlockReview
    from benchkit.run.recorder import RunOutcome
    from benchkit.scenario.experiment import Experiment
    from benchkit.scenario.versus import ServerComparison
    from benchkit.stats.samples import Exclusion
    from benchkit.store.journal import FailureCause
    from benchkit.store.run_folder import RunFolder
    from benchkit.store.store import Store

    MakeFields = Callable[[ServerComparison], Mapping[str, object]]
    """Function that makes the fields of a scenario."""

    Compare = Callable[[Mapping[str, object], FirstBlockReview | None], RunOutcome]
    """Function that runs the fields of a scenario, with a review of its first block."""

QUOTAS = (0.5, 0.25)
"""CPUs of a server to try, one after the other, while the load tool is the limit."""

ADAPTED = ("tool", "connections", "keepalive", "is_sliced", "quota", "slice_s")
"""Fields of a comparison that are adapted to its servers."""

RECONNECTING_TOOL = "wrk"
"""Load tool that opens a new connection where a server says that it closes one."""

CONNECTING_TOOL = "hey"
"""Load tool that closes each connection itself, and counts no error where the server did."""

TOOL: FailureCause = "load-tool"
"""Cause of the failure of a trial whose server another load tool can measure."""

MOST_CONNECTIONS = 512
"""Connections beyond which no idle server gets more."""

LEAST_LEFT = 0.01
"""Share of the CPU that other programs leave at least."""

LONG_SLICE_S = 1.0
"""Length of slices beyond which a slow server gets fewer connections: a minute would have too few of them."""

FEWEST_CONNECTIONS = 8
"""Connections that a slow server gets at least: several for each of its workers."""

SLOWED = 0.8
"""Rate relative to that with more connections below which a server needs them: short trials differ by less."""

GENERATOR_RESERVE = 0.034
"""Share of its CPU by which the load tool has to be below its limit in a short trial. Twice the standard deviation of
that share between the blocks of a run, 0.017 in nine cells of the recorded runs in which it was above 0.4."""

LATEST_RESTART = 0.5
"""Share of the time of a comparison after which it does not begin again: what is left has few blocks."""

LOST_CONNECTIONS = frozenset({"accept-overflow", "missing-connections"})
"""Checks that find connections which servers did not accept, or did not keep."""


def experiment_of(fields: Mapping[str, object], settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment of options of the command line, with `--set` settings. Raises InputError."""
    from benchkit.scenario.cells import require_secrets
    from benchkit.scenario.read import experiment_of_options
    from benchkit.scenario.versus import options_of

    experiment = experiment_of_options(fields, options_of(fields), settings)
    require_secrets(experiment)
    return experiment


def calibration_of(fields: Mapping[str, object], settings: Sequence[str] = ()) -> Experiment:
    """Return the same comparison as one short trial of each server. Raises InputError."""
    from benchkit.scenario.versus import calibration_fields

    return experiment_of(calibration_fields(experiment_of(fields, settings).document.data))


def fixed_fields(tool: str | None, connections: int | None) -> frozenset[str]:
    """Return the fields of a comparison that the user has given, so that they are not adapted."""
    given = {"tool": tool, "connections": connections}
    return frozenset(name for name, value in given.items() if value is not None)


def search_path(inventory: Path | None) -> str | None:
    """Return the PATH of this shell for servers that start on this machine: in a lab, which no inventory names."""
    import os

    return None if inventory is not None else os.environ.get("PATH", os.defpath)


def is_measured_as_it_is(fields: Mapping[str, object]) -> bool:
    """Return True where a quota would change a result that has no other to be compared with.

    That is so for a server alone, and beside servers that are there already, which no quota holds.
    """
    stacks = fields["stacks"]
    if not isinstance(stacks, Mapping):
        raise TypeError("the stacks of a scenario are a mapping")
    backends = [service["backend"] for stack in stacks.values() for service in stack["services"].values()]
    factors = fields["factors"]
    is_alone = isinstance(factors, Mapping) and all(len(levels) == 1 for levels in factors.values())
    return is_alone or EXTERNAL in backends


@dataclass(frozen=True)
class Observed:
    """One block of a comparison, as far as the comparison is adapted to it."""

    records: Sequence[TrialRecord]
    checks: frozenset[str]
    """Checks that invalidate its trials."""
    thresholds: Thresholds
    shortest_queue: int | None = None
    """Connections that may wait at the server with the shortest listen queue; None: unknown."""
    foreign_share: float = 0.0
    """Largest share of its CPUs that other programs used in a trial."""
    rate_before: float | None = None
    """Requests per second of the slowest server with more connections; None: they are as many as before."""
    is_closing: bool = False
    """True where a server closes its connections, and the load tool opens no new ones."""

    @property
    def generator_share(self) -> float:
        """Largest share of the CPU available to a generator that it used, whatever else was busy on its host."""
        from benchkit.judge.cpu_time import capacity, generator_cores

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
        from benchkit.judge.sliced_blocks import neighbour_inequality, neighbour_share

        return neighbour_inequality(share for record in self.records if (share := neighbour_share(record)) is not None)

    @property
    def server_share(self) -> float | None:
        """Share of the CPU that others left to it that the server with the least used; None: unknown."""
        from benchkit.judge.cpu_time import capacity

        shares = [
            max(
                (each.cpu_s or 0.0) / record.window_s / capacity(len(each.cpus), each.parallelism, each.quota)
                for each in record.services
            )
            for record in self.records
            if record.services and all(each.cpu_s is not None and each.cpus for each in record.services)
        ]
        return min(shares) / max(LEAST_LEFT, 1.0 - self.foreign_share) if shares else None

    @property
    def is_idle(self) -> bool:
        """True where a server waits for most of the time, as for acknowledgements that its clients delay by 40 ms."""
        share, is_tool_the_limit = self.server_share, self.generator_share >= self.thresholds.generator_cpu
        return share is not None and share < self.thresholds.server_cpu / 2 and not is_tool_the_limit

    @property
    def is_slowed(self) -> bool:
        """True where a server serves fewer requests than with more connections."""
        rate, before = self.slowest_rate, self.rate_before
        return rate is not None and before is not None and rate < SLOWED * before


@dataclass(frozen=True)
class Adaptation:
    """A comparison with another load or design, and the reason as a sentence."""

    comparison: ServerComparison
    reason: str


def adapt(comparison: ServerComparison, observed: Observed, *, reserve: float = 0.0) -> Adaptation | None:
    """Return the comparison with the next change that a block of it asks for; None: it can go on as it is.

    `reserve` is the share of its CPU by which the load tool has to be below its limit.
    """
    return next(_adaptations(comparison, observed, reserve), None)


def _adaptations(comparison: ServerComparison, observed: Observed, reserve: float) -> Iterator[Adaptation]:
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
        reason = "A server works while it has no load, so that one server runs at a time (--design blocks)."
        yield Adaptation(replace(comparison, is_sliced=False), reason)
    quota = next((each for each in QUOTAS if each < (comparison.quota or 1.0)), None)
    if (
        quota is not None
        and "quota" not in comparison.fixed
        and observed.generator_share >= observed.thresholds.generator_cpu - reserve
    ):
        reason = f"A server gets {quota:g} CPUs, so that the load tool is not the limit."
        yield Adaptation(replace(comparison, quota=quota), reason)


def _load_for_slow_servers(comparison: ServerComparison, observed: Observed) -> Iterator[Adaptation]:
    """Yield a load of fewer connections, where a busy server answers so slowly that its slices would be long."""
    from benchkit.scenario.versus_times import slice_for

    rate, fewer = observed.slowest_rate, comparison.connections
    while (
        rate is not None
        and fewer // 2 >= FEWEST_CONNECTIONS
        and slice_for(rate, fewer, observed.thresholds.slice_answers) > LONG_SLICE_S
    ):
        fewer //= 2
    if fewer < comparison.connections:
        reason = f"A server answers {rate:,.0f} requests a second, so that {fewer} connections are used."
        yield Adaptation(replace(comparison, connections=fewer), reason)


def _load_for_idle_servers(comparison: ServerComparison, share: float, queue: int) -> Iterator[Adaptation]:
    """Yield a load that is more work for a server that used this share of its CPU, and has a listen queue this long."""
    from benchkit.scenario.versus_times import DEFAULT_CONNECTIONS

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


def calibrate(
    make_fields: MakeFields,
    comparison: ServerComparison,
    inventory: Inventory,
    store: Store,
    *,
    settings: Sequence[str] = (),
    quiet: bool,
) -> ServerComparison:
    """Return the comparison with a load that suits its servers.

    Its load tool is not the limit, and opens no more connections than the servers accept, but as many as keep them
    busy; its slices are long enough for the slowest server. Runs a short trial of each server, again while there is
    something to adapt, and takes their time off the budget. Raises HostError with the cause if a server does not run.
    """
    from benchkit.cli.console import say
    from benchkit.cli.progress import SilentProgress
    from benchkit.cli.run import run_experiment
    from benchkit.errors import HostError, InputError
    from benchkit.scenario.versus_times import slice_for

    began_s = time.monotonic()
    if is_measured_as_it_is(make_fields(comparison)):
        comparison = replace(comparison, fixed=comparison.fixed | {"quota"})
    adaptation: Adaptation | None = None
    observed: Observed | None = None
    while True:
        tried = comparison if adaptation is None else adaptation.comparison
        try:
            experiment = calibration_of(make_fields(tried), settings)
            outcome = run_experiment(
                experiment, inventory, store, seed=None, quiet=True, show=lambda _run: SilentProgress(), resumable=False
            )
        except (HostError, InputError):
            if tried.tool == comparison.tool:
                raise
            comparison, adaptation = replace(comparison, fixed=comparison.fixed | {"tool"}), None  # no such tool here
            continue
        _require_running(outcome)
        if adaptation is not None and not quiet:
            say(adaptation.reason)
        before = observed.slowest_rate if observed is not None and tried.connections < comparison.connections else None
        comparison, observed = tried, _observe(outcome, store, experiment.scenario.thresholds)
        observed = replace(observed, rate_before=before)
        adaptation = adapt(comparison, observed, reserve=GENERATOR_RESERVE)
        if adaptation is None:
            break
    _require_running(outcome, with_tool=True)
    if not quiet and observed.generator_share >= observed.thresholds.generator_cpu:
        say("The load tool stays the limit: rates are its own. More load hosts or --tool wrk may help.")
    rate = observed.slowest_rate
    slice_s = (
        comparison.slice_s
        if rate is None
        else slice_for(rate, comparison.connections, observed.thresholds.slice_answers)
    )
    return replace(comparison, slice_s=slice_s, spent_s=time.monotonic() - began_s)


class _FirstBlock:
    """Review of the first block of a comparison, which keeps what there is to adapt."""

    def __init__(self, comparison: ServerComparison) -> None:
        """Take the comparison that begins now."""
        self._comparison = comparison
        self._began_s = time.monotonic()
        self.adaptation: Adaptation | None = None

    @property
    def spent_s(self) -> float:
        """Part of the budget that is spent, up to now."""
        return self._comparison.spent_s + time.monotonic() - self._began_s

    def __call__(self, run: RunFolder, excluded: Sequence[Exclusion]) -> str | None:
        """Return why the comparison begins again; None where it goes on."""
        from benchkit.models.thresholds import thresholds_of

        if self.spent_s <= LATEST_RESTART * self._comparison.budget_s:
            checks = frozenset(check for each in excluded for check in each.checks)
            observed = Observed(tuple(run.records()), checks, thresholds_of(run.manifest()))
            self.adaptation = adapt(self._comparison, observed)
        return None if self.adaptation is None else "its load is adapted to its first block"


def compare_adapted(
    make_fields: MakeFields, comparison: ServerComparison, compare: Compare, *, quiet: bool
) -> RunOutcome:
    """Run a comparison, and begin again where its first block asks for another load or design.

    The time of the first blocks is taken off the budget. Each of them changes something that is not changed back, and
    nothing begins again late: so there are few.
    """
    from benchkit.cli.console import say

    while True:
        first_block = _FirstBlock(comparison)
        outcome = compare(make_fields(comparison), first_block)
        if first_block.adaptation is None or outcome.status == "interrupted":
            return outcome
        comparison = replace(first_block.adaptation.comparison, spent_s=first_block.spent_s)
        if not quiet:
            say(f"{first_block.adaptation.reason} The comparison begins again.")


def _require_running(outcome: RunOutcome, *, with_tool: bool = False) -> None:
    """Raise HostError with the reasons of the servers that failed; `with_tool`: also where another load tool may do."""
    from benchkit.comparison.cell_labels import cell_views
    from benchkit.errors import HostError
    from benchkit.store.progress import read_progress

    views = cell_views(outcome.run.manifest())
    names, placed = {view.cell_id: view.label for view in views}, read_progress(outcome.run.history()).positions
    failures = {
        names[placed[trial].cell_id]: why
        for trial, why in outcome.failures.items()
        if with_tool or outcome.causes.get(trial) != TOOL
    }
    failures |= {view.label: view.unsupported for view in views if view.unsupported}
    if failures:
        raise HostError("a server does not run", why="\n".join(f"{name}: {why}" for name, why in failures.items()))


def _observe(outcome: RunOutcome, store: Store, thresholds: Thresholds) -> Observed:
    """Return what a run of one block shows of its servers."""
    from benchkit.comparison.run_data import read_run_data
    from benchkit.store.tables import load_columns

    is_closing = TOOL in outcome.causes.values()
    records = tuple(outcome.run.records())
    if not records:
        return Observed(records, frozenset(), thresholds, is_closing=is_closing)
    data = read_run_data(store, outcome.run)
    foreign = data.trials["foreign_share"].max()
    telemetry = load_columns("telemetry", ["metric", "value"], store=store, run_id=outcome.run.run_id)
    limits = telemetry.loc[telemetry["metric"] == "accept_queue_limit", "value"]
    return Observed(
        records=records,
        checks=frozenset(check for each in data.exclusions for check in each.checks),
        thresholds=thresholds,
        foreign_share=0.0 if math.isnan(foreign) else float(foreign),
        shortest_queue=None if limits.empty else int(limits.min()),
        is_closing=is_closing,
    )


def _rate(record: TrialRecord) -> float:
    """Return the requests per second of all generators of a trial."""
    return sum(each.result.rps or 0.0 for each in record.generators if each.result is not None)
