"""Summary of a run at its end: cells, ratios, claims, and where everything is stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchkit import units
from benchkit.cli.console import print_json, print_table, say
from benchkit.units import counted

if TYPE_CHECKING:
    from benchkit.comparison.compare import RunComparison
    from benchkit.comparison.ratios import Ratio
    from benchkit.comparison.runs.run_data import RunData
    from benchkit.run.recorder import RunOutcome
    from benchkit.store.store import Store


def say_not_restored(outcome: RunOutcome) -> None:
    """Print the hosts that are not restored, or whose restoration is unconfirmed, each with the reason."""
    for why in outcome.not_restored.values():
        say(f"benchkit: not restored: {why}\n  → the record is kept on the host; run `benchkit hosts restore`")
    for why in outcome.restore_unconfirmed.values():
        hint = "its watchdog restores the host; `benchkit hosts check` shows the result"
        say(f"benchkit: restore not confirmed: {why}\n  → {hint}")


def outcome_document(outcome: RunOutcome, store: Store) -> dict[str, object]:
    """Return the fields that the documents of `run`, `versus` and `capacity` have in common."""
    return {
        "run_id": outcome.run.run_id,
        "status": outcome.status,
        "store": store.path,
        "failures": outcome.failures,
        "not_put_back": outcome.not_restored,
    }


def print_run_summary(
    outcome: RunOutcome, store: Store, *, quiet: bool, json: bool, lab: str | None, report: Path | None = None
) -> None:
    """Print the summary: one JSON document, or tables; with `quiet` only the path of a report."""
    from benchkit.cli.compare import show_claims
    from benchkit.comparison.capacities import cell_capacities
    from benchkit.comparison.claims import judge_claims
    from benchkit.comparison.compare import answer_of_run, compare_cells
    from benchkit.comparison.runs.run_data import read_run_data
    from benchkit.models.design import explain

    say_not_restored(outcome)
    data = read_run_data(store, outcome.run)
    cells, claims = _cells(data, failed_blocks(outcome)), judge_claims(data)
    compared = compare_cells(data, [data.primary_metric])
    capacities = cell_capacities(data)
    if json:
        print_json(
            {
                **outcome_document(outcome, store),
                "lab": lab,
                "design": data.design,
                "blocks": data.manifest.blocks,
                "trials": outcome.trials,
                "retries": outcome.retries,
                "not_seen_put_back": outcome.restore_unconfirmed,
                "cells": cells,
                "ratios": compared.ratios,
                "capacities": capacities,
                "claims": claims,
                "report": report,
            }
        )
        return
    if not quiet:
        answer = answer_of_run(data, [compared])
        searched = [each.sentence for each in capacities]
        print(*answer.sentences, answer.trust_sentence, *searched, sep="\n", end="\n\n")
        _show(cells, compared)
        for text in _incomplete_trials(outcome):
            print(f"! {text}")
        print(explain("cell", "suspect", "invalid"))
        show_claims(claims)
        print(f"\nrun     {outcome.run.run_id}")
    if report is not None:
        print(report if quiet else f"report  {report.resolve()}")


def _show(cells: list[dict[str, Any]], compared: RunComparison) -> None:
    from benchkit.comparison.texts import outcome
    from benchkit.models.metrics import RPS, metric_named

    ratios = {ratio.cell_id: ratio for ratio in compared.ratios}
    rows = []
    for cell in cells:
        ratio = ratios.get(cell["cell_id"])
        shown = ("", "") if ratio is None else (_bracketed(ratio), outcome(ratio, brief=True))
        problems = cell["unsupported"] or "; ".join(filter(None, (_failed(cell["failed"]), cell["verdicts"].problems)))
        rows.append((cell["cell_id"], str(cell["trials"]), units.rate(cell["rps"]), *shown, problems))
    (metric,) = compared.metrics
    ratio_head = "ratio [95 %]" if metric == RPS else f"ratio of {metric_named(metric).title} [95 %]"
    print_table(("cell", "trials", "RPS (mean)", ratio_head, "difference", ""), rows, right=(1, 2, 3))
    for note in compared.notes:
        print(f"! {note}")


def _incomplete_trials(outcome: RunOutcome) -> Iterator[str]:
    """Yield a sentence each about trials that were retried, that failed and that were skipped, with what to do."""
    from benchkit.store.journal import read_progress

    progress = read_progress(outcome.run.history())
    resume = f"benchkit run --resume {outcome.run.run_id}"
    retried = {trial: whys for trial, whys in outcome.retries.items() if trial not in outcome.failures}
    if retried:
        yield f"{counted(len(retried), 'trial')} ended after retries, first: {next(iter(retried.values()))[0]}"
    failed = outcome.failures.keys() & progress.failed.keys()
    if failed:
        yield f"{counted(len(failed), 'trial')} failed: `{resume} --retry-failed` repeats them"
    skipped = {trial: why for trial, why in outcome.failures.items() if trial in progress.skipped}
    if skipped:
        cause = next(iter(skipped.values()))
        yield f"{counted(len(skipped), 'trial')} skipped: `{resume}` runs them once the cause is fixed: {cause}"


def _bracketed(ratio: Ratio) -> str:
    if ratio.ratio is None:
        return ""
    has_interval = ratio.low is not None and ratio.high is not None
    return f"{ratio.ratio:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]" if has_interval else f"{ratio.ratio:.3f}"


def _failed(blocks: list[int]) -> str:
    """Return `2 failed (blocks 1, 4)`: failures in several blocks point at the cell, not at a moment."""
    if not blocks:
        return ""
    where = f"block{'s' if len(set(blocks)) > 1 else ''} {', '.join(map(str, sorted(set(blocks))))}"
    return f"{len(blocks)} failed ({where})"


def failed_blocks(outcome: RunOutcome) -> dict[str, list[int]]:
    """Return the blocks in which trials failed or were skipped, by cell."""
    from benchkit.store.journal import read_progress

    progress = read_progress(outcome.run.history())
    found: dict[str, list[int]] = {}
    for trial_id in outcome.failures:
        place = progress.positions[trial_id]
        found.setdefault(place.cell_id, []).append(place.block)
    return found


def _cells(data: RunData, failed: dict[str, list[int]]) -> list[dict[str, Any]]:
    """Return a record for each cell; its rate is the mean of the trials with a usable rate, else of all, else None."""
    from benchkit.judge.verdict_summary import VerdictCounts, count_verdicts
    from benchkit.stats.samples import excluded_ids, geometric_mean, is_comparable

    trials = data.trials[is_comparable(data.trials)]
    invalid = excluded_ids(data.exclusions, "rps")
    rates: dict[str, list[float]] = {}
    for cell_id, rows in trials.dropna(subset=["rps"]).groupby("cell_id"):
        believed = rows[~rows["trial_id"].isin(invalid)]
        rates[str(cell_id)] = [float(each) for each in (rows if believed.empty else believed)["rps"]]
    verdicts = defaultdict(VerdictCounts, {str(of): count_verdicts(rows) for of, rows in trials.groupby("cell_id")})
    return [
        {
            "cell_id": cell.cell_id,
            "trials": verdicts[cell.cell_id].trials,
            "failed": sorted(failed.get(cell.cell_id, [])),
            "verdicts": verdicts[cell.cell_id],
            "rps": geometric_mean(rates[cell.cell_id]) if rates.get(cell.cell_id) else None,
            "unsupported": cell.unsupported,
        }
        for cell in data.manifest.cells
    ]
