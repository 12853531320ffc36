"""The load of a comparison of servers: short trials that find one at which the load tool is not the limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchkit.services.external import EXTERNAL

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.models.trial import TrialRecord
    from benchkit.results.store import Store
    from benchkit.run.recorder import RunOutcome
    from benchkit.scenario.experiment import Experiment
    from benchkit.scenario.versus import Comparison

    MakeFields = Callable[[Comparison], Mapping[str, object]]
    """Function that makes the fields of a scenario."""

CALIBRATED_QUOTAS = (None, 0.5, 0.25)
"""CPUs of a server to try, until the load tool is not the limit; None: all that its role has."""


def experiment_of(fields: Mapping[str, object], settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment of options of the command line, with `--set` settings. Raises InputError."""
    from benchkit.scenario.cell_load import require_secrets
    from benchkit.scenario.read import experiment_of_options
    from benchkit.scenario.versus import options_of

    experiment = experiment_of_options(fields, options_of(fields), settings)
    require_secrets(experiment)
    return experiment


def calibration_of(fields: Mapping[str, object], settings: Sequence[str] = ()) -> Experiment:
    """Return the same comparison as one short trial of each server. Raises InputError."""
    from benchkit.scenario.versus import calibration_fields

    return experiment_of(calibration_fields(experiment_of(fields, settings).document.data))


def search_path(inventory: Path | None) -> str | None:
    """Return the PATH of this shell for servers that start on this machine: in a lab, which no inventory names."""
    import os

    return None if inventory is not None else os.environ.get("PATH", os.defpath)


def quotas_to_try(fields: Mapping[str, object]) -> Sequence[float | None]:
    """Return the quotas of a comparison: none where one would change a result that has no other to be compared with.

    That is so for a server alone, and beside servers that are there already, which no quota holds.
    """
    stacks = fields["stacks"]
    if not isinstance(stacks, Mapping):
        raise TypeError("the stacks of a scenario are a mapping")
    backends = [service["backend"] for stack in stacks.values() for service in stack["services"].values()]
    factors = fields["factors"]
    is_alone = isinstance(factors, Mapping) and all(len(levels) == 1 for levels in factors.values())
    return CALIBRATED_QUOTAS[:1] if is_alone or EXTERNAL in backends else CALIBRATED_QUOTAS


def calibrate(
    make_fields: MakeFields,
    comparison: Comparison,
    inventory: Inventory,
    store: Store,
    *,
    settings: Sequence[str] = (),
    quiet: bool,
) -> Comparison:
    """Return the comparison with less CPU for the servers, if the load tool would be the limit otherwise.

    Its slices are long enough for the slowest server. Runs a short trial of each server, for as long as the load tool
    is the limit of one, and takes their time off the budget. Raises HostError with the cause if a server does not run.
    """
    import time

    from benchkit.analysis.verdicts.checks.generator_saturated import is_saturated
    from benchkit.cli.console import say
    from benchkit.cli.progress import SilentProgress
    from benchkit.cli.run import run_experiment
    from benchkit.errors import HostError
    from benchkit.scenario.versus import slice_for

    began_s = time.monotonic()
    for quota in quotas_to_try(make_fields(comparison)):
        trial = replace(comparison, quota=quota)
        experiment = calibration_of(make_fields(trial), settings)
        outcome = run_experiment(
            experiment, inventory, store, seed=None, quiet=True, show=lambda _run: SilentProgress(), resumable=False
        )
        if failures := _failures(outcome):
            raise HostError("a server does not run", why="; ".join(failures))
        thresholds = experiment.scenario.thresholds
        if not any(
            is_saturated(generator, thresholds) for record in outcome.run.records() for generator in record.generators
        ):
            break
    else:
        if not quiet:
            say("The load tool stays the limit: rates are its own. More load hosts or --tool wrk may help.")
    if trial.quota is not None and not quiet:
        say(f"A server gets {trial.quota:g} CPUs, so that the load tool is not the limit.")
    rates = [rate for record in outcome.run.records() if (rate := _rate(record)) > 0]
    slice_s = slice_for(min(rates), trial.connections, thresholds.slice_answers) if rates else trial.slice_s
    return replace(trial, slice_s=slice_s, spent_s=time.monotonic() - began_s)


def _failures(outcome: RunOutcome) -> list[str]:
    """Return the reasons why servers did not run, those that the hosts do not support included."""
    from benchkit.analysis.cell_labels import cell_views
    from benchkit.results.progress import read_progress

    names = {view.cell_id: view.label for view in cell_views(outcome.run.manifest())}
    failed = read_progress(outcome.run.history()).positions
    reasons = {names[failed[trial_id].cell_id]: why for trial_id, why in outcome.failures.items()}
    reasons |= {view.label: view.unsupported for view in cell_views(outcome.run.manifest()) if view.unsupported}
    return [f"{name}: {why}" for name, why in reasons.items()]


def _rate(record: TrialRecord) -> float:
    """Return the requests per second of all generators of a trial."""
    return sum(each.result.rps or 0.0 for each in record.generators if each.result is not None)
