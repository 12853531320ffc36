"""Check unequal-responses: the cells did not send the same thing."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from statistics import median, mode
from typing import get_args

import pandas as pd

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.judge.responses import ResponseKind, declared_traits, similar_sizes, varying_traits
from benchkit.models.base import level_texts
from benchkit.models.protocol import has_streams
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import ProbeMoment, ProbeRecord, TrialRecord
from benchkit.stats.cell_pairs import baseline_pairs, scenario_baseline

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
    """Compare the bytes received per request under load with those of the probes.

    At the end of the window every connection may have received part of an answer. Cells whose answers vary in length,
    as their scenario declares, are skipped; a declared difference between cells does not matter here.
    """
    record, requests, received = _as_sent(evidence), evidence.number("requests"), evidence.number("bytes_total")
    if not record.probes:
        return SkippedCheck(why=NOT_PROBED)
    if not requests or received is None:
        return SkippedCheck(why="the tool does not report how much it received")
    varying = varying_traits(evidence.scenario, level_texts(record.levels))
    if varying & {"body_bytes", "header_bytes"} or (evidence.number("non_2xx") or 0) > 0:
        return ()
    per_request = received / requests
    counts_bytes = record.load.histogram and evidence.row.tool != "siege"
    rounding = 0.0 if counts_bytes else _ROUNDING_BYTES * len(record.generators) / requests
    unfinished, mixed = record.load.in_flight / requests, _mix_tolerance(record, requests)
    for low, high in _accepted_sizes(record, evidence.row.tool, thresholds.answer_size):
        tolerance = thresholds.bytes_per_request * low + rounding + mixed
        if low - tolerance <= per_request <= high * (1 + unfinished) + tolerance:
            return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{per_request:.1f} bytes per request under load, but {_mean(record, map(_whole, record.probes)):g} "
            f"in the probe ({_mean(record, (probe.body_bytes for probe in record.probes)):g} of them body)",
            threshold=f"limit: a difference of {units.share(thresholds.bytes_per_request)}"
            + (f", and a factor of {thresholds.answer_size:g} as the body varies" if _varies(record) else ""),
            means="Under load the server sent other answers than at rest.",
            advice="Read the tool's raw output for statuses and lengths.",
        )
    ]


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare the kind of each trial's response with the usual kind of its baseline cell (a baseline is its own).

    How responses of one kind differ is stated with their ratio (`benchkit.judge.responses`), and is no finding.
    """
    manifest = evidence.manifest
    pairs, _ = baseline_pairs(manifest.cells, scenario_baseline(manifest.scenario, manifest.cells))
    baselines = {pair.cell_id: pair.baseline for pair in pairs}
    by_cell = {str(cell_id): dict(_kinds(trials)) for cell_id, trials in evidence.trials.groupby("cell_id", sort=False)}
    usual = {cell_id: _usual([kind for kind in kinds.values() if kind]) for cell_id, kinds in by_cell.items()}
    results: dict[str, CheckResult] = {}
    for cell_id, kinds in by_cell.items():
        baseline = baselines.get(cell_id, cell_id)
        reference, declared = usual.get(baseline), declared_traits(manifest, (cell_id, baseline))
        for trial_id, kind in kinds.items():
            if kind is None or reference is None:
                results[trial_id] = SkippedCheck(why=NOT_PROBED)
            elif seen := list(kind.differences(reference, thresholds.answer_size, declared)):
                results[trial_id] = [_finding("; ".join(seen), baseline, thresholds)]
    return results


CHECK = Check("unequal-responses", "the cells did not send the same thing", of_trial=of_trial, of_run=of_run)


def _kinds(trials: pd.DataFrame) -> Iterator[tuple[str, ResponseKind | None]]:
    names = ("trial_id", "probe_status", "probe_media_type", "probe_body_bytes", "probe_body_sha256")
    for trial_id, status, media_type, size, sha256 in zip(*(trials[name] for name in names), strict=True):
        known = not (pd.isna(status) or pd.isna(size))
        kind = ResponseKind(int(status), _text(media_type), float(size), _text(sha256)) if known else None
        yield str(trial_id), kind


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _usual(kinds: Sequence[ResponseKind]) -> ResponseKind | None:
    """Return the most frequent value of each trait, and the median size; None without any response."""
    if not kinds:
        return None
    return ResponseKind(
        mode(kind.status for kind in kinds),
        mode(kind.media_type for kind in kinds),
        median(kind.body_bytes for kind in kinds),
        mode(kind.body_sha256 for kind in kinds),
    )


