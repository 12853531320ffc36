"""Choice of the profile that a command is about: a file, or all profiles that a run has of a cell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:  # reading profiles costs time, and --help reads none
    from benchkit.models.profile import Profile
    from benchkit.store.store import RunFolder

_CELLS_LISTED = 10

CellOption = Annotated[
    str | None,
    typer.Option("--cell", metavar="CELL", help="Use all profiles of this cell; FILE is then a run."),
]
ServiceOption = Annotated[
    str | None, typer.Option("--service", metavar="NAME", help="With --cell: the service, if there are several.")
]


def profile_of(
    what: str, value: str | None, *, cell: str | None = None, service: str | None = None, store: str | None = None
) -> tuple[Profile, int, str]:
    """Return the profile, the index of the requested value in its samples, and its name.

    `what` is a file, or with `cell` a run; `cell` is a cell's id, or enough of its levels to identify it. Raises
    InputError.
    """
    from benchkit.errors import InputError

    if cell is None:
        if service is not None:
            raise InputError("--service needs --cell", hint="give a run instead of FILE, and one of its cells")
        _require_file(what, store)
        name, profile = _of_file(what)
    else:
        from benchkit.store.store_choice import open_store

        name, profile = _of_cell(open_store(store).run(what), cell, service)
    try:
        return profile, profile.value_index(value), name
    except KeyError:
        values = ", ".join(each.kind for each in profile.value_types)
        raise InputError(f"no value {value!r}", where=name, why=f"values: {values}") from None


def _of_file(file: str) -> tuple[str, Profile]:
    from benchkit.cli.input_file import bytes_of, name_of

    return name_of(file), _read(bytes_of(file), name_of(file))


def _require_file(what: str, store: str | None) -> None:
    """Raise InputError where there is no such file, but a run of that name: it lacks the cell."""
    from benchkit.cli.input_file import STDIN

    if what == STDIN or os.path.lexists(what):
        return
    from benchkit.errors import InputError
    from benchkit.store.store_choice import open_store

    try:
        run = open_store(store).run(what)
    except InputError:
        return  # reading the file tells that there is none
    cells = [cell.cell_id for cell in run.manifest().cells if cell.unsupported is None]
    listed = ", ".join(cells[:_CELLS_LISTED]) + (", …" if len(cells) > _CELLS_LISTED else "")
    raise InputError(
        f"{what!r} is a run, and no file",
        where=run.location,
        hint=f"name one of its cells with --cell: {listed}",
    )


def _of_cell(run: RunFolder, cell: str, service: str | None) -> tuple[str, Profile]:
    from benchkit.errors import InputError, suggestion
    from benchkit.stats.cell_pairs import cells_with_levels, levels_of
    from benchkit.store.profile_tables import read_merged_profile

    manifest = run.manifest()
    cells = [each.cell_id for each in cells_with_levels(levels_of(cell, manifest.cells), manifest.cells)]
    if len(cells) != 1:
        raise InputError(
            f"{cell!r} is not one cell", where=run.run_id, why=f"matching cells: {', '.join(cells) or 'none'}"
        )
    records = [record for record in run.records() if record.cell_id == cells[0]]
    taken = [profile for record in records for profile in record.profiles]
    there = list(dict.fromkeys(profile.service for profile in taken if profile.file is not None))
    if not there:
        failures = dict.fromkeys(profile.why_not for profile in taken if profile.why_not is not None)
        why = "; ".join(failures) or "its scenario takes no profiles; add `benchkit run --profile`"
        raise InputError(f"no profile of {cells[0]}", where=run.run_id, why=why)
    if service is None and len(there) > 1:
        raise InputError(f"{cells[0]} has several services", why=", ".join(there), hint="name one with --service")
    wanted = there[0] if service is None else service
    if wanted not in there:
        raise InputError(f"no profile of service {wanted!r}", where=run.run_id, why=suggestion(wanted, there))
    return f"{wanted} of {cells[0]}, {run.run_id}", read_merged_profile(run, records, wanted)


def _read(content: bytes, name: str) -> Profile:
    from benchkit.errors import ParseError
    from benchkit.profiles.profile_file import read_profile

    try:
        return read_profile(content)
    except ParseError as error:
        raise ParseError(error.what, where=name, why=error.why, hint=error.hint) from None
