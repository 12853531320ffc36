"""Estimates of the runs of a scenario: ratios to the baseline within each run, and the values themselves.

Each comes with the conditions of its run, hosts and settings: only these and the code change results.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from benchkit.comparison.ratios import block_ratios, sequential_ratios
from benchkit.comparison.runs.run_data import RunData, read_run_data
from benchkit.errors import InputError
from benchkit.judge.run_differences import (
    FactDifference,
    compared_settings,
    image_ids,
    memory_text,
    relevant_facts,
    text_differences,
)
from benchkit.models.base import Frozen
from benchkit.models.design import controlled
from benchkit.models.run import HostRecord, Manifest
from benchkit.stats.cell_pairs import baseline_pairs, scenario_baseline
from benchkit.stats.inference import MIN_BLOCKS, serial_inflation, t_quantile
from benchkit.stats.samples import Samples, describe_exclusions, take_samples
from benchkit.store.row_builders import flatten_facts
from benchkit.store.store import Store

logger = logging.getLogger(__name__)

_NO_CONDITION = re.compile(r"factors(\..*)?|.*\.source\.ref")
"""Settings that say which cells and which state of the code were measured."""

_MAX_LISTED = 4


def condition_differences(before: RunEstimates, after: RunEstimates) -> tuple[str, ...]:
    """Return the differences between the conditions of two runs, as clauses."""
    tools = {*before.tools, *after.tools}
    one, other = (
        {"+".join(sorted(host.roles)): _host_facts(run.manifest, host, tools) for host in run.manifest.hosts}
        for run in (before, after)
    )
    found: list[FactDifference] = []
    for roles in sorted({*one, *other}):
        found += text_differences(f"host for {roles}", one.get(roles, {}), other.get(roles, {}))
    found += text_differences("scenario", _settings(before.manifest), _settings(after.manifest))
    more = len(found) - _MAX_LISTED
    return (*(each.text for each in found[:_MAX_LISTED]), *([f"{more} more"] if more > 0 else []))


def _host_facts(manifest: Manifest, host: HostRecord, tools: Iterable[str]) -> dict[str, str]:
    """Return the relevant facts of a host, with the programs that the scenario uses; memory in two digits."""
    words = {text for _, text in flatten_facts(manifest.scenario) if text is not None}
    facts = relevant_facts(host.facts.with_programs({*tools, *words}))
    memory = memory_text(host.facts)
    return facts if memory is None else {**facts, "memory_bytes": memory}


def _settings(manifest: Manifest) -> dict[str, str]:
    settings = compared_settings(manifest)
    named = {name: text for name, text in settings.items() if not _NO_CONDITION.fullmatch(name)}
    return named | image_ids(manifest)


class Estimate(Frozen):
    """A cell of a run, relative to its baseline or by itself; `log` and `error` are of the logarithm."""

    cell_id: str
    baseline: str | None = None
    """None: the value itself."""
    blocks: int
    log: float | None = None
    error: float | None = None
    """Standard error; None where there are too few blocks."""
    df: float | None = None
    note: str = ""
    """Excluded trials, or the reason why there is no estimate."""
    commits: tuple[str, ...] = ()
    """Commits that services of the cell were built from."""

    def interval(self, alpha: float) -> tuple[float, float] | None:
        """Return the t interval of the value itself with this error rate; None without a standard error."""
        if self.log is None or self.error is None or self.df is None:
            return None
        reach = t_quantile(1 - alpha, self.df) * self.error
        return math.exp(self.log - reach), math.exp(self.log + reach)


@dataclass(frozen=True)
class RunEstimates:
    """The estimates of one metric of a run, and its conditions."""

    manifest: Manifest
    tools: tuple[str, ...]
    alpha: float
    """Error rate of each interval: stricter in a run that may end early."""
    estimates: tuple[Estimate, ...]

    @cached_property
    def conditions(self) -> str:
        """Its hosts and settings, equal for runs whose values can be compared; only the roles of hosts matter."""
        facts = [
            [sorted(host.roles), sorted(_host_facts(self.manifest, host, self.tools).items())]
            for host in self.manifest.hosts
        ]
        return json.dumps([sorted(facts), sorted(_settings(self.manifest).items())])


def read_estimates(store: Store, scenario: str, metric: str) -> list[RunEstimates]:
    """Return the estimates of all runs of a scenario with a finished trial, oldest first; running ones are omitted.

    A damaged run is omitted with a warning.
    """
    found = []
    for _, run_id in store.parts("trials", scenario=scenario):
        if not store.has(run_id):
            continue
        folder = store.folder(run_id)
        try:
            data = read_run_data(store, folder)
        except InputError as error:
            logger.warning("%s is omitted: %s", run_id, error)
            continue
        if data.manifest.status != "running" or not folder.is_locked():
            found.append(estimates_of(data, metric))
    return sorted(found, key=lambda run: (run.manifest.started_at, run.manifest.run_id))


def estimates_of(data: RunData, metric: str) -> RunEstimates:
    """Return the estimates of a metric of a run: of each cell relative to its baseline, and of its values."""
    manifest = data.manifest
    samples = data.samples(metric)
    apart = take_samples(data.trials, metric, data.exclusions_between_runs)
    tools = tuple(sorted({str(tool) for tool in data.trials["tool"].dropna()}))
    commits = {
        cell.cell_id: tuple(dict.fromkeys(build.commit for build in cell.builds.values() if build.commit is not None))
        for cell in manifest.cells
    }
    found = (*_ratio_estimates(data, samples), *_value_estimates(data, apart))
    with_commits = tuple(each.model_copy(update={"commits": commits[each.cell_id]}) for each in found)
    return RunEstimates(manifest, tools, data.alpha, with_commits)


def _ratio_estimates(data: RunData, samples: Samples) -> Iterator[Estimate]:
    cells = data.manifest.cells
    pairs, _ = baseline_pairs(cells, scenario_baseline(data.manifest.scenario, cells))
    estimate = sequential_ratios if data.design == "sequential" else block_ratios
    for ratio in estimate(samples, [pair for pair in pairs if not pair.control]):
        yield Estimate(
            cell_id=ratio.cell_id,
            baseline=ratio.baseline,
            blocks=ratio.blocks,
            log=None if ratio.ratio is None else math.log(ratio.ratio),
            error=ratio.log_error,
            df=ratio.df,
            note=ratio.reason or describe_exclusions(ratio.exclusions),
        )


def _value_estimates(data: RunData, samples: Samples) -> Iterator[Estimate]:
    """Yield the mean logarithm of each cell, with a variance that allows for neighbouring blocks being alike."""
    inflation = serial_inflation([samples.logs])
    for cell in data.manifest.cells:
        if cell.unsupported is not None or controlled(cell.cell_id) is not None:
            continue
        logs = samples.known(cell.cell_id)
        has_interval = len(logs) >= MIN_BLOCKS
        few = f"{len(logs)} usable trials; an interval needs {MIN_BLOCKS}"
        notes = (*([] if has_interval else [few]), describe_exclusions(samples.excluded_of(cell.cell_id)))
        yield Estimate(
            cell_id=cell.cell_id,
            blocks=len(logs),
            log=float(logs.mean()) if len(logs) else None,
            error=math.sqrt(float(logs.var(ddof=1)) * inflation / len(logs)) if has_interval else None,
            df=len(logs) - 1.0 if has_interval else None,
            note="; ".join(filter(None, notes)),
        )
