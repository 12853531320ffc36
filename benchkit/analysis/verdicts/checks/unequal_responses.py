"""The cells did not send the same thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from benchkit import units
from benchkit.analysis.fairness import COLUMNS, Unlike, answers_by_cell, differences, judged, unlike
from benchkit.analysis.pairs import baseline_pairs, scenario_baseline, texts
from benchkit.analysis.verdicts.check import ALL, Check, Found, FoundInRun, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import Evidence, RunEvidence
from benchkit.scenario.thresholds import Thresholds

MEANS = "Servers that send different things do different work: a ratio of their rates is no figure of theirs alone."
ADVICE = "Make the answers alike, or declare the difference and its reason in the scenario (differs)."

_PRINTED = 0.005 * (1 << 20)
"""Half of the last digit of the megabytes that tools print; with a histogram all but siege count bytes."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> Found:
    """Bytes received for each request under load against those of the probe before it.

    Some tools count headers and some do not: either will do. A part of an answer on every connection may have come
    when time was up. A scenario that declares other lengths is not held to them.
    """
    probe, requests, received = evidence.record.probe, evidence.number("requests"), evidence.number("bytes_total")
    if not requests or received is None:
        return Unchecked(why="the tool does not say how much it received")
    if _lengths_may_differ(evidence) or (evidence.number("non_2xx") or 0) > 0:
        return ()
    each = received / requests
    inexact = 0.0 if evidence.record.load.histogram and evidence.row.get("tool") != "siege" else _PRINTED / requests
    unfinished = evidence.record.load.connections / requests
    expected = (probe.body_bytes, probe.header_bytes + probe.body_bytes)
    for size in expected:
        room = thresholds.bytes_per_request * size + inexact
        if size - room <= each <= size * (1 + unfinished) + room:
            return ()
    return [
        Reason(
            severity="invalid",
            metrics=ALL,
            seen=f"{each:.1f} bytes for each request under load, where the probe had {expected[1]} ({expected[0]} of body)",
            threshold=f"beyond {units.share(thresholds.bytes_per_request)}",
            means="Under load the server did not answer as it does at rest.",
            advice="See the tool's raw output for statuses and lengths.",
        )
    ]


def of_run(evidence: RunEvidence, _thresholds: Thresholds) -> FoundInRun:
    """The probe of each trial against what its baseline cell mostly answers, and that of a baseline against itself."""
    cells = evidence.manifest.cells
    pairs, _ = baseline_pairs(cells, scenario_baseline(evidence.manifest.scenario, cells))
    baselines = {pair.cell_id: pair.baseline for pair in pairs}
    columns = [column for column in COLUMNS.values() if column in evidence.trials]
    usual = _usual(evidence.trials, columns)
    found: dict[str, Found] = {}
    for (cell_id, *_), alike in evidence.trials.groupby(["cell_id", *columns], dropna=False):
        reference = usual.get(baselines.get(str(cell_id), str(cell_id)))
        if alike[columns].isna().to_numpy().all() or reference is None:
            found |= {str(trial): Unchecked(why="its answers were not probed") for trial in alike["trial_id"]}
            continue
        reasons = list(_reasons(alike, str(cell_id), reference, evidence))
        found |= {str(trial): reasons for trial in alike["trial_id"] if reasons}
    return found


CHECK = Check("unequal-responses", "the cells did not send the same thing", of_trial=of_trial, of_run=of_run)


def _usual(trials: pd.DataFrame, columns: list[str]) -> dict[str, pd.DataFrame]:
    """For each cell a trial that answered as most of its trials did."""
    most: dict[str, pd.DataFrame] = {}
    for cell_id, of_cell in trials.dropna(subset=columns).groupby("cell_id"):
        sizes = of_cell.groupby(columns)["trial_id"].transform("size")
        most[str(cell_id)] = of_cell.loc[[sizes.idxmax()]]
    return most


def _reasons(alike: pd.DataFrame, cell_id: str, reference: pd.DataFrame, evidence: RunEvidence) -> Iterator[Reason]:
    """What trials of a cell that answered alike have against them."""
    baseline = str(reference["cell_id"].iloc[0])
    found = unlike(cell_id, baseline, answers_by_cell(alike.iloc[:1]), answers_by_cell(reference))
    undeclared = [each for each in judged(found, evidence.manifest) if each.meant is None]
    if undeclared:
        yield Reason(
            severity="invalid",
            metrics=ALL,
            seen=f"{_said(undeclared)}, in {baseline} as it mostly answers",
            threshold="the same status, lengths and body",
            means=MEANS,
            advice=ADVICE,
        )


def _said(found: list[Unlike]) -> str:
    return "; ".join(each.text for each in found)


def _lengths_may_differ(evidence: Evidence) -> bool:
    """Whether the scenario says so of this cell: its answers may then vary from one to the next, too."""
    levels: Mapping[str, str] = texts(evidence.record.levels)
    return any(
        {"body_bytes", "header_bytes"} & set(each.what) and texts(each.cells).items() <= levels.items()
        for each in differences(evidence.scenario)
    )
