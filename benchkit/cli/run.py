"""`benchkit run` and `benchkit demo`: from a scenario to stored results and their report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli import options
from benchkit.errors import ExitCode
from benchkit.models import Scale

if TYPE_CHECKING:
    from benchkit.cli.progress import SilentProgress
    from benchkit.hosts.inventory import Inventory
    from benchkit.run.recorder import RunOutcome
    from benchkit.run.run import RunOptions
    from benchkit.scenario.experiment import Experiment
    from benchkit.store.store import Store


def run(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help=options.SCENARIO_HELP, autocompletion=options.complete_scenario),
    ] = None,
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

    A trial is retried after growing pauses where a host is lost, or is short of space, memory, processes or a port for
    the moment. Any other failure is final: the run continues with the next trial, and skips the rest of a cell after
    three failures in a row.

    Resuming: --resume RUN (`latest` is the newest) runs what an interrupted run did not finish, and what it skipped. It
    keeps the trials that ended. A block that was interrupted in the middle is repeated whole. --retry-failed also
    repeats the trials that failed, each with its whole block, so that all cells of a block run under the same
    conditions. Scenario, hosts and the programs in use must be as they were (--accept-changes records the differences
    instead).
    """
    from benchkit.cli.host_choice import inventory_of
    from benchkit.cli.live_matrix import progress_of_run
    from benchkit.cli.run_summary import print_run_summary
    from benchkit.errors import InputError
    from benchkit.hosts.bootstrap import LEASE_S
    from benchkit.hosts.connections import RECONNECT_S
    from benchkit.run.resume import require_unfinished
    from benchkit.run.run import ResumeOptions, RunOptions
    from benchkit.scenario.read import (
        DEFAULT_SCALE,
        SCALES,
        WITH_PROFILES,
        WITH_TRACES,
        read_experiment,
        stored_experiment,
    )
    from benchkit.store.store import Store, store_path

    tags = options.parse_tags(tag or [])
    stored_in = Store(store_path(store))
    requested = [*(settings or ()), *([WITH_PROFILES] if profile else []), *([WITH_TRACES] if trace else [])]
    run_folder = None if resume is None else stored_in.run(resume)
    if run_folder is not None:
        if requested or tags or seed is not None or scale is not None:
            raise InputError("--scale, --set, --tag, --seed, --profile and --trace cannot change a resumed run")
        require_unfinished(run_folder, retry_failed=retry_failed)
        manifest = run_folder.manifest()
        seed, requested = manifest.seed, list(manifest.settings)
        of_run = next((each for each in SCALES if each == manifest.scale), None)
        if of_run is None:
            raise InputError(f"no scale {manifest.scale!r}", where=manifest.run_id)
        if scenario is None:
            experiment = stored_experiment(manifest.scenario, manifest.source, of_run, requested)
        else:
            experiment = read_experiment(scenario, of_run, requested)
    elif retry_failed:
        raise typer.BadParameter(
            "name the run whose failed trials are repeated with --resume", param_hint="--retry-failed"
        )
    elif scenario is None:
        raise typer.BadParameter("name a scenario, or a run with --resume", param_hint="SCENARIO")
    else:
        experiment = read_experiment(scenario, scale or DEFAULT_SCALE, requested)
    chosen = inventory_of(inventory, lab, quiet=quiet)
    wait_idle_hosts(chosen, wait_idle, experiment.scenario.thresholds.foreign_cores, quiet=quiet)
    run_options = RunOptions(
        seed=seed,
        tags=tags,
        resume=None if run_folder is None else ResumeOptions(run_folder, accept_changes, retry_failed),
        lease_s=LEASE_S if lease is None else lease,
        reconnect_s=RECONNECT_S if reconnect is None else reconnect,
        names_other_programs=not quiet,
    )
    outcome = run_interruptibly(experiment, chosen, stored_in, progress_of_run(quiet=quiet), run_options)
    print_run_summary(outcome, stored_in, quiet=quiet, json=json, lab=chosen.lab)
    if outcome.failures or outcome.not_restored:
        raise typer.Exit(ExitCode.FAILED)


def demo(
    store: options.StoreFolder = None,
    scale: Annotated[Scale, typer.Option("--scale", hidden=True)] = "lab",
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Start a lab of its own, compare Go alone with Go behind nginx, write the report, and remove the lab."""
    from benchkit.cli.host_choice import own_lab
    from benchkit.cli.live_matrix import progress_of_run
    from benchkit.cli.run_summary import print_run_summary
    from benchkit.cli.signals import signals_interrupt
    from benchkit.run.run import RunOptions
    from benchkit.scenario.read import read_experiment
    from benchkit.store.store import Store, store_path

    with signals_interrupt():  # around the start of the lab, so that a signal removes it
        experiment = read_experiment("quickstart", scale)
        stored_in = Store(store_path(store))
        with own_lab("demo", quiet=quiet) as lab:
            progress = progress_of_run(quiet=quiet)
            run_options = RunOptions(names_other_programs=not quiet)
            outcome = run_interruptibly(experiment, lab.inventory(), stored_in, progress, run_options)
        report = write_run_report(outcome, stored_in)
    print_run_summary(outcome, stored_in, quiet=quiet, json=json, lab=lab.name, report=report)
    if outcome.failures or outcome.not_restored:
        raise typer.Exit(ExitCode.FAILED)


def run_interruptibly(
    experiment: Experiment,
    inventory: Inventory,
    store: Store,
    progress: SilentProgress,
    run_options: RunOptions,
    *,
    is_resumable: bool = True,
) -> RunOutcome:
    """Run an experiment on the hosts of an inventory; at an interruption, say what is restored.

    With `is_resumable` the message says how to resume the run.
    """
    from benchkit import units
    from benchkit.cli.console import say
    from benchkit.cli.signals import Signals, signals_interrupt
    from benchkit.run.run import run_experiment

    signals = Signals()
    try:
        with signals_interrupt() as signals, progress:
            return run_experiment(experiment, inventory, store, run_options, progress.show)
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


def wait_idle_hosts(inventory: Inventory, seconds: float | None, limit: float, *, quiet: bool) -> None:
    """Wait up to `seconds` until nothing else uses the CPUs of the hosts; None: do not wait."""
    from benchkit.cli.console import say
    from benchkit.hosts.connections import connect_all
    from benchkit.hosts.other_programs import wait_until_idle

    if seconds is not None:
        with connect_all(inventory) as hosts:
            wait_until_idle(hosts, seconds, limit, (lambda _text: None) if quiet else say)


def write_run_report(outcome: RunOutcome, store: Store) -> Path:
    """Write the report of a run beside it."""
    from benchkit.report.pages.report_files import write_report
    from benchkit.report.stored_run import read_run

    return write_report(read_run(store, outcome.run), outcome.run.report)
