"""`benchkit profile`: what a CPU profile says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from benchkit.cli.options import Json

if TYPE_CHECKING:  # reading profiles costs time, and --help reads none
    from collections.abc import Iterator

    from benchkit.models.profile import Profile, ValueType
    from benchkit.observe.top import Top

app = typer.Typer(help="What a pprof or perf profile says: functions, shares, flame graphs.", no_args_is_help=True)

File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A pprof profile or what `perf script` printed, gzipped or not; - for stdin."),
]
Value = Annotated[
    str | None, typer.Option("--value", metavar="KIND", help="Which of the profile's values, as cpu or samples.")
]


@app.command("top")
def show_top(
    file: File,
    *,
    cum: Annotated[bool, typer.Option("--cum", help="Sort by the time of a function and all that it called.")] = False,
    rows: Annotated[int, typer.Option("-n", "--rows", min=0, help="At most so many functions; 0: all.")] = 0,
    least: Annotated[
        float, typer.Option("--least", min=0, max=1, help="Leave out functions below this share; 0: none.")
    ] = 0.005,
    value: Value = None,
    json: Json = False,
) -> None:
    """Show flat and cumulative values of each function, row for row as `go tool pprof -top` does."""
    from benchkit.observe.top import top

    profile, index = _profile_in(file, value)
    found = top(profile, value=index, order="cum" if cum else "flat", least_share=least, most_rows=rows)
    if json:
        _print_json(profile, found.value_type, found.total, functions=found.functions, rows=list(_rows(found)))
        return
    _print_heading(profile, found.value_type, found.total)
    print(f"{len(found.rows)} of {found.functions} functions")
    print(f"{'flat':>10} {'flat%':>7} {'sum%':>7} {'cum':>10} {'cum%':>7}  function")
    for row, running in zip(found.rows, found.running(), strict=True):
        flat, cum_text = _amount(row.flat, found.value_type), _amount(row.cum, found.value_type)
        shares = [f"{found.share(part) * 100:.2f}%" for part in (row.flat, running, row.cum)]
        mark = f" ({row.inlined})" if row.inlined else ""
        print(f"{flat:>10} {shares[0]:>7} {shares[1]:>7} {cum_text:>10} {shares[2]:>7}  {row.function}{mark}")


@app.command("shares")
def show_shares(
    file: File,
    *,
    kernel: Annotated[
        Literal["call", "apart"],
        typer.Option(help="Kernel time in a system call: to that call, or the network's apart."),
    ] = "call",
    value: Value = None,
    json: Json = False,
) -> None:
    """Show the share of each category (scheduler, system calls, GC, HTTP, …); together they are one."""
    from benchkit.observe.shares import shares

    profile, index = _profile_in(file, value)
    found = shares(profile, value=index, kernel=kernel)
    kind = profile.value_types[index]
    if json:
        _print_json(
            profile,
            kind,
            found.total,
            kernel=kernel,
            scheduling=found.scheduling,
            categories=found.categories or None,
            cumulative=found.cumulative or None,
        )
        return
    _print_heading(profile, kind, found.total)
    if found.scheduling is None:
        print("no samples, no shares")
        return
    for category, share in found.categories.items():
        print(f"{share * 100:>7.2f}%  {category}")
    print(f"{found.scheduling * 100:>7.2f}%  scheduling: scheduler and netpoll together")
    for function, share in found.cumulative.items():
        print(f"{share * 100:>7.2f}%  cumulative: {function}")


@app.command()
def flame(
    file: File,
    *,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="OUT", help="A .html page, or .json for speedscope.")
    ] = None,
    base: Annotated[
        str | None, typer.Option("--base", metavar="FILE", help="An earlier profile: show what changed since then.")
    ] = None,
    value: Value = None,
    json: Json = False,
) -> None:
    """Write a flame graph: one HTML file to zoom and search in, or speedscope's JSON."""
    from benchkit.cli.reading import name_of
    from benchkit.errors import InputError

    out = out or Path(f"{Path(name_of(file)).name}.html")
    profile, index = _profile_in(file, value)
    if out.suffix == ".html":
        from benchkit.report.flame.page import flame_page

        earlier = (_profile_in(base, None)[0], name_of(base)) if base is not None else None
        content = flame_page(profile, name_of(file), value=index, base=earlier)
    elif out.suffix == ".json" and base is None:
        from json import dumps

        from benchkit.observe.speedscope import speedscope

        content = dumps(speedscope(profile, name_of(file)), ensure_ascii=False)
    else:
        why = "speedscope shows no differences" if out.suffix == ".json" else "expected a name in .html or .json"
        raise InputError("cannot write a flame graph", where=str(out), why=why)
    _write(out, content)
    if json:
        from benchkit.cli.console import print_json

        print_json({"written": str(out)})
    else:
        print(out)


def _profile_in(file: str, kind: str | None) -> tuple[Profile, int]:
    """The profile in a file, and which of its values is asked for. Raises InputError naming the file."""
    from benchkit.cli.reading import bytes_of, name_of
    from benchkit.errors import InputError, ParseError
    from benchkit.observe.read import read_profile

    try:
        profile = read_profile(bytes_of(file))
    except ParseError as error:
        raise ParseError(error.what, where=name_of(file), why=error.why, hint=error.hint) from None
    try:
        return profile, profile.value_index(kind)
    except KeyError:
        there_are = ", ".join(each.kind for each in profile.value_types)
        raise InputError(f"no value {kind!r}", where=name_of(file), why=f"there are: {there_are}") from None


def _print_json(profile: Profile, kind: ValueType, total: int, **more: object) -> None:
    from benchkit.cli.console import print_json

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


def _rows(found: Top) -> Iterator[dict[str, object]]:
    for row, running in zip(found.rows, found.running(), strict=True):
        yield {
            "function": row.function,
            "inlined": row.inlined,
            "flat": row.flat,
            "flat_s": found.value_type.seconds(row.flat),
            "flat_share": found.share(row.flat),
            "sum_share": found.share(running),
            "cum": row.cum,
            "cum_s": found.value_type.seconds(row.cum),
            "cum_share": found.share(row.cum),
        }


def _print_heading(profile: Profile, kind: ValueType, total: int) -> None:
    from benchkit.units import duration

    during = "" if profile.duration_s is None else f" in {duration(profile.duration_s)}"
    print(f"{profile.profiler}: {kind.kind}, {_amount(total, kind)} in all{during}")


def _amount(value: int, kind: ValueType) -> str:
    """A value in words."""
    from benchkit.units import count, seconds, size

    time_s = kind.seconds(value)
    if time_s is not None:
        return seconds(time_s)
    return size(value) if kind.unit == "bytes" else count(value)


def _write(out: Path, content: str) -> None:
    from benchkit.errors import InputError

    try:
        out.write_text(content, encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", str(error))
        raise InputError("cannot write the file", where=str(out), why=why) from None
