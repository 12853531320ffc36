"""Findings about the trials of a stored run, and the basis of its ratios."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from benchkit.judge.evidence import Severity
from benchkit.models.metrics import CPU
from benchkit.stats.samples import Exclusion, is_comparable

NOISY_HOST = "noisy-host"
DISTURBANCES = frozenset({NOISY_HOST, "throttled", "stalled", "busy-neighbour"})
"""Checks of causes, other than their load, that take CPU time from servers."""

OUTSIDE = DISTURBANCES - {"busy-neighbour"}
"""Checks of disturbances from outside the run."""


@dataclass(frozen=True)
class StoredFinding:
    """A finding about the metrics of a trial that `metrics` names."""

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


def findings_of(verdicts: pd.DataFrame) -> tuple[StoredFinding, ...]:
    """Return the rows of `verdicts` as findings."""
    columns = (verdicts[name] for name in ("trial_id", "check", "severity", "metrics"))
    return tuple(
        StoredFinding(str(trial_id), str(check), severity, frozenset(map(str, metrics)))
        for trial_id, check, severity, metrics in zip(*columns, strict=True)
    )


def disturbed_trials(findings: Iterable[StoredFinding]) -> Iterator[Exclusion]:
    """Yield trials that something outside the run disturbed, as exclusions for values compared across blocks.

    Findings about a slow clock do not name CPU time and exclude nothing: the clock is a property of the host.
    """
    for each in findings:
        if each.check in OUTSIDE and each.severity == "suspect" and CPU in each.metrics:
            yield Exclusion(each.trial_id, f"disturbed: {each.check}", each.metrics)


def ratio_basis(trials: pd.DataFrame, findings: Iterable[StoredFinding]) -> RatioBasis:
    """Return the basis of the ratios of one run, from its rows of `trials`."""
    measured = trials[is_comparable(trials)]
    of_cells: defaultdict[str, list[str]] = defaultdict(list)
    for cell_id, trial_id in zip(measured["cell_id"], measured["trial_id"], strict=True):
        of_cells[str(cell_id)].append(str(trial_id))
    by_metric: defaultdict[str, defaultdict[str, list[StoredFinding]]] = defaultdict(lambda: defaultdict(list))
    for finding in findings:
        for metric in finding.metrics:
            by_metric[metric][finding.trial_id].append(finding)
    known = measured[measured["other_program"].notna()] if "other_program" in measured else measured.head(0)
    columns = (known[name] for name in ("trial_id", "other_program", "other_program_cores") if name in known)
    programs = {str(trial_id): (str(name), float(cores)) for trial_id, name, cores in zip(*columns, strict=True)}
    return RatioBasis(of_cells, by_metric, programs)
