"""Comparisons of servers whose load is adapted to them: by short trials before it, and by its first block."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchkit import units
from benchkit.cli.console import say
from benchkit.cli.display import RunDisplay
from benchkit.cli.run import run_interruptibly
from benchkit.cli.run_summary import ratio_text
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.runs.run_data import read_run_data
from benchkit.comparison.server_results import server_results
from benchkit.errors import HostError, InputError, raise_first
from benchkit.hosts.inventory import Inventory
from benchkit.models.thresholds import Thresholds
from benchkit.plan.adaptation import Adaptation, ObservedBlock, adapt
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import RunOptions
from benchkit.scenario.cells import missing_secrets
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import experiment_of_options
from benchkit.scenario.trial_order import profile_of_servers
from benchkit.scenario.versus import Fields, ServerComparison, calibration_fields, save_scenario, slice_for
from benchkit.services.external import EXTERNAL
from benchkit.store.journal import FailureCause, read_progress
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import load_columns

MakeFields = Callable[[ServerComparison], Fields]
"""Function that makes the scenario of a comparison."""

GENERATOR_RESERVE = 0.034
"""Share of its CPU that the load tool must have in reserve below its limit in a short trial. It is two standard
deviations of its CPU share between blocks. One is 0.017 in the nine cells of the recorded runs with a share above 0.4.
"""

TOOL: FailureCause = "load-tool"
"""Cause of a failure with this load tool: the trial may succeed with another tool."""


def experiment_of(fields: Mapping[str, object], settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a scenario made of options, with `--set` settings. Raises InputError."""
    experiment = experiment_of_options(fields, settings)
    raise_first(missing_secrets(experiment))
    return experiment


def calibration_of(fields: Mapping[str, object], settings: Sequence[str] = ()) -> Experiment:
    """Return the same comparison as one short trial of each server. Raises InputError."""
    return experiment_of(calibration_fields(experiment_of(fields, settings).document.data))


def fixed_fields(tool: str | None, connections: int | None) -> frozenset[str]:
    """Return the fields of a comparison that the user has given, so that they are not adapted."""
    given = {"tool": tool, "connections": connections}
    return frozenset(name for name, value in given.items() if value is not None)


def calibrate(
    make_fields: MakeFields,
    comparison: ServerComparison,
    inventory: Inventory,
    store: Store,
    *,
    settings: Sequence[str] = (),
    why: bool = False,
    quiet: bool,
) -> ServerComparison:
    """Return the comparison with a load that suits its servers; with `why`, also with a profile pass of them.

    Its load tool is not the limit. It opens as many connections as keep the servers busy, and no more than they accept.
    Its slices are long enough for the slowest server. Short trials of the servers, whose time is taken off the budget,
    are repeated until nothing is left to adapt. Raises HostError with the cause if a server does not run.
    """
    began_s = time.monotonic()
    if _is_measured_as_it_is(make_fields(comparison)):
        comparison = replace(comparison, fixed=comparison.fixed | {"quota"})
    adaptation: Adaptation | None = None
    observed: ObservedBlock | None = None
    while True:
        tried = comparison if adaptation is None else adaptation.comparison
        try:
            experiment = calibration_of(make_fields(tried), settings)
            outcome = run_interruptibly(
                experiment, inventory, store, RunDisplay(quiet=True), RunOptions(), is_resumable=False
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
        say("The load tool stays the limit, so rates are its own. More load hosts or --tool wrk may help.")
    slice_s = comparison.slice_s
    if (rate := observed.slowest_rate) is not None:
        slice_s = slice_for(rate, comparison.connections, observed.thresholds.slice_answers)
    servers = len(outcome.run.manifest().cells)
    profile = profile_of_servers(servers, comparison.budget_s) if why else None
    return replace(comparison, slice_s=slice_s, spent_s=time.monotonic() - began_s, profile=profile)


def compare_servers(
    make_fields: MakeFields,
    comparison: ServerComparison,
    inventory: Inventory,
    store: Store,
    *,
    settings: Sequence[str],
    tags: Mapping[str, str],
    save: Path | None,
    quiet: bool,
) -> RunOutcome:
    """Run a comparison, and begin again where its first block asks for another load or design.

    The time of the first blocks is taken off the budget. It begins again a few times at most: no adaptation is undone,
    and none is made late in the budget. `save` is a file for the scenario that runs. Returns the outcome of an
    interrupted comparison, too; raises KeyboardInterrupt where no trial of it ended.
    """

    def ratios(folder: RunFolder) -> str:
        results = server_results(read_run_data(store, folder))
        shown = [f"{each.label} {ratio_text(each.ratio) or 'no ratio yet'}" for each in results if each.ratio]
        return ", ".join(shown or [units.requests_per_s(each.rps) for each in results])

    while True:
        began_s = time.monotonic()
        experiment = experiment_of(make_fields(comparison), settings)
        if save is not None:
            save_scenario(experiment.document.data, save)
        run_options = RunOptions(tags=tags, names_other_programs=not quiet, adapts=comparison)
        display = RunDisplay(quiet=quiet, after_block=ratios)
        try:
            outcome = run_interruptibly(experiment, inventory, store, display, run_options, is_resumable=False)
        except KeyboardInterrupt:
            if display.folder is None or read_run_data(store, display.folder).trials.empty:
                raise
            return RunOutcome(display.folder, "interrupted")
        adaptation = outcome.adaptation
        if adaptation is None or outcome.status == "interrupted":
            return outcome
        spent_s = comparison.spent_s + time.monotonic() - began_s
        comparison = replace(adaptation.comparison, spent_s=spent_s)
        if not quiet:
            say(f"{adaptation.reason} The comparison begins again.")


def _is_measured_as_it_is(fields: Fields) -> bool:
    """Return True where servers get no CPU quota: it would change the result of a server alone.

    It cannot limit external servers, so that the servers beside them get none either.
    """
    backends = [service["backend"] for stack in fields["stacks"].values() for service in stack["services"].values()]
    is_alone = all(len(levels) == 1 for levels in fields["factors"].values())
    return is_alone or EXTERNAL in backends


def _require_running(outcome: RunOutcome, *, with_tool: bool = False) -> None:
    """Raise HostError with the reasons of failed servers; failures by the load tool count only `with_tool`."""
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


def _observe(outcome: RunOutcome, store: Store, thresholds: Thresholds) -> ObservedBlock:
    """Return the observations of a run of one block, from which the load is adapted."""
    is_closing = TOOL in outcome.causes.values()
    records = tuple(outcome.run.records())
    if not records:
        return ObservedBlock(records, frozenset(), thresholds, is_closing=is_closing)
    data = read_run_data(store, outcome.run)
    foreign = data.trials["foreign_share"].max()
    telemetry = load_columns("telemetry", ["metric", "value"], store=store, run_id=outcome.run.run_id)
    limits = telemetry.loc[telemetry["metric"] == "accept_queue_limit", "value"]
    return ObservedBlock(
        records=records,
        checks=frozenset(check for each in data.exclusions for check in each.checks),
        thresholds=thresholds,
        foreign_share=0.0 if math.isnan(foreign) else float(foreign),
        shortest_queue=None if limits.empty else int(limits.min()),
        is_closing=is_closing,
    )
