"""Estimates of the runs of a scenario: ratios to the baseline within each run, and the values themselves.

They are computed once for each run and kept in the store; a run whose trials or manifest were written since is computed
again. `results rm` and deleting the file lose nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from benchkit.analysis.cell_pairs import baseline_pairs, scenario_baseline
from benchkit.analysis.history.conditions import Conditions, conditions_of
from benchkit.analysis.inference import MIN_BLOCKS, serial_inflation
from benchkit.analysis.ratios import block_ratios, sequential_ratios
from benchkit.analysis.run_data import RunData, read_run_data
from benchkit.analysis.samples import Samples, describe_exclusions, take_samples
from benchkit.models.base import Frozen
from benchkit.models.design import controlled
from benchkit.models.run import CodeState, RunStatus
from benchkit.results.compact import file_states
from benchkit.results.durable_files import make_folders, write_atomically
from benchkit.results.store import Store

logger = logging.getLogger(__name__)


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
    remark: str = ""
    """Excluded trials, or the reason why there is no estimate."""
    commits: tuple[str, ...] = ()
    """Commits that services of the cell were built from."""


class RunEstimates(Frozen):
    """The estimates of one metric of a run, and what identifies the run."""

    run_id: str
    started_at: datetime
    status: RunStatus
    scale: str
    conditions: Conditions
    tools: tuple[str, ...]
    tags: Mapping[str, str] = {}
    code: CodeState | None = None
    is_imported: bool = False
    estimates: tuple[Estimate, ...]


class _Kept(Frozen):
    """Estimates in the file of the store, with the state of the files that they come from."""

    state: str
    run: RunEstimates


def read_estimates(
    store: Store, scenario: str, metric: str, progress: Callable[[int], None] = lambda _: None
) -> list[RunEstimates]:
    """Return the estimates of all runs of a scenario with a finished trial, oldest first; running ones are omitted.

    `progress` gets the number of runs that have to be computed. Raises InputError for damaged files.
    """
    file = store.history_file(scenario, metric)
    kept = {each.run.run_id: each for each in _read(file)}
    states = {
        run_id: file_states([*files, store.folder(run_id).manifest_file])
        for (_, run_id), files in store.parts("trials", scenario=scenario).items()
        if store.has(run_id)
    }
    missing = [run_id for run_id, state in states.items() if run_id not in kept or kept[run_id].state != state]
    progress(len(missing))
    current = {run_id: kept[run_id] for run_id in states if run_id not in missing}
    for run_id in missing:
        folder = store.folder(run_id)
        data = read_run_data(store, folder)
        if data.manifest.status != "running" or not folder.is_locked():
            current[run_id] = _Kept(state=states[run_id], run=estimates_of(data, metric))
    if current != kept:
        _write(file, current.values())
    return sorted((each.run for each in current.values()), key=lambda run: (run.started_at, run.run_id))


def estimates_of(data: RunData, metric: str) -> RunEstimates:
    """Return the estimates of a metric of a run: of each cell relative to its baseline, and of its values."""
    manifest = data.manifest
    samples = take_samples(data.trials, metric, data.exclusions)
    tools = tuple(sorted({str(tool) for tool in data.trials["tool"].dropna()}))
    commits = {
        cell.cell_id: tuple(dict.fromkeys(build.commit for build in cell.builds.values() if build.commit is not None))
        for cell in manifest.cells
    }
    return RunEstimates(
        run_id=manifest.run_id,
        started_at=manifest.started_at,
        status=manifest.status,
        scale=manifest.scale,
        conditions=conditions_of(manifest, tools),
        tools=tools,
        tags=manifest.tags,
        code=manifest.code,
        is_imported=manifest.is_imported,
        estimates=tuple(
            estimate.model_copy(update={"commits": commits[estimate.cell_id]})
            for estimate in (*_ratio_estimates(data, samples), *_value_estimates(data, samples))
        ),
    )


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
            remark=ratio.reason or describe_exclusions(ratio.exclusions),
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
        remarks = (*([] if has_interval else [few]), describe_exclusions(samples.excluded_of(cell.cell_id)))
        yield Estimate(
            cell_id=cell.cell_id,
            blocks=len(logs),
            log=float(logs.mean()) if len(logs) else None,
            error=math.sqrt(float(logs.var(ddof=1)) * inflation / len(logs)) if has_interval else None,
            df=len(logs) - 1.0 if has_interval else None,
            remark="; ".join(filter(None, remarks)),
        )


def _read(file: Path) -> list[_Kept]:
    """Return what the file has; nothing where it is missing, or where another version of benchkit wrote it."""
    try:
        return [_Kept.model_validate_json(line) for line in file.read_bytes().splitlines()]
    except FileNotFoundError:
        return []
    except ValidationError:
        logger.info("%s is of another version, or damaged: its estimates are computed again", file)
        return []


def _write(file: Path, kept: Iterable[_Kept]) -> None:
    """Write the file; in a store that cannot be written, the estimates are computed again the next time."""
    content = b"".join(each.model_dump_json().encode() + b"\n" for each in kept)
    try:
        make_folders(file.parent)
        write_atomically(file, content)
    except OSError as error:
        logger.info("cannot keep the estimates in %s: %s", file, error.strerror)
