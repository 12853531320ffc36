"""Checks of responses: unequal-responses (between cells, and under load), changed-response (over time)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import mode

import pandas as pd

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.judge.responses import ResponseKind, declared_traits, varying_traits
from benchkit.models.base import level_texts
from benchkit.models.protocol import has_streams
from benchkit.models.request import is_expected
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import ProbeRecord, ProbeRound, TrialRecord
from benchkit.stats.cell_pairs import baseline_pairs, scenario_baseline

NOT_PROBED = "its answers were not probed"
MIN_CHUNK_BYTES = 1024
"""Smallest chunk to expect: servers send their whole buffers, 2 kB and 4 kB in Go's net/http, pages in nginx."""
HTTP2_FRAME = 9
"""Size of the header of a frame (RFC 9113, 4.1)."""
CONNECTION = len("Connection: keep-alive\r\n")
"""Header that only an answer under load may have (RFC 9112, 9.3): to the HTTP/1.0 of ab, or `close` where other
connections wait for a thread, as in puma."""
_ROUNDING_BYTES = 0.005 * (1 << 20)
"""Half of the last digit of the megabytes that tools print; with a histogram, all but siege count bytes."""


def _bytes_under_load(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the bytes received per request under load with those of the probes.

    A tool counts the body, or the whole answer with its frames. At the end of the window every connection may have
    received part of an answer. Cells whose answers vary, by probes or by their scenario, are not compared.
    """
    record, requests, received = evidence.record, evidence.number("requests"), evidence.number("bytes_total")
    if not record.probes:
        return SkippedCheck(why=NOT_PROBED)
    if not requests or received is None:
        return SkippedCheck(why="the tool does not report how much it received")
    varying = varying_traits(evidence.scenario, level_texts(record.levels))
    if varying & {"body_bytes", "header_bytes"} or (evidence.number("non_2xx") or 0) > 0 or _varies(record):
        return ()
    low = min(probe.body_bytes for probe in record.probes)
    high = max(probe.header_bytes + probe.body_bytes for probe in record.probes)
    added = max(_frame_bytes(probe, record) for probe in record.probes) + CONNECTION
    tolerance = thresholds.bytes_per_request * high
    if not record.load.histogram or evidence.row.tool == "siege":
        tolerance += _ROUNDING_BYTES * len(record.generators) / requests
    per_request, unfinished = received / requests, record.load.in_flight / requests
    if low - tolerance <= per_request <= (high + added) * (1 + unfinished) + tolerance:
        return ()
    return [
        Finding(
            severity="invalid",
            metrics=ALL,
            seen=f"{per_request:.1f} bytes per request under load, but {low:,} to {high:,} in the probes",
            threshold=f"limit: a difference of {units.share(thresholds.bytes_per_request)}",
            means="Under load the server sent other answers than at rest.",
            advice="Read the tool's raw output for statuses and lengths.",
        )
    ]


def _kinds_of_cells(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare the kind of each trial's response with the usual kind of the baseline cell, or of the cell without one.

    Differences within a kind are stated with the ratio (`benchkit.judge.responses`); they are no finding.
    """
    manifest = evidence.manifest
    pairs, _ = baseline_pairs(manifest.cells, scenario_baseline(manifest.scenario, manifest.cells))
    baselines = {pair.cell_id: pair.baseline for pair in pairs}
    by_cell = {str(cell_id): _kinds(trials) for cell_id, trials in evidence.trials.groupby("cell_id", sort=False)}
    usual = {
        cell_id: mode(known)
        for cell_id, kinds in by_cell.items()
        if (known := [kind for kind in kinds.values() if kind])
    }
    results: dict[str, CheckResult] = {}
    for cell_id, kinds in by_cell.items():
        baseline = baselines.get(cell_id, cell_id)
        reference, declared = usual.get(baseline), declared_traits(manifest, (cell_id, baseline))
        for trial_id, kind in kinds.items():
            if kind is None or reference is None:
                results[trial_id] = SkippedCheck(why=NOT_PROBED)
            elif seen := list(kind.differences(reference, thresholds.answer_size, declared)):
                results[trial_id] = [
                    Finding(
                        severity="invalid",
                        metrics=ALL,
                        seen=f"{'; '.join(seen)} in most answers of {baseline}",
                        threshold="limit: the same status and media type, and bodies within a factor of "
                        f"{thresholds.answer_size:g}",
                        means="Servers that send different things do different work: the ratio of their rates does not "
                        "compare the servers alone.",
                        advice="Make the answers alike, or declare the difference: --differs, or `differs` with its reason in "
                        "the scenario.",
                    )
                ]
    return results


UNEQUAL_RESPONSES = Check(
    "unequal-responses", "the cells did not send the same thing", of_trial=_bytes_under_load, of_run=_kinds_of_cells
)


def _kinds(trials: pd.DataFrame) -> dict[str, ResponseKind | None]:
    names = ("trial_id", "probe_status", "probe_media_type", "probe_body_bytes", "probe_body_sha256")
    kinds: dict[str, ResponseKind | None] = {}
    for trial_id, status, media_type, size, sha256 in zip(*(trials[name] for name in names), strict=True):
        known = not (pd.isna(status) or pd.isna(size))
        texts = (each if isinstance(each, str) else None for each in (media_type, sha256))
        kinds[str(trial_id)] = ResponseKind(int(status), next(texts), float(size), next(texts)) if known else None
    return kinds


def _varies(record: TrialRecord) -> bool:
    """Return True where the bodies that the idle server sent before and after the load differ."""
    rounds = [each.responses for each in record.probe_rounds if each.moment in ("before", "after")]
    bodies = [[(probe.status, probe.body_sha256) for probe in probes] for probes in (record.probes, *rounds)]
    statuses = [status for status, _ in bodies[0]]
    return any(each != bodies[0] for each in bodies if [status for status, _ in each] == statuses)


def _frame_bytes(probe: ProbeRecord, record: TrialRecord) -> int:
    """Return the most bytes that frames add to an answer: of HTTP/2, or of its chunks (RFC 9112, 7.1)."""
    frames = math.ceil(probe.body_bytes / MIN_CHUNK_BYTES) + 1
    if has_streams(record.protocol):
        return frames * HTTP2_FRAME
    is_chunked = any(name.lower() == "transfer-encoding" for name, _ in probe.headers)
    return frames * len(f"{probe.body_bytes:x}\r\n\r\n") if is_chunked else 0


DIGESTS = {"during the load": "probe_during_sha256", "after the load": "probe_after_sha256"}
"""Column of `trials` with the body of a probe at each time."""
FIRST, AGAIN = "probe_body_sha256", "probe_again_sha256"
"""Columns with the bodies of the two probes before the load."""


def _later_responses(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the later responses with the first one by kind, and with the expected ones.

    `_changed_bodies` compares bodies of the same kind, as only several trials show if these vary by themselves.
    """
    later = [each for each in evidence.record.probe_rounds if each.moment != "before"]
    if not later:
        return SkippedCheck(why="its responses were probed only before the load")
    seen = [
        f"{clause} {'after' if each.moment == 'after' else 'during'} the load"
        for each in later
        for clause in _later_differences(each, evidence, thresholds)
    ]
    if seen:
        return [_changed_finding("; ".join(dict.fromkeys(seen)), "the response before it")]
    if not any(each.responses for each in later):
        return SkippedCheck(why=f"no probe was answered after the load began: {later[-1].failure}")
    return ()


def _changed_bodies(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """Find the trials whose body changed under load, in cells whose bodies do not vary by themselves."""
    levels = {cell.cell_id: level_texts(cell.levels) for cell in evidence.manifest.cells}
    results: dict[str, CheckResult] = {}
    for cell_id, trials in evidence.trials.groupby("cell_id", sort=False):
        if "body" in varying_traits(evidence.manifest.scenario, levels.get(str(cell_id), {})):
            continue
        changed = {when: _trials_with_another_body(trials, column) for when, column in DIGESTS.items()}
        for trial_id in dict.fromkeys(trial_id for trial_ids in changed.values() for trial_id in trial_ids):
            when = " and ".join(time for time, trial_ids in changed.items() if trial_id in trial_ids)
            finding = _changed_finding(f"another body {when}", "the body before it, unless it varies by itself")
            results[trial_id] = [finding]
    return results


CHANGED_RESPONSE = Check(
    "changed-response", "the server's responses changed under load", of_trial=_later_responses, of_run=_changed_bodies
)


def _later_differences(later: ProbeRound, evidence: Evidence, thresholds: Thresholds) -> Iterator[str]:
    """Yield the changes in the responses of a later probe; failed responses are left to the check `errors`."""
    if not all(is_expected(response.status, {None}) for response in later.responses):
        return
    yield from later.faults
    varying = varying_traits(evidence.scenario, level_texts(evidence.record.levels))
    for first, response in zip(evidence.record.probes, later.responses, strict=False):
        kind, usual = ResponseKind.of_probe(response), ResponseKind.of_probe(first)
        yield from kind.differences(usual, thresholds.answer_size, varying)


def _trials_with_another_body(trials: pd.DataFrame, column: str) -> Sequence[str]:
    """Return the trials of a cell whose later body is not the first one; none where bodies vary by themselves.

    Bodies vary where the two probes before a load differ, or where both the first and the later bodies differ between
    blocks. A server that breaks in the same way in every block ends in the same body.
    """
    compared = trials[trials[FIRST].notna() & trials[column].notna()]
    vary_at_once = (compared[AGAIN].notna() & (compared[AGAIN] != compared[FIRST])).any()
    if vary_at_once or all(len(set(compared[name])) > 1 for name in (FIRST, column)):
        return ()
    return tuple(map(str, compared.loc[compared[column] != compared[FIRST], "trial_id"]))


def _changed_finding(seen: str, limit: str) -> Finding:
    return Finding(
        severity="invalid",
        metrics=ALL,
        seen=seen,
        threshold=f"limit: {limit}",
        means="The load did not measure the work that the compared responses show.",
        advice="Send the request again after some load, as with curl, and read the server's log. If its responses are meant "
        "to change, declare that: --differs body, or `varies: true` in `differs` of the scenario.",
    )
