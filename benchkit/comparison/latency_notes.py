"""Notes that accompany every shown latency: the loop, the correction, and what a latency covers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from benchkit.comparison.ratio import Ratio
from benchkit.stats.samples import is_comparable

CLOSED_LOOP = "closed loop: coordinated omission hides queueing"

_LATENCY = "latency_"
"""Prefix of the names of latency metrics."""

_KIND = ["rate_requested", "latency_from", "latency_corrected", "latency_covers"]
"""Columns of `trials` that describe how latencies were measured."""


def latency_notes(trials: pd.DataFrame) -> tuple[str, ...]:
    """Return how these latencies were measured: the loop, the correction, what a latency covers."""
    return (
        _loop(trials),
        _correction(trials["latency_corrected"]),
        _coverage(trials["latency_covers"]),
    )


def latency_note(trials: pd.DataFrame) -> str:
    """Return the notes as one line."""
    return "; ".join(part for part in latency_notes(trials) if part)


def _loop(trials: pd.DataFrame) -> str:
    """Describe the loop: without a target rate, a tool sends the next request only after an answer."""
    closed = trials["rate_requested"].isna()
    if closed.all():
        return CLOSED_LOOP
    at_rate = f"sent at a target rate, {_origin(trials.loc[~closed, 'latency_from'])}"
    return at_rate if not closed.any() else f"{at_rate}; {CLOSED_LOOP}, in the trials without a target rate"


def _origin(instants: pd.Series) -> str:
    """Describe from when times count under a target rate; runs before this column counted from sending."""
    from_due = instants.eq("due")
    if from_due.all():
        return "times from when a request was due"
    hidden = "times from when a request was sent: how long it waited for that is hidden"
    return hidden if not from_due.any() else f"{hidden}, in some trials"


def _correction(corrected: pd.Series) -> str:
    values = {None if pd.isna(value) else bool(value) for value in corrected}
    if len(values) != 1:
        return "the tool's own correction applied in some trials"
    words = {
        True: "the tool's own correction applied",
        False: "no correction applied",
        None: "the tool does not state a correction",
    }
    return words[values.pop()]


def _coverage(covers: pd.Series) -> str:
    values = {str(value) for value in covers.dropna()}
    words = {"request": "connecting not included", "connect+request": "connecting included"}
    return words.get(values.pop(), "") if len(values) == 1 else ""


def notices(metrics: Iterable[str], runs: Sequence[pd.DataFrame]) -> list[str]:
    """Return the notice above ratios of latencies, over the measured trials of all runs; none without such a metric."""
    if not any(metric.startswith(_LATENCY) for metric in metrics):
        return []
    measured = pd.concat([_kinds(trials) for trials in runs])
    return [] if measured.empty else [f"Latencies: {latency_note(measured)}."]


def with_latency_remarks(ratios: Iterable[Ratio], before: pd.DataFrame, after: pd.DataFrame) -> list[Ratio]:
    """Return the ratios of `after` to `before`, with a remark where latencies were measured in different ways."""
    kinds = [_kinds(trials) for trials in (before, after)]
    if len(pd.concat(kinds)[_KIND].drop_duplicates()) <= 1:
        return list(ratios)
    notes_before, notes_after = (
        {str(cell_id): latency_note(rows) for cell_id, rows in side.groupby("cell_id")} for side in kinds
    )
    annotated = []
    for ratio in ratios:
        own, base = notes_after.get(ratio.cell_id), notes_before.get(ratio.baseline)
        if ratio.metric.startswith(_LATENCY) and own != base and own and base:
            remark = f"latencies were measured in different ways: {own}; baseline: {base}"
            annotated.append(ratio.with_remarks([remark]))
        else:
            annotated.append(ratio)
    return annotated


def _kinds(trials: pd.DataFrame) -> pd.DataFrame:
    """Return how latencies of measured trials were measured, each way of a cell once; all target rates are one way."""
    kinds = trials.loc[is_comparable(trials), ["cell_id", *_KIND]]
    return kinds.assign(
        rate_requested=kinds["rate_requested"].where(kinds["rate_requested"].isna(), 1.0)
    ).drop_duplicates()
