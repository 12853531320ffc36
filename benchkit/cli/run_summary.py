"""The results that `run`, `versus` and `capacity` print at their end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchkit import units
from benchkit.cli.compare import show_claims
from benchkit.cli.console import print_json, print_table, say
from benchkit.comparison.cell_labels import UNWATCHED, cell_views
from benchkit.comparison.cell_results import capacity_findings, cell_capacities
from benchkit.comparison.claims import judge_claims
from benchkit.comparison.compare import RunComparison, answer_of_run, compare_cells, held_of
from benchkit.comparison.load_curves import cell_curves
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.runs.run_data import RunData, read_run_data
from benchkit.comparison.server_results import ServerResult, has_answer, server_results
from benchkit.comparison.texts import outcome as outcome_text
from benchkit.models.design import explain, until_of
from benchkit.models.metrics import CPU, RPS, metric_named
from benchkit.report.report_files import write_report
from benchkit.report.stored_run import read_run
from benchkit.run.recorder import RunOutcome
from benchkit.stats.inference import MIN_BLOCKS
from benchkit.store.journal import RunProgress, read_progress
from benchkit.store.store import Store
from benchkit.units import counted

_NAME_WIDTH = 16
"""Characters of a server's name in the table, so that it fits 80 columns."""
UNUSABLE = "In brackets: measured, but not usable."


def write_run_report(outcome: RunOutcome, store: Store) -> Path:
    """Write the report of a run beside it."""
    return write_report(read_run(store, outcome.run), outcome.run.report)


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
        "not_restored": outcome.not_restored,
    }


def print_run_summary(
    outcome: RunOutcome, store: Store, *, quiet: bool, json: bool, lab: str | None, report: Path | None = None
) -> None:
    """Print the summary: one JSON document, or tables; with `quiet` only the path of a report."""
    say_not_restored(outcome)
    data = read_run_data(store, outcome.run)
    progress = read_progress(outcome.run.history())
    cells, claims = _cells(data, outcome, progress), judge_claims(data)
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
                "restore_unconfirmed": outcome.restore_unconfirmed,
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
        for text in _incomplete_trials(outcome, progress):
            print(f"! {text}")
        print(explain("cell", "suspect", "invalid"))
        show_claims(claims)
        print(f"\nrun     {outcome.run.run_id}")
    if report is not None:
        print(report if quiet else f"report  {report.resolve()}")


def _show(cells: list[dict[str, Any]], compared: RunComparison) -> None:
    ratios = {ratio.cell_id: ratio for ratio in compared.ratios}
    rows = []
    for cell in cells:
        ratio = ratios.get(cell["cell_id"])
        shown = ("", "") if ratio is None else (ratio_text(ratio), outcome_text(ratio, brief=True))
        problems = cell["unsupported"] or "; ".join(filter(None, (_failed(cell["failed"]), cell["verdicts"].problems)))
        rows.append((cell["cell_id"], str(cell["trials"]), units.rate(cell["rps"]), *shown, problems))
    (metric,) = compared.metrics
    ratio_head = "ratio [95 %]" if metric == RPS else f"ratio of {metric_named(metric).title} [95 %]"
    print_table(("cell", "trials", "RPS (mean)", ratio_head, "difference", ""), rows, right=(1, 2, 3))
    for note in compared.notes:
        print(f"! {note}")


def _incomplete_trials(outcome: RunOutcome, progress: RunProgress) -> Iterator[str]:
    """Yield sentences about retried, failed and skipped trials, with what to do."""
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


def _failed(blocks: list[int]) -> str:
    """Return the number of failures and their blocks: `2 failed (blocks 1, 4)`."""
    if not blocks:
        return ""
    where = f"block{'s' if len(set(blocks)) > 1 else ''} {', '.join(map(str, sorted(set(blocks))))}"
    return f"{len(blocks)} failed ({where})"


