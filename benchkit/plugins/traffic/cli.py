"""`benchkit traffic`: the requests of a load from access logs and HAR files."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from benchkit.cli.options import Json, in_existing_folder

if TYPE_CHECKING:
    from benchkit.models.request import Traffic
SHOWN_CLASSES = 15

app = typer.Typer(no_args_is_help=True, help="Make the requests of a load from a log.")


@app.command("from")
def from_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Access log (also gzip) or HAR; - is stdin.")],
    *,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="common, combined, vhost_combined, haproxy or envoy, or a regular expression. [default: recognised]",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="PATH", callback=in_existing_folder, help="File of the traffic."),
    ] = Path("traffic.json"),
    paths: Annotated[int, typer.Option("--paths", min=1, max=1000, help="Different requests of each class.")] = 20,
    query: Annotated[
        Literal["keep", "drop"], typer.Option("--query", help="Query strings: kept without secrets, or dropped.")
    ] = "keep",
    host: Annotated[
        str | None,
        typer.Option(
            "--host", metavar="NAME", help="Take only the requests to this host. [default of a HAR: its page's]"
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Make traffic of the requests that a server had: their shares, sizes and times, without secrets.

    A scenario sends it by `load: {traffic: traffic.json, pace: recorded}`. Classes are methods and paths whose ids are
    {}. Cookies, authorization, and tokens in paths and queries are removed and counted.
    """
    from benchkit.cli.console import input_name, print_json, read_input
    from benchkit.plugins.traffic.cleaning import Cleaner
    from benchkit.plugins.traffic.logs import read_log
    from benchkit.plugins.traffic.requests import traffic_of
    from benchkit.report.report_files import write_file

    log, cleaner = read_log(read_input(file), form, host), Cleaner(drop_queries=query == "drop")
    traffic = traffic_of(log, cleaner, input_name(file), paths=paths)
    write_file(out, f"{traffic.model_dump_json(exclude_defaults=True)}\n".encode())
    if json:
        print_json({"written": str(out), **traffic.model_dump(mode="json", exclude={"order", "times", "requests"})})
    else:
        _show(traffic, out)


def _show(traffic: Traffic, out: Path) -> None:
    from benchkit import units
    from benchkit.cli.console import print_table

    shares: defaultdict[str, float] = defaultdict(float)
    for request in traffic.requests:
        shares[request.kind] += request.weight
    total = sum(shares.values())
    rate = traffic.mean_rate
    mean = "" if rate is None else f", {units.requests_per_s(rate)} on average"
    print(f"{units.counted(traffic.lines, 'request')} in {units.counted(len(shares), 'class', 'classes')}{mean}\n")
    rows = [(kind, units.share(share / total)) for kind, share in list(shares.items())[:SHOWN_CLASSES]]
    print_table(("class", "share"), rows, right=(1,))
    if len(shares) > SHOWN_CLASSES:
        print(f"and {len(shares) - SHOWN_CLASSES} more")
    for note in traffic.notes:
        print(f"! {note}")
    print(out)
