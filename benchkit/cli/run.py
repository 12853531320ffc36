"""`benchkit run` and `benchkit demo`: from a scenario to stored results and their report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli import options
from benchkit.errors import ExitCode
from benchkit.models import Scale

if TYPE_CHECKING:
    from benchkit.cli.display import RunDisplay
    from benchkit.hosts.inventory import Inventory
    from benchkit.run.recorder import RunOutcome
    from benchkit.run.run import RunOptions
    from benchkit.scenario.experiment import Experiment
    from benchkit.store.run_folder import RunFolder
    from benchkit.store.store import Store


def run(
    scenario: Annotated[str | None, typer.Argument(metavar="SCENARIO", help=options.SCENARIO_HELP)] = None,
    *,
    inventory: options.InventoryFile = None,
    lab: options.LabName = None,
    scale: options.OwnScale = None,
    settings: options.Set = None,
    tag: options.Tags = None,
    seed: options.Seed = None,
    profile: options.Profile = False,
    trace: options.Trace = False,
    resume: options.Resume = None,
    retry_failed: options.RetryFailed = False,
    accept_changes: options.AcceptChanges = False,
    lease: options.Lease = None,
    reconnect: options.Reconnect = None,
    wait_idle: options.WaitIdle = None,
    store: options.StoreFolder = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Run a scenario on its hosts and store the results, or resume an interrupted run.

    A trial is retried after growing pauses if a host is lost, or lacks space, memory, processes or ports for a while.
    Any other failure is final: the run continues with the next trial, and skips the rest of a cell after three failures
    in a row.

    Resuming: --resume RUN (`latest` is the newest) runs what an interrupted run did not finish, and what it skipped. It
    keeps the trials that ended. A block that was interrupted in the middle is repeated whole. --retry-failed also
    repeats the trials that failed, each with its whole block, so that all cells of a block run under the same
    conditions. Scenario, hosts and the programs in use must be as they were (--accept-changes records the differences
    instead).
    """
    from benchkit.cli.choices import inventory_of, wait_idle_hosts
    from benchkit.cli.display import RunDisplay
    from benchkit.cli.run_summary import print_run_summary
    from benchkit.errors import InputError
    from benchkit.hosts.bootstrap import LEASE_S
    from benchkit.hosts.connections import RECONNECT_S
    from benchkit.run.run import ResumeOptions, RunOptions
    from benchkit.scenario.read import DEFAULT_SCALE, read_experiment
    from benchkit.store.store import Store, store_path

    tags = options.parse_tags(tag or [])
    stored_in = Store(store_path(store))
    requested = options.passes(settings, profile=profile, trace=trace)
    resumed = None
    if resume is not None:
        if requested or tags or seed is not None or scale is not None:
            raise InputError("--scale, --set, --tag, --seed, --profile and --trace cannot change a resumed run")
        resumed = ResumeOptions(stored_in.run(resume), accept_changes, retry_failed)
        seed = resumed.run.manifest().seed
        experiment = _resumed_experiment(resumed.run, scenario, retry_failed=retry_failed)
    elif scenario is None or retry_failed:
        raise typer.BadParameter("name a scenario, or a run with --resume", param_hint="SCENARIO")
    else:
        experiment = read_experiment(scenario, scale or DEFAULT_SCALE, requested)
    chosen = inventory_of(inventory, lab, quiet=quiet)
    wait_idle_hosts(chosen, wait_idle, experiment.scenario.thresholds.foreign_cores, quiet=quiet)
    run_options = RunOptions(
        seed=seed,
        tags=tags,
        resume=resumed,
        lease_s=LEASE_S if lease is None else lease,
        reconnect_s=RECONNECT_S if reconnect is None else reconnect,
        names_other_programs=not quiet,
    )
    outcome = run_interruptibly(experiment, chosen, stored_in, RunDisplay(quiet=quiet), run_options)
    print_run_summary(outcome, stored_in, quiet=quiet, json=json, lab=chosen.lab)
    if outcome.failures or outcome.not_restored:
        raise typer.Exit(ExitCode.FAILED)


def _resumed_experiment(folder: RunFolder, scenario: str | None, *, retry_failed: bool) -> Experiment:
    """Return the experiment of a stored run, read from `scenario` if that is given. Raises InputError."""
    from benchkit.errors import InputError
    from benchkit.run.resume import require_unfinished
    from benchkit.scenario.read import SCALES, read_experiment, stored_experiment

    require_unfinished(folder, retry_failed=retry_failed)
    manifest = folder.manifest()
    scale = next((each for each in SCALES if each == manifest.scale), None)
    if scale is None:
        raise InputError(f"no scale {manifest.scale!r}", where=manifest.run_id)
    if scenario is None:
        return stored_experiment(manifest.scenario, manifest.source, scale, manifest.settings)
    return read_experiment(scenario, scale, manifest.settings)


def demo(
    store: options.StoreFolder = None,
    scale: Annotated[Scale, typer.Option("--scale", hidden=True)] = "lab",
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Start a lab of its own, compare Go alone with Go behind nginx, write the report, and remove the lab."""
    from benchkit.cli.choices import own_lab
    from benchkit.cli.console import signals_interrupt
    from benchkit.cli.display import RunDisplay
    from benchkit.cli.run_summary import print_run_summary, write_run_report
    from benchkit.run.run import RunOptions
    from benchkit.scenario.read import read_experiment
    from benchkit.store.store import Store, store_path

    with signals_interrupt():  # around the start of the lab, so that a signal removes it
        experiment = read_experiment("quickstart", scale)
        stored_in = Store(store_path(store))
        with own_lab("demo", quiet=quiet) as lab:
            run_options = RunOptions(names_other_programs=not quiet)
            display = RunDisplay(quiet=quiet)
            outcome = run_interruptibly(experiment, lab.inventory(), stored_in, display, run_options)
        report = write_run_report(outcome, stored_in)
    print_run_summary(outcome, stored_in, quiet=quiet, json=json, lab=lab.name, report=report)
    if outcome.failures or outcome.not_restored:
        raise typer.Exit(ExitCode.FAILED)


def run_interruptibly(
    experiment: Experiment,
    inventory: Inventory,
    store: Store,
    display: RunDisplay,
    run_options: RunOptions,
    *,
    is_resumable: bool = True,
) -> RunOutcome:
    """Run an experiment on the hosts of an inventory; when interrupted, print what is restored.

    With `is_resumable` the message says how to resume the run.
    """
    from benchkit import units
    from benchkit.cli.console import Signals, say, signals_interrupt
    from benchkit.run.run import run_experiment

    signals = Signals()
    try:
        with signals_interrupt() as signals:
            return run_experiment(experiment, inventory, store, run_options, display.show)
    except KeyboardInterrupt as stopped:
        run_id = run_options.run_id if run_options.resume is None else run_options.resume.run.run_id
        notes = ", ".join(getattr(stopped, "__notes__", ()))
        if signals.abandoned:
            wait = units.duration(run_options.lease_s)
            how = f"the watchdogs on the hosts stop services and restore settings within {wait}"
        else:
            how = f"not everything was restored: {notes}" if notes else "services are stopped and hosts restored"
        resume = [f"`benchkit run --resume {run_id}` resumes it"] if is_resumable and store.has(run_id) else []
        say("; ".join((f"interrupted: {how}", *stopped.args, *resume)))
        raise
