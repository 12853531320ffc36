"""The profiled trials of a run with the shares of their profiles, for claims about where a server's CPU time goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from benchkit.comparison.profiler_cost import profile_pass_exclusions
from benchkit.models.profile import CUMULATIVE, HEADLINE, PROFILE_METRICS, SCHEDULING, SHARE, STUDIED
from benchkit.models.run import Manifest
from benchkit.stats.samples import Exclusion


@dataclass(frozen=True, eq=False)
class ProfileTrials:
    """Profiled trials as rows like those of measured ones, with a column for each profile metric.

    A share is that of the one service that was profiled; where a trial has profiles of several, it is unknown.
    `exclusions` name trials whose load was not the one that was asked for.
    """

    trials: pd.DataFrame
    exclusions: tuple[Exclusion, ...]


def read_profile_trials(
    manifest: Manifest, trials: pd.DataFrame, verdicts: pd.DataFrame, table: Callable[[str], pd.DataFrame]
) -> ProfileTrials | None:
    """Return the profiled trials of a run; `table` reads its other tables by name. None for a run without profiles."""
    profiled = trials[trials["kind"] == "profile"]
    if profiled.empty:
        return None
    rows = profiled.set_index("trial_id", drop=False).assign(kind="measure")
    shares = _single_service(table("profile_share"))
    by_category = shares.pivot_table(index="trial_id", columns="category", values="share", aggfunc="sum")
    by_category[HEADLINE] = by_category[[name for name in by_category.columns if name in SCHEDULING]].sum(
        axis="columns"
    )
    functions = _single_service(table("profile"))
    names = functions["function"].astype(str)
    columns = {f"{SHARE}{name}": by_category[name] for name in by_category.columns}
    for name, pattern in STUDIED.items():
        matching = functions[names.map(lambda label, pattern=pattern: bool(pattern.match(label))).astype(bool)]
        sums = matching.groupby("trial_id")["cum_share"].sum()
        columns[f"{CUMULATIVE}{name}"] = sums.reindex(by_category.index, fill_value=0.0)
    for name in PROFILE_METRICS:
        values = columns.get(name)
        rows[name] = pd.NA if values is None else values.reindex(rows.index)
        rows[name] = pd.to_numeric(rows[name]).astype("float64")
    return ProfileTrials(
        rows.reset_index(drop=True),
        tuple(
            Exclusion(each.trial_id, each.reason)
            for each in profile_pass_exclusions(trials, verdicts, manifest)
            if each.covers("rps")
        ),
    )


def _single_service(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of trials in which one service was profiled."""
    return rows[rows.groupby("trial_id")["service"].transform("nunique") == 1]
