"""Which profiles a report draws flame graphs of: those of the baseline cell, and of the one that differs most from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from benchkit.analysis.scheduler_share import ServiceProfile
from benchkit.models.profile import Profile
from benchkit.report.cell_labels import baseline
from benchkit.report.stored_run import StoredRun, once

ANOTHER = 0.5
"""A profile with so large a share under a function that the baseline never called is of another program: set against each
other, all of it would have changed."""


@dataclass(frozen=True)
class SelectedProfiles:
    """A service of a cell with the profile that was merged over its trials."""

    name: str
    """What people call it: the cell, and the service where the run profiles several."""
    trials: int
    figures: ServiceProfile
    profile: Profile


@once
def shown(run: StoredRun) -> tuple[SelectedProfiles, ...]:
    """The profile of the baseline cell, of its service that took most of the CPU; of the first cell that has one, else.

    Nothing where no service was profiled, or the store has no raw files.
    """
    if not run.profiled:
        return ()
    cells = {each.cell_id for each in run.profiled}
    base = baseline(run.manifest)
    cell = base if base in cells else run.profiled[0].cell_id
    services = [each for each in run.profiled if each.cell_id == cell]
    return _chosen(run, max(services, key=lambda each: _cpu_s(run, each)))


@once
def compared(run: StoredRun) -> tuple[SelectedProfiles, ...]:
    """The profile that is set against the one shown.

    Of those of other cells that ran the same program it is the one whose scheduler's share differs most; where
    that is the same in all, whose categories do. Nothing where there is none.
    """
    for base in shown(run):
        functions = _functions(run, base.figures)
        others = [
            each
            for each in run.profiled
            if each.cell_id != base.figures.cell_id
            and max((share for name, share in _functions(run, each).items() if name not in functions), default=0)
            < ANOTHER
        ]
        if others:
            return _chosen(run, max(others, key=lambda each: _apart(each, base.figures)))
    return ()


def _chosen(run: StoredRun, figures: ServiceProfile) -> tuple[SelectedProfiles, ...]:
    trials = _trials(run, figures)
    profile = run.stacks(trials, figures.service)
    if profile is None:
        return ()
    labels = {view.cell_id: view.label for view in run.cells}
    several = len({each.service for each in run.profiled}) > 1
    name = f"{labels[figures.cell_id]}: {figures.service}" if several else labels[figures.cell_id]
    return (SelectedProfiles(name, len(trials), figures, profile),)


def _trials(run: StoredRun, figures: ServiceProfile) -> tuple[str, ...]:
    """The trials of the cell that have a profile of the service: those that count, or all where none does."""
    shares = run.profile_shares
    profiled = set(shares["trial_id"][shares["service"] == figures.service])
    of_cell = run.trials["trial_id"][run.trials["cell_id"] == figures.cell_id]
    trials = tuple(str(trial_id) for trial_id in of_cell if trial_id in profiled)
    void = {each.trial_id for each in run.void_in_profile_pass if each.covers("rps")}
    return tuple(trial_id for trial_id in trials if trial_id not in void) or trials


def _rows(run: StoredRun, figures: ServiceProfile) -> pd.DataFrame:
    """The functions in the profiles of the service in the cell."""
    rows = run.profiles[run.profiles["service"] == figures.service]
    return rows[rows["trial_id"].isin(_trials(run, figures))]


def _cpu_s(run: StoredRun, figures: ServiceProfile) -> float:
    return float(_rows(run, figures)["flat_s"].sum())


def _functions(run: StoredRun, figures: ServiceProfile) -> Mapping[str, float]:
    """The share of each function with all that it calls, the mean over profiles."""
    sums = _rows(run, figures).groupby("function", sort=False)["cum_share"].sum()
    trials = len(_trials(run, figures))
    return {str(name): float(share) / trials for name, share in sums.items()}


def _apart(one: ServiceProfile, other: ServiceProfile) -> tuple[float, float]:
    """How far the scheduler's shares lie apart, to a tenth of a percent, then those of all categories."""
    categories = sum(abs(share - other.categories[name]) for name, share in one.categories.items())
    return round(abs(one.scheduling - other.scheduling), 3), categories
