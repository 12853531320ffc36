"""The rows of one trial in all tables, built from its record and raw files. Pure."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from benchkit.errors import ParseError
from benchkit.loadtools.formats import read_run
from benchkit.loadtools.registry import get_tool
from benchkit.loadtools.text import decode
from benchkit.loadtools.tool import ParsedOutput, ToolOutput
from benchkit.loadtools.trial_result import merge_generator_outputs, merge_slices, read_generator
from benchkit.models.load import Load
from benchkit.models.rows import (
    TABLES,
    ClassRow,
    LoadCurveRow,
    NoteRow,
    ProfileRow,
    ProfileShareRow,
    SeriesRow,
    SliceRow,
    TraceRow,
    TrialRow,
    UncheckedRow,
    VerdictRow,
    column_names,
)
from benchkit.models.trial import GeneratorRecord, TrialRecord
from benchkit.store.parquet_files import Rows
from benchkit.store.profile_tables import read_passes
from benchkit.store.row_builders import class_rows, latency_table, series_rows, slice_rows, trial_row
from benchkit.store.telemetry_table import TrialSamples

RawFile = Callable[[str], bytes]
"""Function that returns the content of a trial's raw file, by its name."""

KILLED = "service-killed"
"""Code of the note on a service that did not end when it was stopped."""
NOT_RECOVERED = "not-recovered"
"""Code of the note on a trial whose objective did not hold again after the shape of its rate."""
_MEMBER = re.compile(r"([0-9]{5})\.(txt|stderr\.txt|json)")
"""Files in the archive that a generator of a sliced trial has: the number of the slice, and the suffix."""


TRIAL_TABLES = tuple(table for table in TABLES if "trial_id" in column_names(table))
"""The tables whose rows belong to trials."""


@dataclass(frozen=True, eq=False)
class TrialTables:
    """All rows of one trial: `trial` for the table `trials`, and for each other table the field of its name."""

    trial: TrialRow
    notes: tuple[NoteRow, ...]
    latency: pa.Table
    telemetry: pa.Table
    profile: tuple[ProfileRow, ...] = ()
    profile_share: tuple[ProfileShareRow, ...] = ()
    trace: tuple[TraceRow, ...] = ()
    classes: tuple[ClassRow, ...] = ()
    slices: tuple[SliceRow, ...] = ()
    load_curve: tuple[LoadCurveRow, ...] = ()
    series: tuple[SeriesRow, ...] = ()
    verdicts: tuple[VerdictRow, ...] = ()
    unchecked: tuple[UncheckedRow, ...] = ()

    @property
    def deciding_checks(self) -> tuple[str, ...]:
        """Names of the checks whose findings are as severe as the trial's verdict; none for a valid trial."""
        return tuple(dict.fromkeys(row.check for row in self.verdicts if row.severity == self.trial.verdict))

    def by_table(self) -> Mapping[str, Rows]:
        """Return the rows by the name of their table."""
        return {table: (self.trial,) if table == TrialRow.TABLE else getattr(self, table) for table in TRIAL_TABLES}


@dataclass(frozen=True)
class TrialOutput:
    """Measurement of the load tool in a trial."""

    merged: ParsedOutput
    """All generators and slices together."""
    generators: tuple[ParsedOutput, ...]
    """Each generator, in all slices."""
    slices: tuple[ParsedOutput, ...] = ()
    """Each slice of a sliced block, by all generators; empty for other designs."""


