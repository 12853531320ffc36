"""`benchkit lab`: hosts on this machine."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit.cli.lab_prepare import prepare
from benchkit.cli.options import Json, Quiet

if TYPE_CHECKING:
    from benchkit.lab.lab import Lab

app = typer.Typer(help="A lab on this machine: hosts with an OpenSSH server each.", no_args_is_help=True)

Name = Annotated[
    str | None, typer.Option("--name", help="Name of the lab. [default: $BENCHKIT_LAB, else lab]", show_default=False)
]


@app.command()
def up(
    *,
    name: Name = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ROLE[,ROLE]", help="A host and its roles; repeatable. [default: sut=sut and load=load]"
        ),
    ] = None,
    link: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]RATE", help="Cap the link of every host, or of one: 200mbit, sut=1gbit; repeatable."
        ),
    ] = None,
    shared: Annotated[bool, typer.Option("--shared", help="Let every host use every CPU.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Start the lab; does nothing if it is already up."""
    from benchkit.cli.console import say
    from benchkit.lab.lab import find_lab
    from benchkit.lab.lab import up as start_lab
    from benchkit.lab.spec import lab_name, parse_shape

    name = lab_name(name)
    requested = parse_shape(name, host or (), link or (), shared=shared)
    present = None if host or link or shared else find_lab(name)  # without a requested shape any lab that is up fits
    lab = start_lab(present.state.spec if present else requested, progress=say)
    if json or not quiet:
        _show(lab, "is up" if lab.fresh else "is already up", json=json)


@app.command()
def status(name: Name = None, json: Json = False) -> None:
    """Show the hosts of the lab, what they cannot isolate, and how to log in."""
    from benchkit.cli.console import print_json
    from benchkit.lab.lab import find_lab, lab_names
    from benchkit.lab.spec import lab_name

    name = lab_name(name)
    lab = find_lab(name)
    if lab is not None:
        _show(lab, "is up", json=json)
        return
    others = [other for other in lab_names() if other != name]
    if json:
        print_json({"name": name, "up": False, "others": others})
        return
    print(f"The lab {name!r} is not up; `benchkit lab up` starts one.")
    if others:
        print(f"Other labs (--name): {', '.join(others)}")


@app.command()
def down(name: Name = None, quiet: Quiet = False, json: Json = False) -> None:
    """Remove the lab and everything it left; does nothing if there is none."""
    from benchkit.cli.console import print_json, say
    from benchkit.lab.lab import down as remove_lab
    from benchkit.lab.spec import lab_name

    name = lab_name(name)
    was_there = remove_lab(name)
    if json:
        print_json({"name": name, "up": False, "was_there": was_there})
    elif not quiet:
        say(f"the lab {name!r} is removed" if was_there else f"there is no lab {name!r}")


def _show(lab: Lab, what: str, *, json: bool) -> None:
    from benchkit.cli.console import print_json, print_table
    from benchkit.units import bits_per_s

    answering = lab.answering()
    if json:
        print_json(_document(lab, answering))
        return
    print(f"The lab {lab.name!r} {what}.\n")
    print_table(
        ("host", "roles", "address", "CPUs", "link", "SSH"),
        [
            (
                host.name,
                ", ".join(host.roles),
                f"{host.address}:{host.port}",
                ", ".join(str(cpu) for cpu in host.cpus),
                bits_per_s(host.link_bps) if host.link_bps else "not capped",
                "answers" if answering[host.name] else "no answer",
            )
            for host in lab.hosts
        ],
    )
    print("\nLog in with:")
    for host in lab.hosts:
        print(f"  {shlex.join(lab.ssh_command(host.name))}")
    print("\nLimits of this lab:")
    for limit in lab.state.limits:
        print(f"- {limit}")


def _document(lab: Lab, answering: dict[str, bool]) -> dict[str, Any]:
    """Return the lab as the document that `up --json` and `status --json` print."""
    return {
        "name": lab.name,
        "up": True,
        "fresh": lab.fresh,
        "mode": lab.state.mode,
        "created_at": lab.state.created_at,
        "subnet": lab.state.subnet,
        "hosts": [
            {
                "name": host.name,
                "roles": host.roles,
                "address": host.address,
                "port": host.port,
                "user": lab.state.user,
                "cpus": host.cpus,
                "link_bps": host.link_bps,
                "answers": answering[host.name],
                "ssh": lab.ssh_command(host.name),
            }
            for host in lab.hosts
        ],
        "limits": lab.state.limits,
        "not_isolated": lab.state.not_isolated,
        "folder": str(lab.folder.path),
    }


app.command()(prepare)
