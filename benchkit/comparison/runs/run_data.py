"""Stored runs, read for comparisons: trials, exclusions and findings, and the shares of profiled trials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np
import pandas as pd

from benchkit.judge.checks import between_trials, conditions
from benchkit.judge.evidence import Severity
from benchkit.judge.responses import Answers, answers_by_cell
from benchkit.judge.verdicts import exclusions as verdict_exclusions
from benchkit.models.base import Frozen
from benchkit.models.design import Design, design_of, until_of
from benchkit.models.metrics import CAPACITY, CPU, GOODPUT, RPS
from benchkit.models.profile import CUMULATIVE, HEADLINE, PROFILE_METRICS, SHARE, STUDIED, WAITING
from benchkit.models.run import Manifest
from benchkit.models.trial import TrialRecord
from benchkit.stats.inference import ALPHA
from benchkit.stats.samples import Exclusion, Samples, is_comparable, take_samples
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import load, load_trials

NOISY_HOST = "noisy-host"
DISTURBANCES = frozenset({NOISY_HOST, "throttled", "stalled", "busy-neighbour"})
"""Checks of what takes CPU time from servers, apart from their load."""

TOOL_IS_LIMIT = frozenset({"generator-saturated"})
"""Check of a load tool that is the limit."""

OUTSIDE = DISTURBANCES - {"busy-neighbour"}
"""Checks of disturbances from outside the run."""


@dataclass(frozen=True)
class StoredFinding:
    """A finding about metrics of a trial."""

    trial_id: str
    check: str
    severity: Severity
    metrics: frozenset[str]


@dataclass(frozen=True, eq=False)
class RatioBasis:
    """Trials that the ratios of one run use, the findings about them, and the programs that disturbed them."""

    trials: Mapping[str, Sequence[str]]
    """Measured trials, by cell."""
    findings: Mapping[str, Mapping[str, Sequence[StoredFinding]]]
    """Findings, by metric and trial."""
    programs: Mapping[str, tuple[str, float]]
    """The busiest program outside of the run, `python3 (pid 12290)`, and the cores that it used: by trial, if known."""


IGNORED_CHECKS = (conditions.OBSERVED.code, between_trials.COLD.code)
"""Checks whose findings profiling itself causes: perf starts in the first third of the window and slows it."""


LATENCY_KIND = ["rate_requested", "latency_from", "latency_corrected", "latency_covers"]
"""Columns of `trials` that describe how latencies were measured."""


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
    """A run: its manifest, its trials, their exclusions, and the findings about them."""

    manifest: Manifest
    trials: pd.DataFrame
    exclusions: tuple[Exclusion, ...] = ()
    findings: tuple[StoredFinding, ...] = ()
    disturbed: tuple[Exclusion, ...] = ()
    """Disturbed trials, which only ratios within a block may use: see `exclusions_between_runs`."""
    table: Callable[[str], pd.DataFrame] | None = None
    """Function that reads another table of the run by its name; None: no other table is known."""
    folder: RunFolder | None = None
    """Folder with its raw files, which may be missing; None: there is none."""

    def samples(self, metric: str) -> Samples:
        """Return the samples of a metric of its measured trials.

        Ratios, claims, capacities and the rule for repeated blocks all use these samples, and so exclude the same
        trials. Raises InputError for a metric that is not a numeric column.
        """
        return take_samples(self.trials, metric, self.exclusions)

    def rows(self, table: str) -> pd.DataFrame:
        """Return another table of the run; empty, and without columns, if only its trials were read."""
        return pd.DataFrame() if self.table is None else self.table(table)

    @cached_property
    def pass_exclusions(self) -> tuple[Exclusion, ...]:
        """Exclusions in the passes of profiles and traces; none if only its trials were read."""
        return () if self.table is None else profile_pass_exclusions(self.trials, self.rows("verdicts"), self.manifest)

    @cached_property
    def held(self) -> RunData | None:
        """Its trials at a held rate, as measured trials of a run; None where there is none.

        First ones at a higher rate, which the load tool did not hold, are left out.
        """
        rows = self.trials[self.trials["kind"] == "held"]
        rates = rows["rate_requested"].astype("float64")
        rows = rows[~(rates > rates.groupby(rows["cell_id"]).transform("last"))]
        return None if rows.empty else replace(self, trials=rows.assign(kind="measure").reset_index(drop=True))

    @cached_property
    def profiled(self) -> tuple[pd.DataFrame, tuple[Exclusion, ...]] | None:
        """Its profiled trials with a column for each profile metric, and those to exclude; None where there is none.

        A share is of the one profiled service; it is unknown if a trial has profiles of several services. Excluded are
        trials whose load was not as requested.
        """
        has_profiles = self.table is not None and self.trials["kind"].eq("profile").any()
        return _profile_trials(self) if has_profiles else None

    def records(self, trial_ids: Iterable[str]) -> Iterator[TrialRecord]:
        """Yield the records of the trials whose raw files the store has."""
        if self.folder is not None:
            here = set(self.folder.complete_trials())
            yield from (self.folder.record(trial_id) for trial_id in trial_ids if trial_id in here)

    @cached_property
    def comparable(self) -> pd.DataFrame:
        """Its trials that ratios may use."""
        return self.trials[is_comparable(self.trials)]

    @cached_property
    def answers(self) -> Mapping[str, Answers]:
        """Answers to the probes of each cell."""
        return answers_by_cell(self.comparable)

    @cached_property
    def latency_kinds(self) -> pd.DataFrame:
        """Ways in which latencies were measured, a row for each cell and way; all target rates are one way."""
        kinds = self.comparable[["cell_id", *LATENCY_KIND]]
        has_rate = kinds["rate_requested"].notna()
        return kinds.assign(rate_requested=kinds["rate_requested"].mask(has_rate, 1.0)).drop_duplicates()

    @cached_property
    def basis(self) -> RatioBasis:
        """The trials and findings that its ratios rest on."""
        measured = self.comparable
        of_cells: defaultdict[str, list[str]] = defaultdict(list)
        for cell_id, trial_id in zip(measured["cell_id"], measured["trial_id"], strict=True):
            of_cells[str(cell_id)].append(str(trial_id))
        by_metric: defaultdict[str, defaultdict[str, list[StoredFinding]]] = defaultdict(lambda: defaultdict(list))
        for finding in self.findings:
            for metric in finding.metrics:
                by_metric[metric][finding.trial_id].append(finding)
        known = measured[measured["other_program"].notna()] if "other_program" in measured else measured.head(0)
        columns = (known[name] for name in ("trial_id", "other_program", "other_program_cores") if name in known)
        programs = {str(trial_id): (str(name), float(cores)) for trial_id, name, cores in zip(*columns, strict=True)}
        return RatioBasis(of_cells, by_metric, programs)

    @property
    def exclusions_between_runs(self) -> tuple[Exclusion, ...]:
        """Exclusions for comparisons across blocks, where disturbances are no noise."""
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
        """Metric that its comparisons open with: a result that the load does not set.

        It is the capacity where each block searches for it, and goodput where the target rate has a shape. Where every
        trial has a target rate, it is CPU per request; else requests per second.
        """
        compared = self.trials[self.trials["kind"].isin(["measure", "control"])]
        for metric in (CAPACITY, GOODPUT):
            if compared[metric].notna().any():
                return metric
        return CPU if self.is_held and compared[CPU].notna().any() else RPS

    @property
    def is_held(self) -> bool:
        """True where every compared trial has a target rate."""
        compared = self.trials[self.trials["kind"].isin(["measure", "control"])]
        return not compared.empty and bool(compared["rate_requested"].notna().all())

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
    """Read a stored run; `without` are its exclusions, None: those by its verdicts. Raises InputError if damaged."""
    table = cache(partial(read_table, store, run.run_id))
    manifest, trials = load_trials(run, store)
    return run_data_from_tables(manifest, trials, table("verdicts"), without, table=table, folder=run)


TELEMETRY = ("trial_id", "host", "service", "instance", "t_s", "metric", "value")
"""Columns of `telemetry` that comparisons and reports use."""


def read_table(store: Store, run_id: str, table: str) -> pd.DataFrame:
    """Return a table of a run; of telemetry, which may have a million rows, only the columns of `TELEMETRY`."""
    if table == "telemetry":
        return load(table, store=store, run_id=run_id, columns=TELEMETRY)
    return load(table, store=store, run_id=run_id)


def run_data_from_tables(
    manifest: Manifest,
    trials: pd.DataFrame,
    verdicts: pd.DataFrame,
    without: Iterable[Exclusion] | None = None,
    *,
    table: Callable[[str], pd.DataFrame] | None = None,
    folder: RunFolder | None = None,
) -> RunData:
    """Return the data of a run from tables of its rows; `table` reads its other tables by name."""
    columns = (verdicts[name] for name in ("trial_id", "check", "severity", "metrics"))
    findings = tuple(
        StoredFinding(str(trial_id), str(check), severity, frozenset(map(str, metrics)))
        for trial_id, check, severity, metrics in zip(*columns, strict=True)
    )
    disturbed: tuple[Exclusion, ...] = ()
    if without is None:
        # Findings about a slow clock do not name CPU time, and exclude nothing: the clock is a property of the host.
        disturbed = tuple(
            Exclusion(each.trial_id, f"disturbed: {each.check}", each.metrics)
            for each in findings
            if each.check in OUTSIDE and each.severity == "suspect" and CPU in each.metrics
        )
        without = verdict_exclusions(trials, verdicts, manifest)
    return RunData(manifest, trials, tuple(without), findings, disturbed, table, folder)


def _profile_trials(run: RunData) -> tuple[pd.DataFrame, tuple[Exclusion, ...]]:
    rows = run.trials[run.trials["kind"] == "profile"].set_index("trial_id", drop=False).assign(kind="measure")
    shares = _single_service(run.rows("profile_share"))
    by_category = shares.pivot_table(index="trial_id", columns="category", values="share", aggfunc="sum")
    by_category[HEADLINE] = by_category[by_category.columns.intersection(list(WAITING))].sum(axis="columns")
    columns = {f"{SHARE}{name}": by_category[name] for name in by_category.columns}
    for name, functions in studied_functions(_single_service(run.rows("profile"))):
        sums = functions.groupby("trial_id")["cum_share"].sum()
        columns[f"{CUMULATIVE}{name}"] = sums.reindex(by_category.index, fill_value=0.0)
    for name in PROFILE_METRICS:
        values = columns.get(name)
        rows[name] = pd.NA if values is None else values.reindex(rows.index)
        rows[name] = pd.to_numeric(rows[name]).astype("float64")
    excluded = tuple(Exclusion(each.trial_id, each.reason) for each in run.pass_exclusions if each.covers(RPS))
    return rows.reset_index(drop=True), excluded


def studied_functions(functions: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each function whose cumulative share a study states, with its rows of `profile`."""
    names = functions["function"].astype(str)
    for name, pattern in STUDIED.items():
        yield name, functions[np.array([pattern.match(each) is not None for each in names], dtype=bool)]


def profile_pass_exclusions(trials: pd.DataFrame, verdicts: pd.DataFrame, manifest: Manifest) -> tuple[Exclusion, ...]:
    """Return the exclusions in the passes, without findings that profiling itself causes.

    To exclude the trials that it slowed most would understate its cost.
    """
    observed = verdicts["trial_id"].isin(trials["trial_id"][trials["kind"].isin(["profile", "trace"])])
    return verdict_exclusions(trials, verdicts[~(observed & verdicts["check"].isin(IGNORED_CHECKS))], manifest)


def _single_service(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows.groupby("trial_id")["service"].transform("nunique") == 1]