def _cells(data: RunData, outcome: RunOutcome, progress: RunProgress) -> list[dict[str, Any]]:
    failed = defaultdict[str, list[int]](list)
    for trial_id in outcome.failures:
        place = progress.positions[trial_id]
        failed[place.cell_id].append(place.block)
    results = {each.cell_id: each for each in server_results(data)}
    cells = []
    for cell in data.manifest.cells:
        result = results.get(cell.cell_id) or ServerResult(cell_id=cell.cell_id, label=cell.cell_id)
        cells.append(
            {
                "cell_id": cell.cell_id,
                "trials": result.verdicts.trials,
                "failed": sorted(failed[cell.cell_id]),
                "verdicts": result.verdicts,
                "rps": result.rps,
                "unsupported": cell.unsupported,
            }
        )
    return cells


def print_results(results: Sequence[ServerResult], rate_held: float | None = None) -> None:
    """Print a row for each server, with its latencies at the held rate, and its problems or number of valid trials."""
    rows = []
    latencies = ("p50", "p99") if rate_held is not None else ()
    for result in results:
        texts = {RPS: units.rate(result.rps), CPU: units.seconds(result.server_cpu_s_per_request)}
        rate, cost = (f"({text})" if metric in result.unusable else text for metric, text in texts.items())
        held = () if result.held is None else (result.held.p50_s, result.held.p99_s)
        shown = [units.seconds(each) for each in held] if held else [""] * len(latencies)
        verdict = result.verdicts.problems or (f"{result.verdicts.valid} valid" if result.verdicts.trials else "")
        name = result.label.removesuffix(UNWATCHED)
        name = name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"
        rows.append((name, rate, ratio_text(result.ratio) if result.ratio else "baseline", *shown, cost, verdict))
    columns = ("server", "RPS", "ratio [95 %]", *latencies, "CPU/req", "verdict")
    print_table(columns, rows, right=range(1, len(columns) - 1))
    if rate_held is not None:
        print(f"p50 and p99 at {units.requests_per_s(rate_held)}.")
    if any({RPS, CPU}.intersection(result.unusable) for result in results):
        print(UNUSABLE)


def print_comparison(
    outcome: RunOutcome, store: Store, *, quiet: bool, json: bool, save: Path | None, is_one_host: bool
) -> bool:
    """Print the results of servers, their answer and the path of the report; return True if anything is compared."""
    say_not_restored(outcome)
    data = read_run_data(store, outcome.run)
    held = held_of(data)
    results, answer = server_results(data, held), answer_of_run(data)
    alone = results[0] if len(results) == len(data.manifest.cells) == 1 else None
    is_interrupted = outcome.status == "interrupted"  # then no report is written, as that takes seconds
    if json:
        document = {
            **outcome_document(outcome, store),
            "servers": results,
            "load_curves": _curves_document(data),
            "held": held,
            "answer": {**answer.model_dump(mode="json"), "trust_sentence": answer.trust_sentence},
            "report": None if is_interrupted else write_run_report(outcome, store),
            "scenario": save,
        }
        print_json(document)
        return has_answer(results)
    if not quiet:
        rate = None if held is None else held.rate
        if alone is None:
            print_results(results, rate)
        else:
            _print_measured(alone, rate)
        print()
    sentences = answer.sentences if alone is None else (alone.sentence, alone.limit)
    print(*sentences, answer.trust_sentence, sep="\n")
    labels = {view.cell_id: view.label for view in cell_views(data.manifest)}
    killed = {record.cell_id: record.killed[0] for record in outcome.run.records() if record.killed}
    for cell_id, sentence in killed.items():
        cause, _, _ = sentence.partition(", and was killed")
        print(f"{labels[cell_id]}: {cause}, and was killed after each trial, which took time from the comparison.")
    if is_interrupted:
        cells = sum(cell.unsupported is None for cell in data.manifest.cells)
        measured = data.trials[data.trials["kind"] == "measure"]
        blocks = int((measured.groupby("block").size() == cells).sum())
        most = "" if until_of(data.manifest.scenario) is None else "at most "
        print(f"Interrupted after {blocks} of {most}{data.manifest.blocks} blocks.")
    _print_places(outcome, store, save, has_report=not is_interrupted)
    if save is not None and is_one_host:
        print("          `benchkit lab up --host host=sut,load` makes a lab for it")
    return has_answer(results)


