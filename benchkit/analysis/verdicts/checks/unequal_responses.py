"""The cells did not send the same thing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from benchkit import units
from benchkit.analysis.cell_pairs import baseline_pairs, level_texts, scenario_baseline
from benchkit.analysis.fairness import (
    COLUMNS,
    TRAITS,
    ResponseMismatch,
    declared_differences,
    response_mismatches,
    with_declared_reasons,
)
from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence, RunEvidence
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import ProbeRecord

MEANS = "Servers that send different things do different work: a ratio of their rates is no figure of theirs alone."
ADVICE = "Make the answers alike, or declare the difference and its reason in the scenario (differs)."

AS_HTTP_1_0 = frozenset({"ab"})
"""Tools that ask so; the probe asks as HTTP/1.1, as all others do."""

SMALL_CHUNK = 1024
"""Servers send what they have in their buffers, and those are larger: 2 kB and 4 kB in Go's net/http, pages in nginx."""

_PRINTED = 0.005 * (1 << 20)
"""Half of the last digit of the megabytes that tools print; with a histogram all but siege count bytes."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Bytes received for each request under load against those of the probe before it.

    Some tools count headers and some do not: either will do. A part of an answer on every connection may have come
    when time was up. A cell whose answers vary by themselves, as its scenario says, is not held to them; that cells
    differ from each other is no reason not to look.
    """
    probe, requests, received = evidence.record.probe, evidence.number("requests"), evidence.number("bytes_total")
    if not requests or received is None:
        return SkippedCheck(why="the tool does not say how much it received")
    if _lengths_vary(evidence) or (evidence.number("non_2xx") or 0) > 0:
        return ()
    each = received / requests
    inexact = 0.0 if evidence.record.load.histogram and evidence.row.tool != "siege" else _PRINTED / requests
    unfinished, frames = evidence.record.load.connections / requests, _frames(probe)
    for size in _sizes(evidence):
        room = thresholds.bytes_per_request * size + inexact
        if size - room <= each <= (size + frames) * (1 + unfinished) + room:
            return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{each:.1f} bytes for each request under load, where the probe had "
            f"{probe.header_bytes + probe.body_bytes} ({probe.body_bytes} of body)",
            threshold=f"beyond {units.share(thresholds.bytes_per_request)}",
            means="Under load the server did not answer as it does at rest.",
            advice="See the tool's raw output for statuses and lengths.",
        )
    ]


def of_run(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """The probe of each trial against what its baseline cell mostly answers, and that of a baseline against itself."""
    cells = evidence.manifest.cells
    pairs, _ = baseline_pairs(cells, scenario_baseline(evidence.manifest.scenario, cells))
    baselines = {pair.cell_id: pair.baseline for pair in pairs}
    answered = _answered(evidence.trials)
    usual = {cell_id: max(answers, key=lambda answer: len(answers[answer])) for cell_id, answers in answered.items()}
    found: dict[str, CheckResult] = {}
    for cell_id, answers in answered.items():
        baseline = baselines.get(cell_id, cell_id)
        for answer, trials in answers.items():
            reference = usual.get(baseline)
            if None in answer or reference is None or None in reference:
                found |= dict.fromkeys(trials, SkippedCheck(why="its answers were not probed"))
            elif answer != reference:
                found |= dict.fromkeys(trials, _reasons(cell_id, answer, baseline, reference, evidence))
    return found


CHECK = Check("unequal-responses", "the cells did not send the same thing", of_trial=of_trial, of_run=of_run)

Answer = tuple[str | None, ...]
"""What a probe was answered, a value for each of `TRAITS`; None: not known."""


def _answered(trials: pd.DataFrame) -> dict[str, dict[Answer, list[str]]]:
    """The trials of each cell by what they answered."""
    found: dict[str, dict[Answer, list[str]]] = {}
    columns = [_texts(trials[COLUMNS[trait]]) for trait in TRAITS]
    ids = [trials[name].to_list() for name in ("cell_id", "trial_id")]
    for cell_id, trial_id, *answer in zip(*ids, *columns, strict=True):
        found.setdefault(str(cell_id), {}).setdefault(tuple(answer), []).append(str(trial_id))
    return found


def _texts(values: pd.Series[Any]) -> list[str | None]:
    """Texts and whole numbers as text; None where there is none."""
    return [
        None if absent else value if isinstance(value, str) else str(int(value))
        for value, absent in zip(values.to_list(), values.isna().to_list(), strict=True)
    ]


def _reasons(cell_id: str, answer: Answer, baseline: str, reference: Answer, evidence: RunEvidence) -> list[Finding]:
    """What trials that answered otherwise than their baseline have against them."""
    one, other = (
        {trait: frozenset({value}) for trait, value in zip(TRAITS, each, strict=True) if value is not None}
        for each in (answer, reference)
    )
    found = with_declared_reasons(
        response_mismatches(cell_id, baseline, {cell_id: one}, {baseline: other}), evidence.manifest
    )
    undeclared = [each for each in found if each.declared_reason is None]
    if not undeclared:
        return []
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{_said(undeclared)}, in {baseline} as it mostly answers",
            threshold="the same status, lengths and body",
            means=MEANS,
            advice=ADVICE,
        )
    ]


def _said(found: list[ResponseMismatch]) -> str:
    return "; ".join(each.text for each in found)


def _sizes(evidence: Evidence) -> Sequence[int]:
    """What an answer may be counted as: its body, all of it, and where the tool asks otherwise than the probe, also that.

    To a request of HTTP/1.0 servers do not answer that they close the connection, but that they keep it (RFC 9112, 9.3).
    """
    probe = evidence.record.probe
    whole = probe.header_bytes + probe.body_bytes
    if evidence.row.tool not in AS_HTTP_1_0:
        return probe.body_bytes, whole
    said = sum(len(f"{name}: {value}\r\n") for name, value in probe.headers if name.lower() == "connection")
    return probe.body_bytes, whole, whole - said, whole - said + len("Connection: keep-alive\r\n")


def _frames(probe: ProbeRecord) -> int:
    """How long the frames of an answer in chunks may be (RFC 9112, 7.1), which the probe takes off and tools may count."""
    if not any(name.lower() == "transfer-encoding" for name, _ in probe.headers):
        return 0
    chunks = math.ceil(probe.body_bytes / SMALL_CHUNK) + 1
    return chunks * len(f"{probe.body_bytes:x}\r\n\r\n")


def _lengths_vary(evidence: Evidence) -> bool:
    """Whether the scenario says of this cell that no two of its answers need be of the same length."""
    levels: Mapping[str, str] = level_texts(evidence.record.levels)
    return any(
        each.varies
        and {"body_bytes", "header_bytes"} & set(each.what)
        and level_texts(each.cells).items() <= levels.items()
        for each in declared_differences(evidence.scenario)
    )
