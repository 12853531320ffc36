"""Import of outputs that load tools wrote elsewhere: a run is made of them, and judged by what they show.

Each file is a trial of one cell, and the files of a cell are its blocks, in their order. Hosts, servers and responses
were not watched: checks that need them are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import ValidationError

from benchkit.errors import BenchkitError, InputError
from benchkit.loadtools.formats import RunOutput, read_run
from benchkit.loadtools.registry import TOOLS, tools_with_rate
from benchkit.loadtools.text import decode
from benchkit.models.base import Levels, cell_id
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult
from benchkit.models.run import CellRecord, Manifest
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import ImportedOutput, TrialRecord
from benchkit.run.manifest import new_run_id
from benchkit.run.recorder import RunOutcome, recording
from benchkit.run.steps.state import trial_id_of
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.store.store import Store
from benchkit.store.trial_tables import read_output as read_trial_output
from benchkit.validation import first_fault
from benchkit.version import __version__

SCALE = "imported"
"""Scale of imported runs: runs that benchkit made have another history."""

WRK2 = "wrk2"
"""A load tool that always holds a target rate, and does not state it."""

OUTPUT = "output.txt"
"""Name of the raw file of an imported trial."""

SAME: Mapping[str, Callable[[LoadResult], object]] = {
    "tool": lambda result: result.tool,
    "target": lambda result: result.target,
    "number of connections": lambda result: result.connections,
    "number of threads": lambda result: result.threads,
}
"""Values that repetitions of one measurement have in common."""


@dataclass(frozen=True)
class OutputFile:
    """A file that a load tool wrote, and when."""

    name: str
    content: bytes
    measured_at: datetime


@dataclass(frozen=True)
class ImportedCell:
    """The outputs of one cell, read and checked."""

    levels: Levels
    load: Load
    files: Sequence[OutputFile]
    results: Sequence[LoadResult]

    @property
    def cell_id(self) -> str:
        """Name of the cell."""
        return cell_id(self.levels)

    @property
    def note(self) -> str:
        """Origin of its outputs, and what is not known of them: sentences."""
        tool = " ".join(filter(None, (self.results[0].tool, self.results[0].tool_version)))
        files = ", ".join(dict.fromkeys(file.name for file in self.files))
        is_full_speed = self.load.rate is None and _can_hold_rate(self.load.tool)
        rate = "No target rate is stated: the load is taken to be at full speed." if is_full_speed else ""
        imported = (
            f"{self.cell_id} is imported: measured elsewhere with {tool} ({files}). Its hosts and servers were not watched, "
            "and checks that need them are skipped."
        )
        return " ".join(filter(None, (imported, rate)))


def read_cell(tool: str, files: Sequence[OutputFile], levels: Levels, load: Mapping[str, Any]) -> ImportedCell:
    """Read outputs of a tool, or of `auto`, that repeat one measurement; `load` has fields that they do not state.

    Raises InputError for an unknown tool, other text, a missing rate or number of connections, and unfinished runs. It
    also raises it for files of different measurements.
    """
    outputs = [_read(tool, file) for file in files]
    results = [output.result for output in outputs]
    for what, value in SAME.items():
        _require_same(what, {file.name: value(result) for file, result in zip(files, results, strict=True)})
    first, stated = results[0], outputs[0].load
    tool = first.tool
    fields = {"connections": first.connections, "streams": stated.streams, "rate": stated.rate}
    typed = _load(tool, files[0], {name: value for name, value in fields.items() if value} | dict(load))
    if first.tool == WRK2 and typed.rate is None:
        raise InputError(
            f"output of {WRK2} does not state the target rate that it held",
            where=files[0].name,
            hint="state it: --load rate=1000",
        )
    if typed.rate is not None and first.tool != WRK2 and not _can_hold_rate(tool):
        can = f"these tools can: {', '.join(tools_with_rate())}"
        raise InputError(f"{first.tool} cannot hold a rate", where="--load rate", why=can)
    return ImportedCell(levels, typed, files, results)


def _load(tool: str, file: OutputFile, fields: Mapping[str, Any]) -> Load:
    if "connections" not in fields:
        hint = "state it: --load connections=64"
        raise InputError(f"output of {tool} does not state the number of connections", where=file.name, hint=hint)
    try:
        return Load.model_validate({"tool": tool, "histogram": False, **fields})
    except ValidationError as error:
        raise InputError("the load is invalid", where="--load", why=first_fault(error, Load)) from None


def _read(tool: str, file: OutputFile) -> RunOutput:
    output = read_run(tool, decode(file.content), where=file.name, command=_command(file))
    if not output.result.complete:
        raise InputError(
            "the output is not whole",
            where=file.name,
            why="it breaks off, or is of a run that did not finish",
            hint="omit the file",
        )
    if not output.result.rps:
        raise InputError("the output states no rate", where=file.name, hint="omit the file")
    return output


def _can_hold_rate(tool: str) -> bool:
    """Return whether a tool can hold a target rate; of those that benchkit does not drive, nearly all can."""
    return tool not in TOOLS or TOOLS[tool].rate is not None


def _command(file: OutputFile) -> str:
    return f"benchkit results import {{tool}} {file.name} …"


def _require_same(what: str, values: Mapping[str, object]) -> None:
    if len(set(values.values())) > 1:
        raise InputError(
            "the files are not repetitions of one measurement",
            why=f"the {what} is " + ", ".join(f"{value} in {name}" for name, value in values.items()),
            hint="import each kind by itself, or as a cell of its own",
        )


def import_run(
    store: Store, scenario: str, cells: Sequence[ImportedCell], tags: Mapping[str, str], *, interleaved: bool
) -> RunOutcome:
    """Store outputs as a new run with these cells.

    `interleaved` states that the cells were measured in turns, file by file: their files are blocks whose ratios are
    paired. Otherwise the cells ran one after the other. Raises InputError for cells that do not fit together.
    """
    manifest = _manifest(scenario, cells, tags, interleaved=interleaved)
    folder = store.create(manifest)
    try:
        with folder.locked(), recording(folder, store) as recorder:
            placed = [
                (PlannedTrial(block, position, cell.cell_id), cell, file, result)
                for position, cell in enumerate(cells, 1)
                for block, (file, result) in enumerate(zip(cell.files, cell.results, strict=True), 1)
            ]
            recorder.record_start([place for place, *_ in placed])
            for place, cell, file, result in placed:
                record = _trial_record(manifest.run_id, place, cell, file, result)
                recorder.record_trial_started(place, attempt=1)
                folder.commit_trial(record, {OUTPUT: file.content})
                raw = partial(folder.raw_file, record.trial_id)
                recorder.record_trial_ended(record, read_trial_output(record, raw), raw)
    except (OSError, BenchkitError) as error:
        store.remove(folder)
        why = error.why if isinstance(error, BenchkitError) else error.strerror
        raise BenchkitError(
            "the outputs could not be stored, and nothing of them was kept",
            why=why or str(error),
            hint="fix this, then import them again",
        ) from error
    return recorder.outcome


def _manifest(scenario: str, cells: Sequence[ImportedCell], tags: Mapping[str, str], *, interleaved: bool) -> Manifest:
    """Return the manifest of a run with these cells; its load has the fields that all cells share."""
    factors = cells[0].levels.keys()
    if any(cell.levels.keys() != factors for cell in cells):
        raise InputError("the cells have different factors", why="; ".join(cell.cell_id for cell in cells))
    if len({cell.cell_id for cell in cells}) < len(cells):
        raise InputError("a cell is given twice", why=", ".join(cell.cell_id for cell in cells))
    loads = [cell.load.model_dump(mode="json", exclude_unset=True, exclude={"histogram"}) for cell in cells]
    shared = {name: value for name, value in loads[0].items() if all(load.get(name) == value for load in loads)}
    versions = {cell.load.tool: version for cell in cells if (version := cell.results[0].tool_version)}
    return Manifest(
        run_id=new_run_id(),
        scenario={
            "name": scenario,
            "design": "blocks" if interleaved else "sequential",
            "factors": {name: list(dict.fromkeys(cell.levels[name] for cell in cells)) for name in factors},
            "load": shared,
        },
        scale=SCALE,
        seed=None,
        blocks=max(len(cell.files) for cell in cells),
        cells=tuple(CellRecord(cell_id=cell.cell_id, levels=cell.levels) for cell in cells),
        hosts=(),
        versions={"benchkit": __version__, **versions},
        thresholds=Thresholds().model_dump(),
        tags=dict(tags),
        is_imported=True,
        notes=tuple(cell.note for cell in cells),
        started_at=min(file.measured_at for cell in cells for file in cell.files),
    )


def _trial_record(
    run_id: str, place: PlannedTrial, cell: ImportedCell, file: OutputFile, result: LoadResult
) -> TrialRecord:
    return TrialRecord(
        trial_id=trial_id_of(run_id, place),
        cell_id=place.cell_id,
        levels=cell.levels,
        block=place.block,
        position=place.position,
        started_at=file.measured_at,
        wall_s=result.duration_s or 0.0,
        load=cell.load,
        target=result.target,
        services=(),
        generators=(),
        imported=ImportedOutput(file=OUTPUT, name=file.name, duration_s=result.duration_s, result=result),
    )
