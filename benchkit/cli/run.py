"""`benchkit run` and `benchkit demo`: from a scenario to stored results and their report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import (
    SCENARIO_HELP,
    AcceptChanges,
    InventoryFile,
    Json,
    LabName,
    Lease,
    OwnScale,
    Profile,
    Quiet,
    Reconnect,
    Resume,
    RetryFailed,
    Seed,
    Set,
    StoreFolder,
    Tags,
    WaitIdle,
    complete_scenario,
)
from benchkit.errors import ExitCode

if TYPE_CHECKING:
    from benchkit.cli.progress import SilentProgress
    from benchkit.hosts.connections import Hosts
    from benchkit.hosts.inventory import Inventory
    from benchkit.hosts.other_programs import ProcessSnapshot
    from benchkit.plan.model import RunPlan
    from benchkit.run.loop import FirstBlockReview
    from benchkit.run.opened_run import OpenedRun
    from benchkit.run.recorder import RunOutcome
    from benchkit.scenario.experiment import Experiment
    from benchkit.store.run_folder import RunFolder
    from benchkit.store.store import Store


def run(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help=SCENARIO_HELP, autocompletion=complete_scenario)
    ] = None,
    *,
    inventory: InventoryFile = None,
    lab: LabName = None,
    scale: OwnScale = None,
    settings: Set = None,
    tag: Tags = None,
    seed: Seed = None,
    profile: Profile = False,
    resume: Resume = None,
    retry_failed: RetryFailed = False,
    accept_changes: AcceptChanges = False,
    lease: Lease = None,
    reconnect: Reconnect = None,
    wait_idle: WaitIdle = None,
    store: StoreFolder = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a scenario on its hosts and store the results, or resume an interrupted run.

    A trial that fails because a host is lost, or is short of space, memory, processes or a port for the moment, is
    retried after growing pauses. Any other failure is final: the run continues with the next trial, and skips the rest
    of a cell after three failures in a row.

    Resuming: --resume RUN (`latest` is the newest) runs what an interrupted run did not finish, and what it skipped. It
    keeps the trials that ended; a block that was interrupted in the middle is repeated whole. --retry-failed also
    repeats the trials that failed, each with its whole block, so that all cells of a block run under the same
    conditions. Scenario, hosts and the programs in use must be as they were (--accept-changes records the differences
    instead).
    """
    from benchkit.cli.console import scale_named
    from benchkit.cli.host_choice import inventory_of
    from benchkit.cli.options import parse_tags
    from benchkit.cli.run_summary import print_run_summary
    from benchkit.errors import InputError
    from benchkit.run.resume import require_unfinished
    from benchkit.scenario.read import WITH_PROFILES, read_experiment, stored_experiment
    from benchkit.store.store import Store, store_path

    tags = parse_tags(tag or [])
    stored_in = Store(store_path(store))
    requested = [*(settings or ()), *([WITH_PROFILES] if profile else [])]
    run_folder = None if resume is None else stored_in.run(resume)
    if run_folder is not None:
        if requested or tags or seed is not None or scale is not None:
            raise InputError("--scale, --set, --tag, --seed and --profile cannot change a resumed run")
        require_unfinished(run_folder, retry_failed=retry_failed)
        manifest = run_folder.manifest()
        seed, requested, of_run = manifest.seed, list(manifest.settings), scale_named(manifest.scale)
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
        experiment = read_experiment(scenario, scale_named(scale or "lab"), requested)
    resume_options = (
        None
        if run_folder is None
        else ResumeOptions(run_folder, accept_changes=accept_changes, retry_failed=retry_failed)
    )
    chosen = inventory_of(inventory, lab, quiet=quiet)
    wait_idle_hosts(chosen, wait_idle, experiment.scenario.thresholds.foreign_cores, quiet=quiet)
    outcome = run_experiment(
        experiment,
        chosen,
        stored_in,
        seed=seed,
        quiet=quiet,
        resume_options=resume_options,
        lease_s=lease,
        reconnect_s=reconnect,
        tags=tags,
    )
    print_run_summary(outcome, stored_in, quiet=quiet, json=json, lab=chosen.lab)
    if outcome.failures or outcome.not_restored:
        raise typer.Exit(ExitCode.FAILED)


@dataclass(frozen=True)
class ResumeOptions:
    """Run to be resumed, whether changes since then are accepted, and whether failed trials are repeated."""

    run: RunFolder
    accept_changes: bool
    retry_failed: bool


