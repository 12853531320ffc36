"""Check unequal-responses: the cells did not send the same thing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from benchkit import units
from benchkit.analysis.cell_pairs import baseline_pairs, level_texts, scenario_baseline
from benchkit.analysis.fairness import (
    COLUMNS,
    TRAITS,
    declared_differences,
    response_mismatches,
    with_declared_reasons,
)
from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence, RunEvidence
from benchkit.models.protocol import is_http2
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import ProbeRecord, TrialRecord

HTTP_1_0_TOOLS = frozenset({"ab"})
"""Tools that send HTTP/1.0 requests; all others and the probe send HTTP/1.1."""

NOT_PROBED = "its answers were not probed"

MIN_CHUNK_BYTES = 1024
"""Smallest chunk to expect: servers send their whole buffers, 2 kB and 4 kB in Go's net/http, pages in nginx."""

HTTP2_FRAME = 9
"""Size of the header of a frame (RFC 9113, 4.1)."""

STANDARD_ERRORS = 4
"""Standard errors by which drawn requests may deviate: a normal variable does so once in 16,000 cases."""

_ROUNDING_BYTES = 0.005 * (1 << 20)
"""Half of the last digit of the megabytes that tools print; with a histogram, all but siege count bytes."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the bytes received per request under load with those of the probe before it.

    Tools may count headers or not: either is accepted. At the end of the window every connection may have received
    part of an answer. Cells whose answers vary in length, as their scenario declares, are skipped; a declared
    difference between cells does not matter here.
    """
    record, requests, received = evidence.record, evidence.number("requests"), evidence.number("bytes_total")
    if not record.probes:
        return SkippedCheck(why=NOT_PROBED)
    if not requests or received is None:
        return SkippedCheck(why="the tool does not report how much it received")
    if _lengths_vary(evidence) or (evidence.number("non_2xx") or 0) > 0:
        return ()
    per_request = received / requests
    counts_bytes = record.load.histogram and evidence.row.tool != "siege"
    rounding = 0.0 if counts_bytes else _ROUNDING_BYTES * len(record.generators) / requests
    unfinished, frames = record.load.in_flight / requests, _mean(record, map(_chunk_frames, record.probes))
    mixed = _mix_tolerance(record, requests)
    if is_http2(record.protocol):
        sizes = _http2_sizes(record)
        if sizes[0] * (1 - thresholds.bytes_per_request) - mixed <= per_request <= sizes[1] * (1 + unfinished) + mixed:
            return ()
    for size in () if is_http2(record.protocol) else _accepted_sizes(evidence):
        tolerance = thresholds.bytes_per_request * size + rounding + mixed
        if size - tolerance <= per_request <= (size + frames) * (1 + unfinished) + tolerance:
            return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{per_request:.1f} bytes per request under load, but {_mean(record, map(_whole, record.probes)):g} "
            f"in the probe ({_mean(record, (probe.body_bytes for probe in record.probes)):g} of them body)",
            threshold=f"limit: a difference of {units.share(thresholds.bytes_per_request)}",
            means="Under load the server sent other answers than at rest.",
            advice="Read the tool's raw output for statuses and lengths.",
        )
    ]


def of_run(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """Compare each trial's probe with the most frequent answer of its baseline cell, or of its own if that is it."""
    cells = evidence.manifest.cells
    pairs, _ = baseline_pairs(cells, scenario_baseline(evidence.manifest.scenario, cells))
    baselines = {pair.cell_id: pair.baseline for pair in pairs}
    by_cell = _trials_by_answer(evidence.trials)
    usual = {cell_id: max(answers, key=lambda answer: len(answers[answer])) for cell_id, answers in by_cell.items()}
    results: dict[str, CheckResult] = {}
    for cell_id, answers in by_cell.items():
        baseline = baselines.get(cell_id, cell_id)
        for answer, trial_ids in answers.items():
            reference = usual.get(baseline)
            if None in answer or reference is None or None in reference:
                results |= dict.fromkeys(trial_ids, SkippedCheck(why=NOT_PROBED))
            elif answer != reference:
                results |= dict.fromkeys(trial_ids, _findings(cell_id, answer, baseline, reference, evidence))
    return results


CHECK = Check("unequal-responses", "the cells did not send the same thing", of_trial=of_trial, of_run=of_run)

Answer = tuple[str | None, ...]
"""Answer to a probe, a value for each of `TRAITS`; None: unknown."""


def _trials_by_answer(trials: pd.DataFrame) -> dict[str, dict[Answer, list[str]]]:
    """Group the trials of each cell by the answer to their probe."""
    by_cell: dict[str, dict[Answer, list[str]]] = {}
    columns = [_texts(trials[COLUMNS[trait]]) for trait in TRAITS]
    ids = [trials[name].to_list() for name in ("cell_id", "trial_id")]
    for cell_id, trial_id, *answer in zip(*ids, *columns, strict=True):
        by_cell.setdefault(str(cell_id), {}).setdefault(tuple(answer), []).append(str(trial_id))
    return by_cell


def _texts(values: pd.Series[Any]) -> list[str | None]:
    """Return texts and whole numbers as text; None for absent values."""
    return [
        None if absent else value if isinstance(value, str) else str(int(value))
        for value, absent in zip(values.to_list(), values.isna().to_list(), strict=True)
    ]


def _findings(cell_id: str, answer: Answer, baseline: str, reference: Answer, evidence: RunEvidence) -> list[Finding]:
    """Return the findings about trials with this answer: none if the scenario declares the difference."""
    own, expected = (
        {trait: frozenset({value}) for trait, value in zip(TRAITS, each, strict=True) if value is not None}
        for each in (answer, reference)
    )
    mismatches = response_mismatches(cell_id, baseline, {cell_id: own}, {baseline: expected})
    explained = with_declared_reasons(mismatches, evidence.manifest)
    undeclared = [each.text for each in explained if each.declared_reason is None]
    if not undeclared:
        return []
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{'; '.join(undeclared)} in most answers of {baseline}",
            threshold="limit: the same status, lengths and body",
            means="Servers that send different things do different work: the ratio of their rates does not compare the "
            "servers alone.",
            advice="Make the answers equal, or declare the difference and its reason in the scenario (differs).",
        )
    ]


