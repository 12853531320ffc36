"""`benchkit run` and `benchkit demo`: from a scenario to stored results and their report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit.cli.options import (
    SCENARIO_HELP,
    WITH_PROFILES,
    AcceptChanges,
    InventoryFile,
    Json,
    Lease,
    Profile,
    Quiet,
    Reconnect,
    Resume,
    Scale,
    Seed,
    Set,
    StoreFolder,
)

if TYPE_CHECKING:
    from benchkit.analysis.verdicts.overview import Counts
    from benchkit.hosts.inventory import Inventory
    from benchkit.lab.lab import Lab
    from benchkit.results.store import RunFolder, Store
    from benchkit.run.book import Outcome
    from benchkit.scenario.read import Experiment


def run(
    scenario: Annotated[str | None, typer.Argument(metavar="SCENARIO", help=SCENARIO_HELP)] = None,
    *,
    inventory: InventoryFile = None,
    scale: Scale = "lab",
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
    from benchkit.cli.hosts_of import inventory_of
    from benchkit.errors import InputError
    from benchkit.planning.check import check_experiment
    from benchkit.results.store import Store, store_path
    from benchkit.scenario.read import read_experiment, stored_experiment

    where = Store(store_path(store))
    asked = [*(settings or ()), *([WITH_PROFILES] if profile else [])]
    run_folder = None if resume is None else where.run(resume)
    if run_folder is not None:
        if asked or seed is not None or scale != "lab":
            raise InputError("scale, settings and seed of a run that is taken up again are its own")
        made = run_folder.manifest()
        seed, scale, asked = made.seed, made.scale, list(made.settings)
        if scenario is None:
            experiment = stored_experiment(made.scenario, made.source, scale_named(scale), asked)
        else:
            experiment = read_experiment(scenario, scale_named(scale), asked)
    elif scenario is None:
        raise InputError("no scenario was named", hint="`benchkit run quickstart`, or the path of a .yaml file")
    else:
        experiment = read_experiment(scenario, scale_named(scale), asked)
    check_experiment(experiment)
    again = None if run_folder is None else Again(run_folder, accept_changes=accept_changes)
    patience = Patience(lease, reconnect)
    hosts = inventory_of(inventory)
    outcome = carry_out(experiment, hosts, where, seed=seed, quiet=quiet, again=again, patience=patience)
    _tell(outcome, where, quiet=quiet, json=json)
    if outcome.failures:
        raise typer.Exit(1)


@dataclass(frozen=True)
class Again:
    """A run that is taken up again."""

    run: RunFolder
    accept_changes: bool


@dataclass(frozen=True)
class Patience:
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
    from benchkit.results.store import Store, store_path
    from benchkit.scenario.read import read_experiment

    experiment = read_experiment("quickstart", scale_named(scale))
    where = Store(store_path(store))
    with _some_lab() as lab:
        outcome = carry_out(experiment, lab.inventory(), where, seed=None, quiet=quiet)
    report = write(outcome, where)
    _tell(outcome, where, quiet=quiet, json=json, report=report)
    if outcome.failures:
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
    again: Again | None = None,
    patience: Patience = Patience(),
) -> Outcome:
    """Plan and execute an experiment on the hosts of an inventory, with a display of how it goes."""
    from benchkit.cli.console import say
    from benchkit.cli.interrupt import signals_interrupt
    from benchkit.cli.live import display
    from benchkit.execute import execute, resume
    from benchkit.hosts.bootstrap import LEASE_S
    from benchkit.hosts.connect import RECONNECT_S, connect_all
    from benchkit.planning.make import make_plan
    from benchkit.run.resume import check_resumption

    lease_s, reconnect_s = patience.lease_s or LEASE_S, patience.reconnect_s or RECONNECT_S
    try:
        with signals_interrupt(), connect_all(inventory, lease_s=lease_s) as hosts:
            plan = make_plan(experiment, hosts, seed)
            if again is None:
                with display(plan, quiet=quiet) as watcher:
                    return execute(plan, hosts, store, watcher, reconnect_s=reconnect_s)
            checked = check_resumption(plan, hosts, again.run, accept_changes=again.accept_changes)
            with display(plan, quiet=quiet) as watcher:
                return resume(checked, hosts, store, watcher, reconnect_s=reconnect_s)
    except KeyboardInterrupt as stopped:
        say("interrupted: services are stopped and hosts put back" + "".join(f"; {word}" for word in stopped.args))
        raise


def write(outcome: Outcome, store: Store) -> Path:
    """Write the report of a run beside it."""
    from benchkit.report.read import read_run
    from benchkit.report.write import write_report

    return write_report(read_run(store, outcome.run), outcome.run.report)


def _tell(outcome: Outcome, store: Store, *, quiet: bool, json: bool, report: Path | None = None) -> None:
    from benchkit import units
    from benchkit.analysis.claims import judge_claims
    from benchkit.analysis.data import read_data
    from benchkit.analysis.samples import counting
    from benchkit.analysis.verdicts.overview import counts
    from benchkit.cli.compare import show_claims
    from benchkit.cli.console import print_json, print_table

    data = read_data(store, outcome.run)
    trials = data.trials[counting(data.trials)]
    void = {each.trial_id for each in data.exclusions if each.covers("rps")}
    rates = {}
    for cell, rows in trials.dropna(subset=["rps"]).groupby("cell_id"):
        believed = rows[~rows["trial_id"].isin(void)]
        rates[str(cell)] = [float(each) for each in (rows if believed.empty else believed)["rps"]]
    verdicts = {str(cell): counts(rows) for cell, rows in trials.groupby("cell_id")}
    cells = _summary(outcome, verdicts, rates)
    claims = judge_claims(data)
    if json:
        print_json(
            {
                "run_id": outcome.run.run_id,
                "status": outcome.status,
                "store": store.path,
                "trials": outcome.trials,
                "failures": outcome.failures,
                "retries": outcome.retries,
                "cells": [{**cell, "verdicts": cell["verdicts"].model_dump()} for cell in cells],
                "claims": [claim.model_dump(mode="json") for claim in claims],
                "report": report,
            }
        )
        return
    if not quiet:
        print_table(
            ("cell", "trials", "RPS (median)", ""),
            (
                (
                    cell["cell_id"],
                    str(cell["trials"]),
                    units.rate(cell["rps_median"]),
                    cell["unsupported"] or cell["verdicts"].doubts,
                )
                for cell in cells
            ),
            right=(1, 2),
        )
        show_claims(claims)
        print(f"\nrun     {outcome.run.run_id}")
    if report is not None:
        print(report if quiet else f"report  {report.resolve()}")


def _summary(outcome: Outcome, verdicts: dict[str, Counts], rates: dict[str, list[float]]) -> list[dict[str, Any]]:
    """A line for each cell; the median over the trials whose rate counts, over all where none does, None without any."""
    from statistics import median

    from benchkit.analysis.verdicts.overview import Counts

    return [
        {
            "cell_id": cell.cell_id,
            "trials": verdicts.get(cell.cell_id, Counts()).trials,
            "verdicts": verdicts.get(cell.cell_id, Counts()),
            "rps_median": median(rates[cell.cell_id]) if rates.get(cell.cell_id) else None,
            "unsupported": cell.unsupported,
        }
        for cell in outcome.run.manifest().cells
    ]