def demo(
    store: StoreFolder = None,
    scale: Annotated[str, typer.Option("--scale", hidden=True)] = "lab",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Start a lab of its own, compare Go alone with Go behind nginx, write the report, and remove the lab."""
    from benchkit.cli.console import scale_named
    from benchkit.cli.host_choice import own_lab
    from benchkit.cli.run_summary import print_run_summary
    from benchkit.cli.signals import signals_interrupt
    from benchkit.scenario.read import read_experiment
    from benchkit.store.store import Store, store_path

    with signals_interrupt():  # before the lab is started: a signal at any later time removes it
        experiment = read_experiment("quickstart", scale_named(scale))
        stored_in = Store(store_path(store))
        with own_lab("demo", quiet=quiet) as lab:
            outcome = run_experiment(experiment, lab.inventory(), stored_in, seed=None, quiet=quiet)
        report = write_run_report(outcome, stored_in)
    print_run_summary(outcome, stored_in, quiet=quiet, json=json, lab=lab.name, report=report)
    if outcome.failures or outcome.not_restored:
        raise typer.Exit(ExitCode.FAILED)


def run_experiment(
    experiment: Experiment,
    inventory: Inventory,
    store: Store,
    *,
    seed: int | None,
    quiet: bool,
    resume_options: ResumeOptions | None = None,
    lease_s: float | None = None,
    reconnect_s: float | None = None,
    show: Callable[[OpenedRun], SilentProgress] | None = None,
    tags: Mapping[str, str] = MappingProxyType({}),
    review: FirstBlockReview | None = None,
    resumable: bool = True,
) -> RunOutcome:
    """Plan and execute an experiment on the hosts of an inventory, with a display of its progress: `show`, or a matrix.

    A run with a rule for its end also ends after its first block where the `review` of that has a reason.

    Hosts restore themselves after `lease_s` seconds without a heartbeat; a lost one is reconnected for `reconnect_s`
    seconds. None: the default. With `resumable` the message about an interruption says how to resume the run.
    """
    from benchkit import units
    from benchkit.cli.console import announced_if_slow, say
    from benchkit.cli.signals import Signals, signals_interrupt
    from benchkit.hosts.bootstrap import LEASE_S
    from benchkit.hosts.connections import RECONNECT_S, connect_all
    from benchkit.hosts.other_programs import take_snapshot
    from benchkit.plan.planner import make_plan
    from benchkit.plan.secret_headers import secret_notices
    from benchkit.run.loop import execute
    from benchkit.run.manifest import new_run_id
    from benchkit.run.opened_run import open_run, reopen_run
    from benchkit.scenario.cells import require_secrets

    require_secrets(experiment)
    run_id = new_run_id() if resume_options is None else resume_options.run.run_id
    lease_s = LEASE_S if lease_s is None else lease_s
    reconnect_s = RECONNECT_S if reconnect_s is None else reconnect_s
    signals = Signals()
    try:
        with signals_interrupt() as signals, connect_all(inventory, lease_s=lease_s) as hosts:

            def plan() -> RunPlan:
                with announced_if_slow(f"planning {units.counted(len(experiment.cells), 'cell')}", quiet=quiet):
                    made = make_plan(experiment, hosts, seed)
                for note in () if quiet else secret_notices(made.cells):
                    say(note)
                return made

            opening = (
                open_run(plan, hosts, store, run_id, tags=tags)
                if resume_options is None
                else reopen_run(
                    plan,
                    hosts,
                    store,
                    resume_options.run,
                    accept_changes=resume_options.accept_changes,
                    retry_failed=resume_options.retry_failed,
                )
            )
            before = None if quiet else take_snapshot(hosts)
            with opening as opened, _displayed(opened, show, quiet=quiet) as observer:
                if before is not None:
                    _show_other_programs(hosts, before, experiment, observer)
                outcome = execute(opened, observer, reconnect_s=reconnect_s, review=review)
            outcome.add_restore_outcome(hosts.close())
            return outcome
    except KeyboardInterrupt as stopped:
        notes = ", ".join(getattr(stopped, "__notes__", ()))
        if signals.abandoned:
            how = f"the watchdogs on the hosts stop services and restore settings within {units.duration(lease_s)}"
        else:
            how = f"not everything was restored: {notes}" if notes else "services are stopped and hosts restored"
        resume = [f"`benchkit run --resume {run_id}` resumes it"] if resumable and store.has(run_id) else []
        say("; ".join((f"interrupted: {how}", *stopped.args, *resume)))
        raise


def _show_other_programs(
    hosts: Hosts, before: ProcessSnapshot, experiment: Experiment, observer: SilentProgress
) -> None:
    """Show what else uses the CPUs of the hosts before the first block."""
    from benchkit.hosts.other_programs import busy_programs, describe_programs

    if busy := busy_programs(hosts, before, experiment.scenario.thresholds.foreign_cores):
        text = describe_programs(busy)
        observer.notify(f"{text[:1].upper()}{text[1:]}: intervals will be wider. Stop it, or wait with --wait-idle.")


def wait_idle_hosts(inventory: Inventory, seconds: float | None, limit: float, *, quiet: bool) -> None:
    """Wait until nothing else uses the CPUs of the hosts, at most for so many seconds; None: do not wait."""
    from benchkit.cli.console import say
    from benchkit.hosts.connections import connect_all
    from benchkit.hosts.other_programs import wait_until_idle

    if seconds is not None:
        with connect_all(inventory) as hosts:
            wait_until_idle(hosts, seconds, limit, (lambda _text: None) if quiet else say)


def _displayed(run: OpenedRun, show: Callable[[OpenedRun], SilentProgress] | None, *, quiet: bool) -> SilentProgress:
    from benchkit.cli.progress import display

    return display(run.plan, run.hosts, quiet=quiet) if show is None else show(run)


def write_run_report(outcome: RunOutcome, store: Store) -> Path:
    """Write the report of a run beside it."""
    from benchkit.report.report_files import write_report
    from benchkit.report.stored_run import read_run

    return write_report(read_run(store, outcome.run), outcome.run.report)
