"""The scenarios of `benchkit bisect`: commits of a server compared with the good end of a search. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.models.design import StopCondition
from benchkit.plugins.bisect.record import BisectionRecord
from benchkit.scenario.versus import (
    MAX_BLOCKS,
    Comparison,
    Request,
    compare_refs,
    design_of,
    load_times,
    warm_up_s,
    window_s,
)

SCENARIO_NAME = "bisect"
MIN_BLOCKS = 6
"""Fewest blocks of a comparison: from here on the t interval covers its share (see `benchkit.stats.inference`)."""
USUAL_BLOCKS = 30
"""Blocks for which a step has time: with so many, simulated searches find the right commit (`make bench`)."""
STEP_PRECISION = 0.001
"""Reach of an interval below which more blocks are of no use, wherever the threshold is."""


def comparison_of(record: BisectionRecord) -> Comparison:
    """Return load and duration of the comparisons of a search. Servers start in folders of their own."""
    options = record.options
    return Comparison(
        requests=tuple(
            Request(each.path, each.method, each.body, each.body_file, each.headers) for each in options.requests
        ),
        ready_within_s=options.ready_within_s,
        tool=options.tool,
        connections=options.connections,
        budget_s=options.duration_s,
        precision=options.precision,
        quota=options.quota,
        search_path=options.search_path,
        cpus=options.cpus,
        slice_s=options.slice_s,
        keepalive=options.keepalive,
        is_sliced=options.is_sliced,
        fixed=options.fixed,
    )


def commit_fields(record: BisectionRecord, commits: Sequence[str], comparison: Comparison) -> dict[str, object]:
    """Return the fields of a scenario with these commits as levels of a factor, the first of them the baseline.

    The time of a step is divided among two at most: more commits are only built together, never compared. Raises
    InputError where that time is too short.
    """
    fields = compare_refs(record.build, record.run, commits[:2], record.repository, comparison)
    changes = {"name": SCENARIO_NAME, "title": f"Search for the commit that made {record.metric} worse"}
    return {**fields, **changes, "factors": {"ref": list(commits)}}


def step_fields(
    record: BisectionRecord, commit: str, *, threshold: float | None, error_rate: float
) -> dict[str, object]:
    """Return the fields of a scenario that compares a commit with the good end until that is decided.

    With a threshold the comparison ends once the interval with this error rate excludes it; without one, at the
    precision of the search. Raises InputError where the time of a step is too short.
    """
    comparison = comparison_of(record)
    fields = commit_fields(record, (record.good.commit, commit), comparison)
    load = fields["load"]
    if not isinstance(load, dict):
        raise TypeError("the load of a scenario is a mapping")
    until = StopCondition(
        precision=comparison.precision if threshold is None else STEP_PRECISION,
        metrics=(record.metric,),
        min_blocks=MIN_BLOCKS,
        excludes=threshold,
        alpha=error_rate,
        budget_s=comparison.budget_s,
    )
    window = window_s(
        2,
        comparison.budget_s,
        USUAL_BLOCKS,
        connections=comparison.connections,
        tool=comparison.tool,
        slice_s=comparison.slice_s,
    )
    return {
        **fields,
        "load": {**load, **load_times(window, warm_up_s(window), comparison.tool)},
        "design": design_of(window, comparison),
        "blocks": MAX_BLOCKS,
        "until": until.model_dump(mode="json", exclude_none=True),
    }
