"""Real runs on the lab, and Markdown tables of their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchkit.comparison.compare import compare
from benchkit.comparison.ratios import Ratio
from benchkit.hosts.connections import Hosts
from benchkit.run.events import Show, show_nothing
from benchkit.run.run import execute
from benchkit.scenario.experiment import Experiment
from benchkit.stats.samples import Exclusion
from benchkit.store.store import Store
from tests.support.run.opening import open_run

STACKS = """\
question: Does the design tell the truth?
stacks:
  go: {entry: app, services: {app: {backend: nethttp, role: sut, listen: 8080, work: $work}}}
load: {tool: wrk, connections: 16, threads: 1, duration_s: 1, warmup_s: 1}
"""
"""Stacks whose handler saturates the server's core and not the generator's, so that the server is compared."""


def run_once(store: Path, experiment: Experiment, hosts: Hosts, *, seed: int = 1, show: Show = show_nothing) -> str:
    """Execute a run, and return its id."""
    with open_run(experiment, hosts, Store(store), seed=seed) as opened:
        outcome = execute(opened, show)
    assert outcome.status == "done", outcome.failures
    return outcome.run.run_id


def ratio_of(store: Path, run_id: str, exclusions: Sequence[Exclusion] | None = None) -> Ratio:
    """Return the only ratio of a run, without the trials in `exclusions`, by default those that verdicts exclude."""
    (ratio,) = compare(run_id, store=store, exclusions=exclusions).ratios
    return ratio


def interval(ratio: Ratio) -> str:
    """Return the interval of a ratio as text, or the number of excluded trials if there is none."""
    return f"{len(ratio.exclusions)} excluded" if ratio.low is None else f"{ratio.low:.3f} to {ratio.high:.3f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
