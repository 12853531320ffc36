"""Profiles that a report draws flame graphs of: the baseline cell's, and the one that differs most from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from benchkit.comparison.cpu_profiles import ServiceProfile
from benchkit.models.profile import Profile
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.stats.cell_pairs import cells_with_levels, scenario_baseline
from benchkit.stats.samples import excluded_ids

OTHER_PROGRAM = 0.5
"""Share of a profile under a function that the baseline never called. From this on the profile is of another program: a
comparison would show all of it as changed."""


@dataclass(frozen=True)
class SelectedProfile:
    """A service of a cell with its profile, merged over its trials."""

    name: str
    """Label of the cell, with the service if the run profiles several."""
    trials: int
    figures: ServiceProfile
    profile: Profile


@cached_per_run
def selected_profiles(run: StoredRun) -> tuple[SelectedProfile, ...]:
    """Return the profile of the baseline cell, and that of the cell that is compared with it, as far as they exist.

    The first is the baseline's (else that of the first profiled cell), of its service that took most of the CPU. Of the
    profiles of other cells that ran the same program, the second is the one whose share of waiting differs most. If
    that is the same in all, it is the one whose categories differ most. Empty if no service was profiled, or the store
    has no raw files.
    """
    if not run.service_profiles:
        return ()
    cells = {each.cell_id for each in run.service_profiles}
    levels = scenario_baseline(run.manifest.scenario, run.manifest.cells)
    base_cell = cells_with_levels(levels, run.manifest.cells)[0].cell_id
    cell = base_cell if base_cell in cells else run.service_profiles[0].cell_id
    base = max(
        (each for each in run.service_profiles if each.cell_id == cell),
        key=lambda each: float(_rows(run, each)["flat_s"].sum()),
    )
    functions = _functions(run, base)
    others = [
        each
        for each in run.service_profiles
        if each.cell_id != cell
        and max((share for name, share in _functions(run, each).items() if name not in functions), default=0)
        < OTHER_PROGRAM
    ]
    selected = _selected(run, base)
    compared = _selected(run, max(others, key=lambda each: _difference(each, base))) if others else None
    return () if selected is None else (selected,) if compared is None else (selected, compared)


def _selected(run: StoredRun, figures: ServiceProfile) -> SelectedProfile | None:
    trials = _trials(run, figures)
    profile = run.merged_profile(trials, figures.service)
    if profile is None:
        return None
    has_several = len({each.service for each in run.service_profiles}) > 1
    label = run.labels[figures.cell_id]
    return SelectedProfile(f"{label}: {figures.service}" if has_several else label, len(trials), figures, profile)


def _trials(run: StoredRun, figures: ServiceProfile) -> tuple[str, ...]:
    """Return the included trials of the cell that have a profile of the service, or all if none is included."""
    shares = run.profile_shares
    profiled = set(shares["trial_id"][shares["service"] == figures.service])
    of_cell = run.trials["trial_id"][run.trials["cell_id"] == figures.cell_id]
    trials = tuple(str(trial_id) for trial_id in of_cell if trial_id in profiled)
    excluded = excluded_ids(run.data.pass_exclusions, "rps")
    return tuple(trial_id for trial_id in trials if trial_id not in excluded) or trials


def _rows(run: StoredRun, figures: ServiceProfile) -> pd.DataFrame:
    rows = run.table("profile")
    rows = rows[rows["service"] == figures.service]
    return rows[rows["trial_id"].isin(_trials(run, figures))]


def _functions(run: StoredRun, figures: ServiceProfile) -> Mapping[str, float]:
    """Return the cumulative share of each function, the mean over profiles."""
    sums = _rows(run, figures).groupby("function", sort=False)["cum_share"].sum()
    trials = len(_trials(run, figures))
    return {str(name): float(share) / trials for name, share in sums.items()}


def _difference(one: ServiceProfile, other: ServiceProfile) -> tuple[float, float]:
    categories = sum(abs(share - other.categories[name]) for name, share in one.categories.items())
    return round(abs(one.waiting - other.waiting), 3), categories
