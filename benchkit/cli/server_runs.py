"""Runs of comparisons of servers, which begin again if curves or the first block show that they need other settings."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchkit import units
from benchkit.cli.console import say
from benchkit.cli.display import RunDisplay
from benchkit.cli.run import run_interruptibly
from benchkit.cli.run_summary import ratio_text
from benchkit.comparison.cell_labels import cell_views
from benchkit.comparison.load_curves import cell_curves
from benchkit.comparison.runs.run_data import read_run_data
from benchkit.comparison.server_results import server_results
from benchkit.errors import HostError, InputError, UnreachedError, raise_first
from benchkit.hosts.inventory import Inventory
from benchkit.models.design import compared_cell
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import RunOptions
from benchkit.scenario.cells import missing_secrets
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import experiment_of_options
from benchkit.scenario.versus import Fields, ServerComparison, save_scenario
from benchkit.services.external import EXTERNAL
from benchkit.store.journal import read_progress
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store

UNREACHED = re.compile(
    r".*(ECONNREFUSED|ENETUNREACH|EAI_AGAIN|ENOTFOUND"
    r"|(?i:connection refused|network is unreachable|name resolution|no such host)).*"
)
"""Line of a server's log that says that it reached no other server, as languages word errno(3) and gai_strerror(3)."""

MakeFields = Callable[[ServerComparison], Fields]
"""Function that makes the scenario of a comparison."""


def experiment_of(fields: Mapping[str, object], settings: Sequence[str] = ()) -> Experiment:
    """Return the experiment of a scenario made of options, with `--set` settings. Raises InputError."""
    experiment = experiment_of_options(fields, settings)
    raise_first(missing_secrets(experiment))
    return experiment


def compare_servers(
    make_fields: MakeFields,
    comparison: ServerComparison,
    inventory: Inventory,
    store: Store,
    *,
    settings: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    save: Path | None = None,
    quiet: bool,
    shows_blocks: bool = True,
) -> tuple[RunOutcome, ServerComparison]:
    """Run a comparison, and begin again if its curves or first block need another load tool, quota or design.

    The budget is for all attempts together. There are a few at most, as no adaptation is undone. `save` is a file for
    the scenario that runs. Returns the outcome, also of an interrupted comparison, and the comparison as it ran. Raises
    KeyboardInterrupt if no trial ended, HostError with the cause if a server does not run, UnreachedError if its log
    says that it did not reach another one.
    """
    if _runs_without_quota(make_fields(comparison)):
        comparison = replace(comparison, fixed=comparison.fixed | {"quota"})
    before: ServerComparison | None = None
    while True:
        began_s = time.monotonic()
        experiment = experiment_of(make_fields(comparison), settings)
        if save is not None:
            save_scenario(experiment.document.data, save)
        run_options = RunOptions(tags=tags or {}, names_other_programs=not quiet, adapts=comparison)
        display = RunDisplay(
            quiet=quiet or not shows_blocks, after_block=partial(_ratios, store) if shows_blocks else None
        )
        try:
            outcome = run_interruptibly(experiment, inventory, store, display, run_options, is_resumable=False)
        except KeyboardInterrupt:
            if display.folder is None or not _has_measured(store, display.folder):
                raise
            return RunOutcome(display.folder, "interrupted"), comparison
        except (HostError, InputError):
            if before is None or display.folder is not None:
                raise
            comparison, before = replace(before, fixed=before.fixed | {"tool"}), None  # no such tool here
            continue
        if outcome.adaptation is None:
            require_reached(outcome, store)
            _require_running(outcome, store)
            return outcome, comparison
        before = comparison
        spent_s = comparison.spent_s + time.monotonic() - began_s
        comparison = replace(outcome.adaptation.comparison, spent_s=spent_s)
        if not quiet:
            say(f"{outcome.adaptation.reason} The comparison begins again.")


def _ratios(store: Store, folder: RunFolder) -> str:
    """Return the ratios of a running comparison, the rate of its only server, or at first the load curves."""
    data = read_run_data(store, folder)
    if set(data.trials["kind"]) == {"calibrate"}:
        return "; ".join(f"{each.label} {each.curve.sentence}" for each in cell_curves(data))
    results = server_results(data)
    shown = [f"{each.label} {ratio_text(each.ratio) or 'no ratio yet'}" for each in results if each.ratio]
    return ", ".join(shown or [units.requests_per_s(each.rps) for each in results])


def _has_measured(store: Store, folder: RunFolder) -> bool:
    trials = read_run_data(store, folder).trials
    return bool((trials["kind"] == "measure").any())


def _runs_without_quota(fields: Fields) -> bool:
    """Return True where servers get no CPU quota: it would change the result of a single one.

    It cannot limit external servers, so the servers that are compared with them get none either.
    """
    backends = [service["backend"] for stack in fields["stacks"].values() for service in stack["services"].values()]
    is_alone = all(len(levels) == 1 for levels in fields["factors"].values())
    return is_alone or EXTERNAL in backends


def require_reached(outcome: RunOutcome, store: Store) -> None:
    """Raise UnreachedError where a server never ran, and its log says that it did not reach another one."""
    trials = read_run_data(store, outcome.run).trials
    measured = set(trials.loc[trials["kind"] == "measure", "cell_id"])
    names, placed = _names(outcome.run), read_progress(outcome.run.history()).positions
    for trial, why in outcome.failures.items():
        if (cell := compared_cell(placed[trial].cell_id)) in measured:
            continue
        for path in sorted((outcome.run.path / "raw").glob(f"{trial}*/*.log")):  # also those of its probes
            if line := UNREACHED.search(path.read_text(errors="replace")):
                raise UnreachedError(
                    "a server does not run",
                    where=names[cell],
                    why=f"{why}\n{line[0].strip()}",
                    hint="start what it needs where the host of the server reaches it",
                )


def _require_running(outcome: RunOutcome, store: Store) -> None:
    """Raise HostError with the reasons if servers failed before anything was measured, or cannot run here."""
    names = _names(outcome.run)
    failures = [f"{view.label}: {view.unsupported}" for view in cell_views(outcome.run.manifest()) if view.unsupported]
    if not _has_measured(store, outcome.run):
        placed = read_progress(outcome.run.history()).positions
        for trial, why in outcome.failures.items():
            failures.append(f"{names[compared_cell(placed[trial].cell_id)]}: {why}")
    if failures:
        raise HostError("a server does not run", why="\n".join(dict.fromkeys(failures)))


def _names(run: RunFolder) -> dict[str, str]:
    return {view.cell_id: view.label for view in cell_views(run.manifest())}
