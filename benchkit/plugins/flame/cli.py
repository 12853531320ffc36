"""`benchkit profile flame`: flame graphs of CPU profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from benchkit.cli.options import Json, StoreToRead, in_existing_folder
from benchkit.cli.profile import CellOption, File, ServiceOption, Value, profile_of
from benchkit.models.profile import PER_SECOND, Profile

SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"
_UNITS = frozenset({*PER_SECOND, "bytes"})


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
    if base_cell is not None and (base is not None or cell is None):
        raise InputError("--base-cell needs --cell and excludes --base")
    before, before_name = None, ""
    if base_cell is not None:
        before, _, before_name = profile_of(file, None, cell=base_cell, service=service, store=store)
    elif base is not None:
        before, _, before_name = profile_of(base, None)
    out = out or Path(f"{Path(name).name if cell is None else cell.replace('/', '_')}.svg")
    if out.suffix == ".svg":
        from benchkit.plugins.flame.figures import FlameGraph, profile_svg

        content = profile_svg(FlameGraph(profile, name, before, before_name, index))
    elif out.suffix == ".json" and before is None:
        from json import dumps

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


def speedscope(profile: Profile, name: str) -> dict[str, Any]:
    """Return the document of speedscope: one of its profiles for each value type, with the default one selected.

    The format is published (github.com/jlfwong/speedscope, src/lib/file-format-spec.ts). Frames are stored once, and a
    sampled profile is a list of stacks, outermost frame first, with a weight each. Times have their unit; counts none.
    """
    from benchkit.plugins.flame.call_tree import weighted_stacks
    from benchkit.version import __version__

    profiles = []
    for i, value_type in enumerate(profile.value_types):
        stacks = list(weighted_stacks(profile, i))
        profiles.append(
            {
                "type": "sampled",
                "name": f"{name}: {value_type.kind}",
                "unit": value_type.unit if value_type.unit in _UNITS else "none",
                "startValue": 0,
                "endValue": sum(weight for _, weight in stacks),
                "samples": [stack[::-1] for stack, _ in stacks],
                "weights": [weight for _, weight in stacks],
            }
        )
    return {
        "$schema": SPEEDSCOPE,
        "name": name,
        "exporter": f"benchkit@{__version__}",
        "activeProfileIndex": profile.default_value,
        "shared": {
            "frames": [
                {"name": frame.label, **({"file": where} if (where := frame.file or frame.module) else {})}
                for frame in profile.frames
            ]
        },
        "profiles": profiles,
    }
