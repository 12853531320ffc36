"""`benchkit lab`: hosts on this machine, and the system packages that they need."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit.cli.console import print_json, print_table, say, signals_interrupt
from benchkit.cli.options import Json, Quiet
from benchkit.errors import HostError, InputError, suggestion
from benchkit.units import bits_per_s

if TYPE_CHECKING:
    from benchkit.hosts.packages import Privilege
    from benchkit.lab.lab import Lab


PROGRAMS = ("sshd", "ip", "tc", "unshare", "nginx", "git", "ssh")
"""Programs of a lab, of the shipped scenarios and of the tests, other than load tools."""

app = typer.Typer(help="A lab on this machine: hosts with an OpenSSH server each.", no_args_is_help=True)
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        "--lab",
        help="Name of the lab. [default: $BENCHKIT_LAB, else the lab of this checkout and user, else lab]",
        show_default=False,
    ),
]


def prepare(
    also: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROGRAM]…",
            help="More programs, such as chromium for the tests, or nginx-lua (nginx's module for Lua).",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Install without asking.")] = False,
    quiet: Quiet = False,
) -> None:
    """Install the system packages that a lab on this machine needs and that are missing.

    Installs with apt, as root or with passwordless sudo, after asking; otherwise prints the one line that installs
    them. Without apt it prints the websites of the programs.
    """
    from benchkit.cli.hosts import why_not_install
    from benchkit.hosts.packages import LINUX_ONLY, find_here, install_command, install_here, missing, packages_for
    from benchkit.hosts.packages import PROGRAMS as KNOWN

    for program in also or ():
        if program not in KNOWN:
            raise InputError(f"no package is known for {program!r}", hint=suggestion(program, KNOWN))
    mine = [program for program in lab_programs() if sys.platform == "linux" or program not in LINUX_ONLY]
    wanted, path = tuple(dict.fromkeys((*mine, *(also or ())))), os.environ.get("PATH", os.defpath)
    lacking = missing(wanted, find_here(wanted, path))
    if not lacking:
        if not quiet:
            typer.echo("System packages: nothing to install.", err=True)
        return
    what = f"missing on this machine: {', '.join(lacking)}"
    if shutil.which("apt-get", path=path) is None:
        raise InputError(what, why="benchkit installs with apt only", hint=_elsewhere(lacking))
    packages, unpackaged = packages_for(lacking)
    if packages:
        privilege = _privilege()
        why = why_not_install(
            privilege,
            question=f"Install {', '.join(packages)} with apt, without starting their daemons?",
            privileges="root, or sudo without a password",
            yes=yes,
        )
        if why is not None:
            raise InputError(what, why=why, hint=_advice(packages, unpackaged))
        typer.echo(f"Installing with apt: {', '.join(packages)}.", err=True)
        with signals_interrupt():
            install_here(install_command(packages), sudo=privilege == "sudo")
    if still := missing(wanted, find_here(wanted, path)):
        hint = _elsewhere(unpackaged) if unpackaged else "if they are installed, add their folder to PATH"
        raise HostError(f"still not found on this machine: {', '.join(still)}", hint=hint)


def lab_programs() -> tuple[str, ...]:
    """Return the programs of a lab, the shipped scenarios and the tests, with the load tools that have a package."""
    from benchkit.hosts.packages import PROGRAMS as KNOWN
    from benchkit.loadtools.registry import TOOLS

    load_tools = [tool.required_program for tool in TOOLS.values() if tool.required_program is not None]
    return (*PROGRAMS, *(each for each in load_tools if each not in KNOWN or KNOWN[each].build is None))


def _privilege() -> Privilege:
    if os.geteuid() == 0:
        return "root"
    if shutil.which("sudo") is None:
        return "none"
    allowed = subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return "sudo" if allowed.returncode == 0 else "none"


def _advice(packages: tuple[str, ...], unpackaged: tuple[str, ...]) -> str:
    """Return the line that installs `packages`, and the home pages of programs that no package has."""
    from benchkit.hosts.packages import install_command, shell_line

    needs_root = os.geteuid() != 0
    sudo = needs_root and shutil.which("sudo") is not None
    line = shell_line(install_command(packages), sudo=sudo)
    how = f"run this line{' as root' if needs_root and not sudo else ''}, then start again:\n\n{line}\n"
    return f"{how}\n{_elsewhere(unpackaged)}" if unpackaged else how


def _elsewhere(programs: tuple[str, ...]) -> str:
    from benchkit.hosts.packages import PROGRAMS as KNOWN

    return "install by hand: " + ", ".join(f"{program} ({KNOWN[program].home})" for program in programs)


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
        typer.Option(metavar="NAME=RATE", help="Cap the link of a host, as in sut=200mbit; repeatable."),
    ] = None,
    shared: Annotated[bool, typer.Option("--shared", help="Let every host use every CPU.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Start a lab of this checkout and user; does nothing if it is already up."""
    from benchkit.lab.choice import default_name, new_name
    from benchkit.lab.lab import find_lab
    from benchkit.lab.lab import up as start_lab
    from benchkit.lab.spec import parse_shape, requested_name

    chosen = requested_name(name) or default_name() or new_name()
    requested = parse_shape(chosen, host or (), link or (), shared=shared)
    is_shape_requested = bool(host or link or shared)  # otherwise any lab that is up fits
    present = None if is_shape_requested else find_lab(chosen)
    with signals_interrupt():  # a signal removes what was started so far
        lab = start_lab(present.state.spec if present else requested, progress=say)
    if json or not quiet:
        _show(lab, "is up" if lab.fresh else "is already up", json=json)


