"""`benchkit profile flame`: flame graphs of CPU profiles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import Json, StoreToRead, in_existing_folder
from benchkit.cli.profile import CellOption, File, ServiceOption, Value, profile_of

if TYPE_CHECKING:
    from benchkit.models.profile import Profile


def flame(
    file: File,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="OUT",
            callback=in_existing_folder,
            help="A picture as .svg, or .json for speedscope, which zooms and searches.",
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="FILE", help="An earlier profile: show what changed since then.")
    ] = None,
    base_cell: Annotated[
        str | None, typer.Option("--base-cell", metavar="CELL", help="Another cell of the run: show what differs.")
    ] = None,
    value: Value = None,
    cell: CellOption = None,
    service: ServiceOption = None,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Write a flame graph of one profile, or of the difference of two, as a picture.

    With -o FILE.json, one profile is written for speedscope, whose page zooms and searches.
    """
    from benchkit.errors import InputError

    profile, index, name = profile_of(file, value, cell=cell, service=service, store=store)
    before = _base(file, base, base_cell, cell=cell, service=service, store=store)
    out = out or Path(f"{Path(name).name if cell is None else cell.replace('/', '_')}.svg")
    if out.suffix == ".svg":
        from benchkit.plugins.flame.figures import profile_svg

        content = profile_svg(profile, name, value=index, base=before)
    elif out.suffix == ".json" and before is None:
        from json import dumps

        from benchkit.plugins.flame.speedscope import speedscope

        content = dumps(speedscope(profile, name), ensure_ascii=False)
    else:
        why = "speedscope shows no differences" if out.suffix == ".json" else "expected a name in .svg or .json"
        raise InputError("cannot write a flame graph", where=str(out), why=why)
    try:
        out.write_text(content, encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", str(error))
        raise InputError("cannot write the file", where=str(out), why=why) from None
    if json:
        from benchkit.cli.console import print_json

        print_json({"written": str(out)})
    else:
        print(out)


def _base(
    file: str,
    base: str | None,
    base_cell: str | None,
    *,
    cell: str | None,
    service: str | None,
    store: str | None,
) -> tuple[Profile, str] | None:
    """Return the profile to compare with and its name. Raises InputError for options that contradict each other."""
    from benchkit.errors import InputError

    if base_cell is not None and (base is not None or cell is None):
        raise InputError("--base-cell needs --cell and excludes --base")
    if base_cell is not None:
        profile, _, name = profile_of(file, None, cell=base_cell, service=service, store=store)
        return profile, name
    if base is not None:
        profile, _, name = profile_of(base, None)
        return profile, name
    return None
