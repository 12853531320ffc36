"""Stored runs, read for comparisons: trials, exclusions and findings, and the shares of profiled trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from benchkit.comparison.notes import RatioBasis, StoredFinding, disturbed_trials, findings_of, ratio_basis
from benchkit.judge.checks import cold, conditions
from benchkit.judge.verdicts.exclusions import exclusions as verdict_exclusions
from benchkit.models.base import STACK, Frozen
from benchkit.models.claims import asked_ratio_of, claims_of
from benchkit.models.design import Design, design_of, until_of
from benchkit.models.metrics import CAPACITY, CPU, GOODPUT, RPS
from benchkit.models.profile import CUMULATIVE, HEADLINE, PROFILE_METRICS, SHARE, STUDIED, WAITING
from benchkit.models.run import CellRecord, Manifest
from benchkit.stats.inference import ALPHA
from benchkit.stats.samples import Exclusion, Samples, take_samples
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import load, load_columns, load_trials

IGNORED_CHECKS = (conditions.OBSERVED.code, cold.CHECK.code)
"""Checks with findings that profiling itself causes: perf starts in the first third of the window and slows it."""


@dataclass(frozen=True, eq=False)
class ProfileTrials:
    """Profiled trials as rows like those of measured ones, with a column for each profile metric.

    A share is that of the one service that was profiled; where a trial has profiles of several, it is unknown.
    `exclusions` name trials whose load was not the one that was asked for.
    """

    trials: pd.DataFrame
    exclusions: tuple[Exclusion, ...]


class ComparedRun(Frozen):
    """A run within a comparison."""

    run_id: str
    scenario: str
    scale: str
    seed: int | None
    design: Design
    status: str


@dataclass(frozen=True, eq=False)
class RunData:
    """A run: its manifest, its trials, the excluded ones, and the findings about the others."""

    manifest: Manifest
    trials: pd.DataFrame
    exclusions: tuple[Exclusion, ...] = ()
    findings: tuple[StoredFinding, ...] = ()
    disturbed: tuple[Exclusion, ...] = ()
    """Disturbed trials, which only ratios within a block may use: see `exclusions_between_runs`."""
    profiled: ProfileTrials | None = None
    """Its profiled trials; None where there is none, or no claim is about them."""
    table: Callable[[str], pd.DataFrame] | None = None
    """Function that reads another table of the run by its name; None: it has these trials alone."""
    folder: RunFolder | None = None
    """Folder with its raw files, which may be missing; None: it has tables alone."""

    def samples(self, metric: str) -> Samples:
        """Return the samples of a metric of its measured trials: the one rule of which trials no result uses.

        Ratios, claims, capacities and the decision on further blocks all take them. Raises InputError for a metric
        that is no numeric column.
        """
        return take_samples(self.trials, metric, self.exclusions)

    def stack_of(self, cell: CellRecord) -> Mapping[str, Any]:
        """Return the stack of a cell as its scenario has it; empty where it is not known."""
        stacks = self.manifest.scenario.get("stacks") or {}
        only = next(iter(stacks.values())) if len(stacks) == 1 else {}
        return stacks.get(str(cell.levels.get(STACK)), only) or {}

    @cached_property
    def basis(self) -> RatioBasis:
        """The trials and findings that its ratios rest on."""
        return ratio_basis(self.trials, self.findings)

    @property
    def exclusions_between_runs(self) -> tuple[Exclusion, ...]:
        """Exclusions for values that no block joins, of which no random order makes a disturbance noise."""
        return (*self.exclusions, *self.disturbed)

    @property
    def design(self) -> Design:
        """Design of its scenario."""
        return design_of(self.manifest.scenario)

    @property
    def compared_run(self) -> ComparedRun:
        """Description of the run within a comparison."""
        return ComparedRun(
            run_id=self.manifest.run_id,
            scenario=self.manifest.scenario_name,
            scale=self.manifest.scale,
            seed=self.manifest.seed,
            design=self.design,
            status=self.manifest.status,
        )

    @cached_property
    def primary_metric(self) -> str:
        """Metric that its comparisons open with: the one that the load leaves free.

        It is the capacity where each block searches for it, and goodput where the target rate has a shape. Where every
        trial has a target rate, which is then no result, it is CPU per request; else requests per second.
        """
        compared = self.trials[self.trials["kind"].isin(["measure", "control"])]
        for metric in (CAPACITY, GOODPUT):
            if compared[metric].notna().any():
                return metric
        is_held = not compared.empty and bool(compared["rate_requested"].notna().all())
        return CPU if is_held and compared[CPU].notna().any() else RPS

    @property
    def limitation(self) -> str | None:
        """Reason why no ratio between cells of this run can decide anything; None: there is none."""
        is_sequential = self.design == "sequential"
        return "the design is sequential: the ratio includes drift between the cells" if is_sequential else None

    @property
    def alpha(self) -> float:
        """Significance level of each interval and test; stricter for a run that may end early."""
        until = until_of(self.manifest.scenario)
        return ALPHA if until is None else until.alpha


def read_run_data(store: Store, run: RunFolder, without: Iterable[Exclusion] | None = None) -> RunData:
    """Read a stored run. `without` are the exclusions to apply; None: those that follow from its verdicts.

    Raises InputError for a damaged run.
    """
    table = cache(partial(read_table, store, run.run_id))
    manifest, trials = load_trials(run, store)
    return replace(run_data_from_tables(manifest, trials, table("verdicts"), without, table), folder=run)


TELEMETRY = ("trial_id", "host", "service", "instance", "t_s", "metric", "value")
"""Columns of `telemetry` that comparisons and reports use."""


def read_table(store: Store, run_id: str, table: str) -> pd.DataFrame:
    """Return a table of a run; of telemetry, which may have a million rows, only the columns of `TELEMETRY`."""
    if table == "telemetry":
        return load_columns(table, TELEMETRY, store=store, run_id=run_id)
    return load(table, store=store, run_id=run_id)


def run_data_from_tables(
    manifest: Manifest,
    trials: pd.DataFrame,
    verdicts: pd.DataFrame,
    without: Iterable[Exclusion] | None = None,
    table: Callable[[str], pd.DataFrame] | None = None,
) -> RunData:
    """Return the same from tables that are already loaded: rows of one run.

    `table` reads the run's tables of profiles, if a claim is about them; None: such claims are not testable.
    """
    findings = findings_of(verdicts)
    disturbed = tuple(disturbed_trials(findings)) if without is None else ()
    if without is None:
        without = verdict_exclusions(trials, verdicts, manifest)
    asked = asked_ratio_of(manifest.scenario)
    metrics = {claim.metric for claim in claims_of(manifest.scenario)} | ({asked.metric} if asked else set())
    is_about_profiles = not metrics.isdisjoint(PROFILE_METRICS)
    profiled = _read_profile_trials(manifest, trials, verdicts, table) if table and is_about_profiles else None
    return RunData(manifest, trials, tuple(without), findings, disturbed, profiled, table)


def _read_profile_trials(
    manifest: Manifest, trials: pd.DataFrame, verdicts: pd.DataFrame, table: Callable[[str], pd.DataFrame]
) -> ProfileTrials | None:
    """Return the profiled trials of a run; `table` reads its other tables by name. None for a run without profiles."""
    profiled = trials[trials["kind"] == "profile"]
    if profiled.empty:
        return None
    rows = profiled.set_index("trial_id", drop=False).assign(kind="measure")
    shares = _single_service(table("profile_share"))
    by_category = shares.pivot_table(index="trial_id", columns="category", values="share", aggfunc="sum")
    by_category[HEADLINE] = by_category[by_category.columns.intersection(list(WAITING))].sum(axis="columns")
    columns = {f"{SHARE}{name}": by_category[name] for name in by_category.columns}
    for name, functions in studied_functions(_single_service(table("profile"))):
        sums = functions.groupby("trial_id")["cum_share"].sum()
        columns[f"{CUMULATIVE}{name}"] = sums.reindex(by_category.index, fill_value=0.0)
    for name in PROFILE_METRICS:
        values = columns.get(name)
        rows[name] = pd.NA if values is None else values.reindex(rows.index)
        rows[name] = pd.to_numeric(rows[name]).astype("float64")
    excluded = profile_pass_exclusions(trials, verdicts, manifest)
    return ProfileTrials(
        rows.reset_index(drop=True),
        tuple(Exclusion(each.trial_id, each.reason) for each in excluded if each.covers("rps")),
    )


def studied_functions(functions: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each function whose cumulative share a study states, with its rows of `profile`."""
    names = functions["function"].astype(str)
    for name, pattern in STUDIED.items():
        yield name, functions[np.array([pattern.match(each) is not None for each in names], dtype=bool)]


def profile_pass_exclusions(trials: pd.DataFrame, verdicts: pd.DataFrame, manifest: Manifest) -> tuple[Exclusion, ...]:
    """Return the exclusions in the passes, except for findings that observing itself causes.

    Excluding the trials that it slowed most would make it look cheap.
    """
    observed = verdicts["trial_id"].isin(trials["trial_id"][trials["kind"].isin(["profile", "trace"])])
    return verdict_exclusions(trials, verdicts[~(observed & verdicts["check"].isin(IGNORED_CHECKS))], manifest)


def _single_service(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows.groupby("trial_id")["service"].transform("nunique") == 1]