@app.command()
def status(name: Name = None, json: Json = False) -> None:
    """Show the hosts of the lab, whose it is, what they cannot isolate, and how to log in."""
    from benchkit.lab.choice import list_labs, own_names
    from benchkit.lab.lab import find_lab, labs_up
    from benchkit.lab.spec import DEFAULT_NAME, requested_name
    from benchkit.lab.state import describe_owner

    requested = requested_name(name)
    names = own_names() if requested is None else [requested]
    labs = [lab for each in names if (lab := find_lab(each)) is not None]
    if len(labs) == 1:
        _show(labs[0], "is up", json=json)
    elif labs and json:
        print_json({"labs": [_document(lab, lab.answering()) for lab in labs]})
    elif labs:
        rows = [(lab.name, ", ".join(host.name for host in lab.hosts), describe_owner(lab.owner)) for lab in labs]
        print_table(("lab", "hosts", "belongs to"), rows)
        print("\nSeveral labs of this checkout are up: --lab NAME selects one.")
    elif json:
        others = [{"name": other.name, "owner": other.owner} for other in labs_up()]
        print_json({"name": requested or DEFAULT_NAME, "up": False, "others_up": others})
    else:
        what = "No lab of this checkout is up" if requested is None else f"The lab {requested!r} is not up"
        print(f"{what}; `benchkit lab up` starts one.")
        if others_up := labs_up():
            print(f"Use one with --lab NAME; {list_labs(others_up)}")


@app.command()
def down(
    name: Name = None,
    force: Annotated[
        bool, typer.Option("--force", help="Remove the lab even if it belongs to another checkout, or a run holds it.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Remove the lab and everything it left; without a name, does nothing if this checkout has none."""
    from benchkit.lab.choice import default_name, list_labs, require_removable
    from benchkit.lab.lab import down as remove_lab
    from benchkit.lab.lab import labs_up
    from benchkit.lab.spec import DEFAULT_NAME, name_origin, requested_name

    requested = requested_name(name)
    chosen = requested or default_name()
    if chosen is not None and not force:
        require_removable(chosen)
    was_there = chosen is not None and remove_lab(chosen)
    if requested is not None and not was_there:
        raise InputError(
            f"there is no lab {requested!r}",
            where=name_origin(name),
            why=list_labs(labs_up()),
            hint="without a name, `benchkit lab down` removes the lab of this checkout",
        )
    if json:
        print_json({"name": chosen or DEFAULT_NAME, "up": False, "was_there": was_there})
    elif was_there and not quiet:
        say(f"the lab {chosen!r} is removed")
    elif not quiet:
        say("this checkout has no lab")
        if labs := labs_up():
            say(list_labs(labs))


def _show(lab: Lab, what: str, *, json: bool) -> None:
    from benchkit.lab.state import describe_owner

    answering = lab.answering()
    if json:
        print_json(_document(lab, answering))
        return
    print(f"The lab {lab.name!r} {what}; it belongs to {describe_owner(lab.owner)}.\n")
    rows = []
    for host in lab.hosts:
        cpus, link = ", ".join(map(str, host.cpus)), bits_per_s(host.link_bps) if host.link_bps else "not capped"
        ssh = "answers" if answering[host.name] else "no answer"
        rows.append((host.name, ", ".join(host.roles), f"{host.address}:{host.port}", cpus, link, ssh))
    print_table(("host", "roles", "address", "CPUs", "link", "SSH"), rows)
    print("\nLog in with:")
    for host in lab.hosts:
        print(f"  {shlex.join(lab.ssh_command(host.name))}")
    print("\nLimits of this lab:")
    for limit in lab.state.limits:
        print(f"- {limit}")


def _document(lab: Lab, answering: dict[str, bool]) -> dict[str, Any]:
    """Return the lab as the document that `up --json` and `status --json` print."""
    state = lab.state.model_dump(mode="json", include={"mode", "created_at", "subnet", "limits", "not_isolated"})
    hosts = [
        {
            **host.model_dump(mode="json", exclude={"workdir"}),
            "user": lab.state.user,
            "answers": answering[host.name],
            "ssh": lab.ssh_command(host.name),
        }
        for host in lab.hosts
    ]
    lab_itself = {"name": lab.name, "up": True, "fresh": lab.fresh, "owner": lab.owner, "folder": lab.folder.path}
    return {**lab_itself, **state, "hosts": hosts}


app.command()(prepare)