def _curves_document(data: RunData) -> list[dict[str, Any]]:
    return [{"cell_id": each.cell_id, "label": each.label, **each.curve.model_dump()} for each in cell_curves(data)]


def print_capacities(outcome: RunOutcome, store: Store, *, json: bool, save: Path | None) -> bool:
    """Print the capacities, and their comparison after enough blocks; return True if every capacity is known."""
    say_not_restored(outcome)
    data = read_run_data(store, outcome.run)
    capacities, notes = cell_capacities(data), capacity_findings(data)
    answer = answer_of_run(data) if len(capacities) > 1 and data.manifest.blocks >= MIN_BLOCKS else None
    if json:
        document = {
            **outcome_document(outcome, store),
            "capacities": capacities,
            "load_curves": _curves_document(data),
            "notes": notes,
            "answer": answer,
            "report": write_run_report(outcome, store),
            "scenario": save,
        }
        print_json(document)
    else:
        curves = [f"{each.label} {each.curve.sentence}." for each in cell_curves(data)]
        print(*(each.sentence for each in capacities), *curves, *(f"! {note}" for note in notes), sep="\n")
        if answer is not None:
            print(*answer.sentences, answer.trust_sentence, sep="\n")
        _print_places(outcome, store, save)
    return all(capacity.is_known for capacity in capacities)


def _print_places(outcome: RunOutcome, store: Store, save: Path | None, *, has_report: bool = True) -> None:
    print(f"\nrun       {outcome.run.run_id}", flush=True)
    if has_report:
        print(f"report    {write_run_report(outcome, store).resolve()}")  # the report takes seconds
    if save is not None:
        print(f"scenario  {save}")


def _print_measured(server: ServerResult, rate_held: float | None) -> None:
    """Print the load curve of a server, its rate, and its latencies at the held rate."""
    lines = {"server": server.label, "RPS": units.rate(server.rps), "connections": str(server.connections or "")}
    if server.curve is not None:
        rows = [
            (
                f"{'knee ' if point.connections == server.curve.knee else ''}{point.connections}",
                units.rate(point.rps),
                units.seconds(point.latency_p50_s),
                units.seconds(point.latency_p99_s),
                "" if point.server_cores is None else units.cores(point.server_cores),
            )
            for point in server.curve.points
        ]
        print_table(("connections", "RPS", "p50", "p99", "server CPU"), rows, right=range(5))
        print()
        lines["answer without load"] = units.seconds(server.curve.answer_s)
    if server.held is not None and rate_held is not None:
        for title, time_s in (("p50", server.held.p50_s), ("p99", server.held.p99_s), ("p99.9", server.held.p999_s)):
            lines[f"{title} at {units.requests_per_s(rate_held)}"] = units.seconds(time_s)
        if server.held.answer is not None:
            lines[f"mean at {units.requests_per_s(rate_held)}"] = server.held.answer.text
    lines |= {"CPU per request": units.seconds(server.server_cpu_s_per_request), "trials": server.verdicts.text}
    width = max(map(len, lines))
    for name, text in lines.items():
        print(f"{name:<{width}}  {text}")


def ratio_text(ratio: Ratio | None) -> str:
    """Return a ratio with its interval: `1.31 [1.24, 1.38]`, or `(1.31)` if it cannot be used; empty without one."""
    if ratio is None or ratio.ratio is None:
        return ""
    if ratio.is_unusable:
        return f"({ratio.ratio:.2f})"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.2f}"
    digits = units.decimals_apart(ratio.low, ratio.high)
    return f"{ratio.ratio:.{digits}f} [{ratio.low:.{digits}f}, {ratio.high:.{digits}f}]"
