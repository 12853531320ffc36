"""Opening of runs on hosts that a test is connected to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from benchkit.hosts.connections import Hosts
from benchkit.plan.model import RunPlan
from benchkit.plan.planner import make_plan
from benchkit.run import run
from benchkit.run.run import OpenedRun, RunOptions
from benchkit.scenario.experiment import Experiment
from benchkit.store.store import Store


@contextmanager
def open_run(
    experiment: Experiment,
    hosts: Hosts,
    store: Store,
    *,
    amend: Callable[[RunPlan], RunPlan] = lambda plan: plan,
    **options: Any,  # noqa: ANN401 - fields of RunOptions
) -> Iterator[OpenedRun]:
    """Open a run whose plan `amend` changes."""

    def make_amended(*arguments: Any) -> RunPlan:  # noqa: ANN401 - those of the planner
        return amend(make_plan(*arguments))

    with (
        patch.object(run, "make_plan", make_amended),
        run.open_run(experiment, hosts, store, RunOptions(**options)) as opened,
    ):
        yield opened