def _finding(seen: str, baseline: str, thresholds: Thresholds) -> Finding:
    return Finding(
        severity="invalid",
        metrics=ALL,
        seen=f"{seen} in most answers of {baseline}",
        threshold=f"limit: the same status and media type, and bodies within a factor of {thresholds.answer_size:g}",
        means="Servers that send different things do different work: the ratio of their rates does not compare the "
        "servers alone.",
        advice="Make the answers alike, or declare the difference: --differs, or `differs` with its reason in the "
        "scenario.",
    )


def _as_sent(evidence: Evidence) -> TrialRecord:
    """Return the record with the weights that its classes had in the window, which has only a part of the log."""
    record = evidence.record
    factors = {each.request_class: each.requests / each.weight for each in evidence.classes}
    if not any(factors.values()):
        return record
    requests = tuple(
        each.model_copy(update={"weight": each.weight * factors[each.class_name]}) for each in record.load.requests
    )
    return record.model_copy(update={"load": record.load.model_copy(update={"requests": requests})})


def _varies(record: TrialRecord) -> bool:
    """Return True where the bodies that the idle server sent before and after the load differ."""
    digests = [[probe.body_sha256 for probe in probes] for probes in _answered(record, ("before", "after"))]
    return any(each != digests[0] for each in digests)


def _answered(record: TrialRecord, moments: Collection[ProbeMoment]) -> list[tuple[ProbeRecord, ...]]:
    """Return the first responses of a trial, and those of its further probes that have the same status."""
    statuses = [probe.status for probe in record.probes]
    later = [each.responses for each in record.probe_rounds if each.moment in moments]
    return [record.probes, *(each for each in later if [probe.status for probe in each] == statuses)]


def _accepted_sizes(record: TrialRecord, tool: str | None, factor: float) -> Iterator[tuple[float, float]]:
    """Yield ranges of sizes that tools may count for an answer; of several requests, means by weight.

    A tool counts the body, the whole answer, or the whole answer to HTTP/1.0, each perhaps with its chunk frames. Where
    bodies vary, all sizes of the same kind as the probes' are accepted.
    """
    frames = _mean(record, map(_chunk_frames, record.probes))
    if _varies(record):
        bodies = [
            _mean(record, (probe.body_bytes for probe in probes)) for probes in _answered(record, get_args(ProbeMoment))
        ]
        headers = _mean(record, (probe.header_bytes for probe in record.probes))
        yield similar_sizes(min(bodies), factor)[0], similar_sizes(max(bodies), factor)[1] + headers + frames
    elif has_streams(record.protocol):
        yield _http2_sizes(record)
    else:
        by_probe = [_sizes_of_answer(probe, tool) for probe in record.probes]
        for sizes in zip(*by_probe, strict=True):
            yield _mean(record, sizes), _mean(record, sizes) + frames


def _http2_sizes(record: TrialRecord) -> tuple[float, float]:
    """Return the least and the most bytes of an answer over HTTP/2 or HTTP/3, means by weight.

    Fields that were sent before take a byte or two each (HPACK, RFC 7541). An answer may therefore have any size from
    the body alone up to the uncompressed fields with the headers of all frames.
    """
    frames = [HTTP2_FRAME * (math.ceil(probe.body_bytes / MIN_CHUNK_BYTES) + 1) for probe in record.probes]
    whole = [_whole(probe) + size for probe, size in zip(record.probes, frames, strict=True)]
    return _mean(record, (probe.body_bytes for probe in record.probes)), _mean(record, whole)


def _sizes_of_answer(probe: ProbeRecord, tool: str | None) -> Sequence[int]:
    """Return the sizes that a tool may count for the answer to one request.

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
