"""Real runs on the lab, and Markdown tables of what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchkit.analysis.compare import compare
from benchkit.analysis.ratio import Ratio
from benchkit.analysis.samples import Exclusion
from benchkit.cli.progress import SilentProgress
from benchkit.hosts.connections import Hosts
from benchkit.results.store import Store
from benchkit.run.loop import execute
from benchkit.run.plan.planner import make_plan
from benchkit.scenario.experiment import Experiment

STACKS = """\
question: Does the design tell the truth?
stacks:
  go: {entry: app, services: {app: {backend: nethttp, role: sut, listen: 8080, work: $work}}}
load: {tool: wrk, connections: 16, threads: 1, duration_s: 1, warmup_s: 1}
"""
"""A handler whose work fills the server's core while the generator's has room: what is compared is the server."""


QUIET = SilentProgress()


def run_once(
    store: Path, experiment: Experiment, hosts: Hosts, *, seed: int = 1, watcher: SilentProgress = QUIET
) -> str:
    """One run; its id."""
    outcome = execute(make_plan(experiment, hosts, seed), hosts, Store(store), watcher)
    assert outcome.status == "done", outcome.failures
    return outcome.run.run_id


def ratio_of(store: Path, run_id: str, exclusions: Sequence[Exclusion] | None = None) -> Ratio:
    """The one ratio of a run, without the trials that its verdicts void, or without these."""
    (ratio,) = compare(run_id, store=store, exclusions=exclusions).ratios
    return ratio


def interval(ratio: Ratio) -> str:
    """The interval of a ratio, or how many trials do not count where there is none."""
    return f"{len(ratio.left_out)} left out" if ratio.low is None else f"{ratio.low:.3f} to {ratio.high:.3f}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
