"""`benchkit profile`: functions and shares of a CPU profile, from a file or a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit import units
from benchkit.cli.console import input_name, print_json, read_input
from benchkit.cli.options import Json, StoreToRead
from benchkit.errors import InputError, ParseError, suggestion

if TYPE_CHECKING:
    from benchkit.models.profile import Profile, ValueType
    from benchkit.store.run_folder import RunFolder


CellOption = Annotated[
    str | None, typer.Option("--cell", metavar="CELL", help="Use all profiles of this cell; FILE is then a run.")
]
ServiceOption = Annotated[
    str | None, typer.Option("--service", metavar="NAME", help="With --cell: the service, if there are several.")
]

app = typer.Typer(help="A pprof or perf profile: functions, shares, export to speedscope.", no_args_is_help=True)
File = Annotated[
    str, typer.Argument(metavar="FILE", help="A pprof profile or output of `perf script`, gzipped or not; - for stdin.")
]


def profile_of(
    what: str, *, cell: str | None = None, service: str | None = None, store: str | None = None
) -> tuple[Profile, str]:
    """Return a profile and its name.

    `what` is a file, or with `cell` a run; `cell` is a cell's id, or enough of its levels to identify it. Raises
    InputError.
    """
    from benchkit.profiles.profile_file import read_profile
    from benchkit.store.store import open_store

    if cell is not None:
        return _of_cell(open_store(store).run(what), cell, service)
    if service is not None:
        raise InputError("--service needs --cell", hint="give a run instead of FILE, and one of its cells")
    name = input_name(what)
    try:
        return read_profile(read_input(what)), name
    except ParseError as error:
        raise ParseError(error.what, where=name, why=error.why, hint=error.hint) from None


def _of_cell(run: RunFolder, cell: str, service: str | None) -> tuple[Profile, str]:
    from benchkit.stats.cell_pairs import cells_with_levels, levels_of
    from benchkit.store.profile_tables import read_merged_profile

    manifest = run.manifest()
    cells = [each.cell_id for each in cells_with_levels(levels_of(cell, manifest.cells), manifest.cells)]
    if len(cells) != 1:
        raise InputError(
            f"{cell!r} does not select one cell", where=run.run_id, why=f"matching cells: {', '.join(cells) or 'none'}"
        )
    records = [record for record in run.records() if record.cell_id == cells[0]]
    profiles = [profile for record in records for profile in record.profiles]
    profiled = list(dict.fromkeys(profile.service for profile in profiles if profile.file is not None))
    if not profiled:
        failures = dict.fromkeys(profile.why_not for profile in profiles if profile.why_not is not None)
        why = "; ".join(failures) or "its scenario takes no profiles; add `benchkit run --profile`"
        raise InputError(f"no profile of {cells[0]}", where=run.run_id, why=why)
    if service is None and len(profiled) > 1:
        raise InputError(f"{cells[0]} has several services", why=", ".join(profiled), hint="name one with --service")
    wanted = profiled[0] if service is None else service
    if wanted not in profiled:
        raise InputError(f"no profile of service {wanted!r}", where=run.run_id, why=suggestion(wanted, profiled))
    return read_merged_profile(run, records, wanted), f"{wanted} of {cells[0]}, {run.run_id}"


@app.command("top")
def show_top(
    file: File,
    *,
    cum: Annotated[
        bool, typer.Option("--cum", help="Sort by cumulative time: a function and all that it called.")
    ] = False,
    rows: Annotated[int, typer.Option("-n", "--rows", min=0, help="Number of functions at most; 0: all.")] = 0,
    cell: CellOption = None,
    service: ServiceOption = None,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Show flat and cumulative values of each function, row for row as `go tool pprof -top` does.

    A table omits functions below half a percent; JSON has all functions.
    """
    from benchkit.profiles.top import LEAST_SHARE, top

    profile, _ = profile_of(file, cell=cell, service=service, store=store)
    least = 0 if json else LEAST_SHARE
    found = top(profile, order="cum" if cum else "flat", least_share=least, most_rows=rows)
    kind, sums = found.value_type, list(found.running_sums())
    if json:
        document = [
            {
                "function": row.function,
                "flat": row.flat,
                "flat_s": kind.seconds(row.flat),
                "flat_share": found.share(row.flat),
                "sum_share": found.share(running),
                "cum": row.cum,
                "cum_s": kind.seconds(row.cum),
                "cum_share": found.share(row.cum),
            }
            for row, running in zip(found.rows, sums, strict=True)
        ]
        _print_json(profile, kind, found.total, functions=found.functions, rows=document)
        return
    _print_heading(profile, kind, found.total)
    print(f"{len(found.rows)} of {found.functions} functions")
    print(f"{'flat':>10} {'flat%':>7} {'sum%':>7} {'cum':>10} {'cum%':>7}  function")
    for row, running in zip(found.rows, sums, strict=True):
        flat, sum_, cumulative = (f"{found.share(part) * 100:.2f}%" for part in (row.flat, running, row.cum))
        print(
            f"{kind.shown(row.flat):>10} {flat:>7} {sum_:>7} {kind.shown(row.cum):>10} {cumulative:>7}  {row.function}"
        )


@app.command("shares")
def show_shares(
    file: File, *, cell: CellOption = None, service: ServiceOption = None, store: StoreToRead = None, json: Json = False
) -> None:
    """Show the share of each category (scheduler, system calls, GC, HTTP, …); the shares add up to one."""
    from benchkit.profiles.shares import shares

    profile, _ = profile_of(file, cell=cell, service=service, store=store)
    found = shares(profile)
    kind = profile.value_type
    if json:
        _print_json(
            profile,
            kind,
            found.total,
            waiting=found.waiting,
            categories=found.categories or None,
            cumulative=found.cumulative or None,
        )
        return
    _print_heading(profile, kind, found.total)
    if found.waiting is None:
        print("the profile has no samples")
        return
    lines: list[tuple[str, float]] = [
        *found.categories.items(),
        ("waiting: finding and waiting for work (scheduler, netpoll and epoll)", found.waiting),
        *((f"cumulative: {function}", share) for function, share in found.cumulative.items()),
    ]
    for text, share in lines:
        print(f"{share * 100:>7.2f}%  {text}")


def _print_json(profile: Profile, kind: ValueType, total: int, **more: object) -> None:
    print_json(
        {
            "profiler": profile.profiler,
            "value": kind.kind,
            "unit": kind.unit,
            "total": total,
            "total_s": kind.seconds(total),
            "duration_s": profile.duration_s,
            "started_at": profile.started_at.isoformat() if profile.started_at else None,
            **more,
        }
    )


def _print_heading(profile: Profile, kind: ValueType, total: int) -> None:
    during = "" if profile.duration_s is None else f" in {units.duration(profile.duration_s)}"
    print(f"{profile.profiler}: {kind.kind}, {kind.shown(total)} in total{during}")
