"""`benchkit run` and `benchkit demo`: from a scenario to stored results and their report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import (
    SCENARIO_HELP,
    WITH_PROFILES,
    AcceptChanges,
    InventoryFile,
    Json,
    Lease,
    OwnScale,
    Profile,
    Quiet,
    Reconnect,
    Resume,
    Seed,
    Set,
    StoreFolder,
)

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.lab.lab import Lab
    from benchkit.results.store import RunFolder, Store
    from benchkit.run.recorder import RunOutcome
    from benchkit.scenario.read import Experiment


def run(
    scenario: Annotated[str | None, typer.Argument(metavar="SCENARIO", help=SCENARIO_HELP)] = None,
    *,
    inventory: InventoryFile = None,
    scale: OwnScale = None,
    settings: Set = None,
    seed: Seed = None,
    profile: Profile = False,
    resume: Resume = None,
    accept_changes: AcceptChanges = False,
    lease: Lease = None,
    reconnect: Reconnect = None,
    store: StoreFolder = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a scenario on its hosts and store what comes of it, or go on with a run that was cut off."""
    from benchkit.cli.console import scale_named
    from benchkit.cli.inventory_choice import inventory_of
    from benchkit.cli.run_summary import tell
    from benchkit.errors import InputError
    from benchkit.results.store import Store, store_path
    from benchkit.run.plan.requirements import check_experiment
    from benchkit.scenario.read import read_experiment, stored_experiment

    where = Store(store_path(store))
    asked = [*(settings or ()), *([WITH_PROFILES] if profile else [])]
    run_folder = None if resume is None else where.run(resume)
    if run_folder is not None:
        if asked or seed is not None or scale is not None:
            raise InputError("scale, settings and seed of a run that is taken up again are its own")
        made = run_folder.manifest()
        seed, asked, of_run = made.seed, list(made.settings), scale_named(made.scale)
        if scenario is None:
            experiment = stored_experiment(made.scenario, made.source, of_run, asked)
        else:
            experiment = read_experiment(scenario, of_run, asked)
    elif scenario is None:
        raise typer.BadParameter("name a scenario, or a run to --resume", param_hint="SCENARIO")
    else:
        experiment = read_experiment(scenario, scale_named(scale or "lab"), asked)
    check_experiment(experiment)
    again = None if run_folder is None else ResumeOptions(run_folder, accept_changes=accept_changes)
    patience = ConnectionTimeouts(lease, reconnect)
    hosts = inventory_of(inventory)
    outcome = carry_out(experiment, hosts, where, seed=seed, quiet=quiet, again=again, patience=patience)
    tell(outcome, where, quiet=quiet, json=json)
    if outcome.failures or outcome.not_restored:
        raise typer.Exit(1)


@dataclass(frozen=True)
class ResumeOptions:
    """A run that is taken up again."""

    run: RunFolder
    accept_changes: bool


@dataclass(frozen=True)
class ConnectionTimeouts:
    """How long hosts wait for us, and we for hosts; seconds, None: as usual."""

    lease_s: float | None = None
    reconnect_s: float | None = None


def demo(
    store: StoreFolder = None,
    scale: Annotated[str, typer.Option("--scale", hidden=True)] = "lab",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Bring up a lab, compare Go alone with Go behind nginx, write the report; takes down the lab that it brought up."""
    from benchkit.cli.console import scale_named
    from benchkit.cli.run_summary import tell
    from benchkit.results.store import Store, store_path
    from benchkit.scenario.read import read_experiment

    experiment = read_experiment("quickstart", scale_named(scale))
    where = Store(store_path(store))
    with _some_lab() as lab:
        outcome = carry_out(experiment, lab.inventory(), where, seed=None, quiet=quiet)
    report = write(outcome, where)
    tell(outcome, where, quiet=quiet, json=json, report=report)
    if outcome.failures or outcome.not_restored:
        raise typer.Exit(1)


@contextmanager
def _some_lab() -> Iterator[Lab]:
    """The lab that is up, or one made for now and taken away at the end."""
    from benchkit.lab.lab import current, down, up
    from benchkit.lab.spec import lab_name, shape

    there = current()
    if there is not None:
        yield there
        return
    made = up(shape(lab_name(None), (), (), shared=False))
    try:
        yield made
    finally:
        if made.fresh:
            down(made.name)


def carry_out(
    experiment: Experiment,
    inventory: Inventory,
    store: Store,
    *,
    seed: int | None,
    quiet: bool,
    again: ResumeOptions | None = None,
    patience: ConnectionTimeouts = ConnectionTimeouts(),
) -> RunOutcome:
    """Plan and execute an experiment on the hosts of an inventory, with a display of how it goes."""
    from benchkit.cli.console import say
    from benchkit.cli.progress import display
    from benchkit.cli.signals import signals_interrupt
    from benchkit.hosts.bootstrap import LEASE_S
    from benchkit.hosts.connections import RECONNECT_S, connect_all
    from benchkit.run.loop import execute, resume
    from benchkit.run.manifest import new_run_id
    from benchkit.run.plan.planner import make_plan
    from benchkit.run.resume import check_resumption

    run_id = new_run_id() if again is None else again.run.run_id
    lease_s, reconnect_s = patience.lease_s or LEASE_S, patience.reconnect_s or RECONNECT_S
    try:
        with (
            signals_interrupt(),
            connect_all(inventory, lease_s=lease_s) as hosts,
            nullcontext() if again is None else again.run.locked(),
        ):
            hosts.hold(run_id)  # first of all: until then they may be as another run, or this one, has left them
            plan = make_plan(experiment, hosts, seed)
            checked = None
            if again is not None:
                checked = check_resumption(plan, hosts, again.run, accept_changes=again.accept_changes)
            with display(plan, hosts, quiet=quiet) as watcher:
                if checked is None:
                    outcome = execute(plan, hosts, store, watcher, run_id=run_id, reconnect_s=reconnect_s)
                else:
                    outcome = resume(checked, hosts, store, watcher, reconnect_s=reconnect_s)
            outcome.part(hosts.part())
            return outcome
    except KeyboardInterrupt as stopped:
        left = ", ".join(getattr(stopped, "__notes__", ()))
        how = f"not all was put back: {left}" if left else "services are stopped and hosts put back"
        say(f"interrupted: {how}" + "".join(f"; {word}" for word in stopped.args))
        raise


def write(outcome: RunOutcome, store: Store) -> Path:
    """Write the report of a run beside it."""
    from benchkit.report.report_files import write_report
    from benchkit.report.run_reader import read_run

    return write_report(read_run(store, outcome.run), outcome.run.report)