def read_output(record: TrialRecord, raw: RawFile) -> TrialOutput:
    """Return what the load tool measured in a trial, from its raw files.

    Raises ParseError for outputs that cannot be read, InputError where they are of different tools.
    """
    if record.imported is not None:
        file = record.imported.file
        command = f"benchkit parse {{tool}} {file}"
        result = read_run(record.load.tool, decode(raw(file)), where=file, command=command).result
        parsed = ParsedOutput(result, None)
        return TrialOutput(parsed, (parsed,))
    tool = get_tool(record.load.tool)
    starts = [generator.started_s for generator in record.generators]
    by_generator = [
        [read_generator(tool, load, printed) for load, printed in _slices(record, generator, raw)]
        for generator in record.generators
    ]
    slices = tuple(merge_generator_outputs(outputs, starts) for outputs in zip(*by_generator, strict=True))
    generators = tuple(map(merge_slices, by_generator))
    return TrialOutput(merge_slices(slices), generators, slices if record.slices else ())


def build_trial_tables(
    record: TrialRecord, output: TrialOutput, raw: RawFile, *, interrupted: bool = False
) -> TrialTables:
    """Build the rows of a trial; `interrupted` if its block was interrupted by a pause and repeated."""
    passes = read_passes(record, raw)
    samples = TrialSamples(record, raw)
    result, measurement = output.merged.result, output.merged.measurement
    row = trial_row(record, result, measurement, samples, interrupted=interrupted)
    notes = [(note.code, note.message) for note in result.notes] + [(KILLED, sentence) for sentence in record.killed]
    shape, window_s = record.load.shape, record.load.duration_s
    if shape is not None and window_s is not None and record.load.capacity is not None and row.recovery_s is None:
        left_s = window_s - shape.end_s
        notes.append(
            (NOT_RECOVERED, f"the server had not recovered when the window ended, {left_s:g} s after the step")
        )
    return TrialTables(
        trial=row,
        notes=(
            *(NoteRow(trial_id=record.trial_id, code=code, message=message) for code, message in notes),
            *passes.notes,
            *samples.notes,
        ),
        latency=latency_table(record.trial_id, measurement),
        telemetry=samples.table(),
        profile=tuple(passes.functions),
        profile_share=tuple(passes.shares),
        trace=tuple(passes.traces),
        classes=class_rows(record, measurement),
        series=series_rows(record.trial_id, measurement),
        slices=slice_rows(record, [each.result for each in output.slices]),
        load_curve=record.load_curve,
    )


def _slices(record: TrialRecord, generator: GeneratorRecord, raw: RawFile) -> list[tuple[Load, ToolOutput]]:
    """Return the load and the output of a generator in each slice; a trial in one piece has one."""
    if record.slices:
        outputs = unpack_slices(raw(generator.files["slices"]), len(record.slices))
        loads = [generator.load.model_copy(update={"duration_s": each.duration_s}) for each in record.slices]
        return list(zip(loads, outputs, strict=True))
    stdout, stderr = (decode(raw(name)) if (name := generator.files.get(kind)) else "" for kind in ("stdout", "stderr"))
    reduction = raw(generator.files["reduction"]) if "reduction" in generator.files else None
    return [(generator.load, ToolOutput(stdout, stderr, reduction))]


def pack_slices(slices: Sequence[Mapping[str, bytes]]) -> bytes:
    """Return an archive of the files of all slices, by suffix (`txt`, `stderr.txt`, `json`)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for number, files in enumerate(slices, 1):
            for suffix, content in sorted(files.items()):
                member = tarfile.TarInfo(f"{number:05}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def unpack_slices(content: bytes, count: int) -> list[ToolOutput]:
    """Return the output of a generator in each of `count` slices. Raises ParseError for a damaged archive."""
    files: list[dict[str, bytes]] = [{} for _ in range(count)]
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                name, file = _MEMBER.fullmatch(member.name), archive.extractfile(member)
                if name is None or file is None or not 1 <= int(name[1]) <= count:
                    raise ParseError(f"the archive of slices has an unknown file {member.name!r}")
                files[int(name[1]) - 1][name[2]] = file.read()
    except tarfile.TarError as error:
        raise ParseError("the archive of slices is damaged", why=str(error)) from None
    return [
        ToolOutput(decode(each.get("txt", b"")), decode(each.get("stderr.txt", b"")), each.get("json"))
        for each in files
    ]