def _accepted_sizes(evidence: Evidence) -> Sequence[float]:
    """Return the sizes that tools may count for an answer: its body, all of it, and all of an answer to HTTP/1.0.

    Of several requests, they are the means by weight.
    """
    by_probe = [_sizes_of_answer(probe, evidence.row.tool) for probe in evidence.record.probes]
    return [_mean(evidence.record, sizes) for sizes in zip(*by_probe, strict=True)]


def _http2_sizes(record: TrialRecord) -> tuple[float, float]:
    """Return the least and the most bytes of an answer over HTTP/2, means by weight.

    Fields that were sent before take a byte or two each (HPACK, RFC 7541), so anything from the body alone up to the
    uncompressed fields with the headers of all frames is the same answer.
    """
    frames = [HTTP2_FRAME * (math.ceil(probe.body_bytes / MIN_CHUNK_BYTES) + 1) for probe in record.probes]
    whole = [_whole(probe) + size for probe, size in zip(record.probes, frames, strict=True)]
    return _mean(record, (probe.body_bytes for probe in record.probes)), _mean(record, whole)


def _sizes_of_answer(probe: ProbeRecord, tool: str | None) -> Sequence[int]:
    """Return the same of one request.

    In answers to HTTP/1.0, servers announce that they keep the connection, not that they close it (RFC 9112, 9.3).
    """
    whole = _whole(probe)
    if tool not in HTTP_1_0_TOOLS:
        return probe.body_bytes, whole
    header = sum(len(f"{name}: {value}\r\n") for name, value in probe.headers if name.lower() == "connection")
    return probe.body_bytes, whole, whole - header, whole - header + len("Connection: keep-alive\r\n")


def _whole(probe: ProbeRecord) -> int:
    return probe.header_bytes + probe.body_bytes


def _mean(record: TrialRecord, values: Iterable[float]) -> float:
    """Return the mean of a value of each request, by the weights of the requests."""
    weights = [request.weight for request in record.load.request_mix]
    return sum(weight * value for weight, value in zip(weights, values, strict=True)) / sum(weights)


def _mix_tolerance(record: TrialRecord, requests: float) -> float:
    """Return how far the mean size may be off because requests of different sizes are not sent exactly by weight.

    Drawn requests have a standard error; in a list that every connection goes through, the last round is incomplete.
    """
    sizes = [_whole(probe) for probe in record.probes]
    mean = _mean(record, sizes)
    deviation = math.sqrt(_mean(record, ((size - mean) ** 2 for size in sizes)))
    incomplete = record.load.in_flight * len(sizes) * (max(sizes) - min(sizes)) / requests
    return STANDARD_ERRORS * deviation / math.sqrt(requests) + incomplete


def _chunk_frames(probe: ProbeRecord) -> int:
    """Return the possible size of chunk frames (RFC 9112, 7.1), which the probe removes and tools may count."""
    if not any(name.lower() == "transfer-encoding" for name, _ in probe.headers):
        return 0
    chunks = math.ceil(probe.body_bytes / MIN_CHUNK_BYTES) + 1
    return chunks * len(f"{probe.body_bytes:x}\r\n\r\n")


def _lengths_vary(evidence: Evidence) -> bool:
    """Return True if the scenario declares that answers within this cell vary in length."""
    levels: Mapping[str, str] = level_texts(evidence.record.levels)
    return any(
        each.varies
        and {"body_bytes", "header_bytes"} & set(each.what)
        and level_texts(each.cells).items() <= levels.items()
        for each in declared_differences(evidence.scenario)
    )
