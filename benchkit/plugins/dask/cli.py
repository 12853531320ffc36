"""`benchkit cluster`: a cluster of Dask on the hosts of an inventory, for the work on many runs."""

from __future__ import annotations

from typing import Annotated

import typer

from benchkit.cli.options import InventoryFile, Json, LabName, Quiet, finite
from benchkit.errors import ExitCode

app = typer.Typer(help="A cluster of Dask on the inventory's hosts, for work on many runs.", no_args_is_help=True)

HOUR_S = 3600
MAX_HOURS = 24 * 7


@app.command()
def up(
    *,
    inventory: InventoryFile = None,
    lab: LabName = None,
    hours: Annotated[
        float,
        typer.Option("--hours", min=0, max=MAX_HOURS, callback=finite, help="Time after which it ends by itself."),
    ] = 8,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Start a scheduler on the first host and workers on all, for `--cluster`; they stay up until `cluster down`.

    Each host needs a Python with the same versions of benchkit and Dask as here. It is the program `benchkit-python` of
    the inventory, else the path of the Python that runs here. No run uses the hosts meanwhile.
    """
    from benchkit.cli.console import print_json, say
    from benchkit.cli.host_choice import inventory_of
    from benchkit.cli.signals import signals_interrupt
    from benchkit.hosts.connections import connect_all
    from benchkit.plugins.dask import cluster

    chosen = inventory_of(inventory, lab, quiet=quiet)
    with signals_interrupt(), connect_all(chosen) as hosts:
        started = cluster.up(hosts, hours * HOUR_S, (lambda _: None) if quiet else say)
    if json:
        print_json({"cluster": started.address, "dashboard": started.dashboard, "workers": started.workers})
        return
    if not quiet:
        say(f"dashboard: {started.dashboard}; it ends after {hours:g} h, or with `benchkit cluster down`")
    print(started.address)


@app.command()
def status(*, inventory: InventoryFile = None, lab: LabName = None, json: Json = False) -> None:
    """Show the hosts that are held for a cluster, and its address; exit code 1 if it is not up."""
    from benchkit.cli.console import print_json
    from benchkit.cli.host_choice import inventory_of
    from benchkit.hosts.connections import connect_all
    from benchkit.plugins.dask import cluster

    with connect_all(inventory_of(inventory, lab, quiet=json)) as hosts:
        held, address = cluster.status(hosts)
    if json:
        print_json({"cluster": address, "up": address is not None, "hosts": held})
    else:
        state = "no cluster is up" if address is None else f"{address} is up"
        print(f"{state}, held: {', '.join(held)}" if held else state)
    if address is None:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def down(*, inventory: InventoryFile = None, lab: LabName = None, quiet: Quiet = False, json: Json = False) -> None:
    """End the cluster and restore its hosts; does nothing if none is up."""
    from benchkit.cli.console import print_json, say
    from benchkit.cli.host_choice import inventory_of
    from benchkit.cli.signals import signals_interrupt
    from benchkit.hosts.connections import connect_all
    from benchkit.plugins.dask import cluster
    from benchkit.run.deployment import take_down

    chosen = inventory_of(inventory, lab, quiet=quiet)
    with signals_interrupt(), connect_all(chosen) as hosts:
        released = take_down(cluster.HOLDER, hosts)
    if json:
        print_json({"up": False, "hosts": released})
    elif not quiet:
        say(f"the cluster is down on {', '.join(released)}" if released else "no cluster is up")
