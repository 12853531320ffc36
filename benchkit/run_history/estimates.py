"""Estimates of the runs of a scenario: ratios to the baseline within each run, and the values themselves.

They are computed once for each run and kept in the store; a run whose trials or manifest were written since is computed
again. `results rm` and deleting the file lose nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from benchkit.errors import InputError
from benchkit.files import read_regular
from benchkit.models.base import Frozen
from benchkit.models.run import CodeState, RunStatus
from benchkit.run_history.conditions import Conditions
from benchkit.store.durable_files import file_states, make_folders, write_atomically
from benchkit.store.store import Store

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
    alpha: float
    """Error rate of each interval: stricter in a run that may end early."""
    estimates: tuple[Estimate, ...]


class _Kept(Frozen):
    """Estimates in the file of the store, with the state of the files that they come from."""

    state: str
    run: RunEstimates


def read_estimates(
    store: Store, scenario: str, metric: str, progress: Callable[[int], None] = lambda _: None
) -> list[RunEstimates]:
    """Return the estimates of all runs of a scenario with a finished trial, oldest first; running ones are omitted.

    `progress` gets the number of runs that have to be computed. A damaged run is omitted with a warning.
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
    if missing:
        computed = _compute(store, missing, metric)
        current |= {run.run_id: _Kept(state=states[run.run_id], run=run) for run in computed}
    if current != kept:
        _write(file, current.values())
    return sorted((each.run for each in current.values()), key=lambda run: (run.started_at, run.run_id))


def _compute(store: Store, run_ids: Sequence[str], metric: str) -> Iterator[RunEstimates]:
    """Yield the estimates of these runs from their trials; running ones are omitted."""
    # They import pandas, which takes as long as everything that a history of kept estimates needs.
    from benchkit.comparison.run_data import read_run_data  # noqa: PLC0415
    from benchkit.run_history.run_estimates import estimates_of  # noqa: PLC0415

    for run_id in run_ids:
        folder = store.folder(run_id)
        try:
            data = read_run_data(store, folder)
        except InputError as error:
            logger.warning("%s is omitted: %s", run_id, error)
            continue
        if data.manifest.status != "running" or not folder.is_locked():
            yield estimates_of(data, metric)


def _read(file: Path) -> list[_Kept]:
    """Return what the file has; nothing where it cannot be read, or where another version of benchkit wrote it."""
    try:
        return [_Kept.model_validate_json(line) for line in read_regular(file).splitlines()]
    except OSError:
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
