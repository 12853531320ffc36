"""CPU shares of servers by category, by cell: the scheduler's share with goroutines, rate and CPU per request."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

import pandas as pd
from pydantic import Field

from benchkit.analysis.run_data import RunData
from benchkit.analysis.samples import Exclusion
from benchkit.models.base import Frozen
from benchkit.models.categories import CATEGORIES, SCHEDULING, STUDIED

GOROUTINES = "goroutines"
CPU = "server_cpu_s_per_request"


Figure = Literal["shares", "goroutines", "rps", "server_cpu_s_per_request"]


class ServiceProfile(Frozen, serialize_by_alias=True):
    """A service of a cell, over the profiles of it that the run has.

    Shares are means over profiles, each from 0 to 1; `scheduling` is the scheduler's including netpoll, `range` its smallest
    and largest value. `cumulative` holds the figures that study 4 used. Goroutines, rate and CPU are medians over the
    cell's measured trials, which were not profiled; absent if unknown. Excluded trials are not used, unless all trials of a
    figure are excluded: `invalid_figures` then names it.
    """

    cell_id: str
    service: str
    profiles: int
    scheduling: float
    range: tuple[float, float]
    categories: Mapping[str, float]
    cumulative: Mapping[str, float]
    goroutines: float | None = None
    rps: float | None = None
    server_cpu_s_per_request: float | None = None
    left_out: int = 0
    """Number of profiles that are not in these shares because the rate of their trials is invalid."""
    invalid_figures: tuple[Figure, ...] = Field(default=(), serialization_alias="void")

    def annotated(self, figure: Figure, text: str) -> str:
        """Return the text of a figure, marked if it comes from invalid trials only."""
        return f"{text}, invalid" if figure in self.invalid_figures else text


def service_profiles(
    data: RunData,
    shares: pd.DataFrame,
    functions: pd.DataFrame,
    telemetry: pd.DataFrame,
    *,
    exclusions: Iterable[Exclusion] = (),
) -> tuple[ServiceProfile, ...]:
    """Return the profiled services of a run, by cell in the order of the plan.

    The frames are the tables `profile_share`, `profile` and `telemetry` of the run; `exclusions` are those of the profile
    pass (`benchkit.analysis.profiler_cost.profile_pass_exclusions`).
    """
    if shares.empty:
        return ()
    trials = data.trials
    measured = trials[trials["kind"] == "measure"]
    counted = goroutines_of(measured, telemetry)
    out = {metric: {each.trial_id for each in data.exclusions if each.covers(metric)} for metric in ("rps", CPU)}
    out_of_pass = {each.trial_id for each in exclusions if each.covers("rps")}
    cell_of = dict(zip(trials["trial_id"], trials["cell_id"], strict=True))
    shares = shares.assign(cell_id=shares["trial_id"].map(cell_of))
    functions = functions.assign(cell_id=functions["trial_id"].map(cell_of))
    found: list[ServiceProfile] = []
    for cell in data.manifest.cells:
        of_cell = measured[measured["cell_id"] == cell.cell_id]
        mine = shares[shares["cell_id"] == cell.cell_id]
        for service, rows in mine.groupby("service", sort=False):
            alive = counted[(counted["cell_id"] == cell.cell_id) & (counted["service"] == service)]
            goroutines, no_goroutines = _usable_rows(alive, "count", out["rps"])
            rps, no_rps = _usable_rows(of_cell, "rps", out["rps"])
            cpu, no_cpu = _usable_rows(of_cell, CPU, out[CPU])
            kept, no_shares = _usable_rows(rows, "share", out_of_pass)
            doubted = {"shares": no_shares, "goroutines": no_goroutines, "rps": no_rps, CPU: no_cpu}
            profiles = set(kept["trial_id"])
            called = functions[(functions["cell_id"] == cell.cell_id) & (functions["service"] == service)]
            table = kept.pivot_table(index="trial_id", columns="category", values="share", aggfunc="sum")
            headline = table[[name for name in table.columns if name in SCHEDULING]].sum(axis="columns")
            means = table.mean()
            found.append(
                ServiceProfile(
                    cell_id=cell.cell_id,
                    service=str(service),
                    profiles=len(profiles),
                    scheduling=float(headline.mean()),
                    range=(float(headline.min()), float(headline.max())),
                    categories={name: float(means.get(name, 0.0)) for name in CATEGORIES},
                    cumulative=dict(_cumulative(called[called["trial_id"].isin(profiles)], len(profiles))),
                    goroutines=_median(goroutines["count"]),
                    rps=_median(rps["rps"]),
                    server_cpu_s_per_request=_median(cpu[CPU]),
                    left_out=rows["trial_id"].nunique() - len(profiles),
                    invalid_figures=tuple(name for name, none_counts in doubted.items() if none_counts),
                )
            )
    return tuple(found)


def _cumulative(functions: pd.DataFrame, profiles: int) -> Iterator[tuple[str, float]]:
    """Yield the mean cumulative share of each function of the study; a profile without it counts as 0."""
    names = functions["function"].astype(str)
    for name, pattern in STUDIED.items():
        shares = functions["cum_share"][
            names.map(lambda label, pattern=pattern: bool(pattern.match(label))).astype(bool)
        ]
        yield name, float(shares.sum()) / profiles


def goroutines_of(trials: pd.DataFrame, telemetry: pd.DataFrame) -> pd.DataFrame:
    """Return the goroutines of each service in each trial, the median over its window: trial_id, cell_id, block, service, count."""
    rows = telemetry[telemetry["metric"] == GOROUTINES]
    rows = rows.merge(trials[["trial_id", "cell_id", "block", "duration_s"]], on="trial_id")
    rows = rows[(rows["t_s"] >= 0) & (rows["t_s"] <= rows["duration_s"])]
    keys = ["trial_id", "cell_id", "block", "service"]
    return rows.groupby(keys, sort=False)["value"].median().reset_index().rename(columns={"value": "count"})


def scheduler_shares(trials: pd.DataFrame, shares: pd.DataFrame) -> pd.DataFrame:
    """Return the scheduler's share of each profile, including netpoll: trial_id, service, share, cell_id, block."""
    rows = shares[shares["category"].isin(list(SCHEDULING))]
    summed = rows.groupby(["trial_id", "service"], sort=False)["share"].sum().reset_index()
    return summed.merge(trials[["trial_id", "cell_id", "block"]], on="trial_id")


def _usable_rows(rows: pd.DataFrame, column: str, excluded: Collection[str]) -> tuple[pd.DataFrame, bool]:
    """Return the rows with a figure of trials that are not excluded; if there are none, all rows, and True."""
    there = rows[rows[column].notna()]
    counting = there[~there["trial_id"].isin(list(excluded))]
    return (there, True) if counting.empty and not there.empty else (counting, False)


def _median(column: pd.Series) -> float | None:
    there = pd.to_numeric(column).dropna()
    return float(there.median()) if len(there) else None
