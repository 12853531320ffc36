"""`benchkit lab prepare`: system packages that a lab on this machine needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import Quiet
from benchkit.errors import HostError, InputError, suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchkit.hosts.install import PackageState, Privilege

PROGRAMS = ("sshd", "ip", "tc", "nginx", "git", "ssh")
"""Programs of a lab, of the shipped scenarios and of the tests, other than load tools."""


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
    them.
    """
    from benchkit.cli.signals import signals_interrupt
    from benchkit.hosts.install import LocalRunner, install_steps, run_steps, survey
    from benchkit.hosts.packages import manager_here, packages_for

    wanted = _wanted(also or ())
    lacking = _lacking(wanted)
    if not lacking:
        if not quiet:
            typer.echo("System packages: nothing to install.", err=True)
        return
    missing = f"missing on this machine: {', '.join(lacking)}"
    manager = manager_here(_path())
    if manager is None:
        raise InputError(missing, why="no package manager that benchkit knows", hint=_elsewhere(lacking))
    packages, unpackaged = packages_for(lacking, manager)
    if packages:
        runner = LocalRunner()
        state = survey(runner, manager, _privilege(), packages)
        obstacle = _obstacle(state, packages, yes=yes)
        if obstacle:
            raise InputError(missing, why=obstacle, hint=_advice(state, packages, unpackaged))
        with signals_interrupt():
            run_steps(install_steps(state, packages), runner)
    if still := _lacking(wanted):
        hint = _elsewhere(unpackaged) if unpackaged else "if they are installed, add their folder to PATH"
        raise HostError(f"still not found on this machine: {', '.join(still)}", hint=hint)


def lab_programs() -> tuple[str, ...]:
    """Return the programs that a lab, the shipped scenarios and the tests use, load tools included."""
    from benchkit.loadtools.registry import TOOLS

    load_tools = [tool.required_program for tool in TOOLS.values() if tool.required_program is not None]
    return (*PROGRAMS, *load_tools)


def _wanted(also: Sequence[str]) -> tuple[str, ...]:
    """Return the programs that this machine needs for a lab, and the requested ones.

    Raises InputError for an unknown one.
    """
    from benchkit.hosts.packages import LINUX_ONLY
    from benchkit.hosts.packages import PROGRAMS as KNOWN

    for program in also:
        if program not in KNOWN:
            raise InputError(f"no package is known for {program!r}", hint=suggestion(program, KNOWN))
    mine = [program for program in lab_programs() if sys.platform == "linux" or program not in LINUX_ONLY]
    return tuple(dict.fromkeys((*mine, *also)))


def _lacking(wanted: Sequence[str]) -> tuple[str, ...]:
    from benchkit.hosts.packages import find_here, missing

    return missing(wanted, find_here(wanted, _path()))


def _path() -> str:
    return os.environ.get("PATH", os.defpath)


def _privilege() -> Privilege:
    if os.geteuid() == 0:
        return "root"
    if shutil.which("sudo") is None:
        return "none"
    allowed = subprocess.run(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return "sudo" if allowed.returncode == 0 else "none"


def _obstacle(state: PackageState, packages: tuple[str, ...], *, yes: bool) -> str | None:
    """Return why benchkit may not install here, or None; asks for consent on a terminal."""
    if state.manager != "apt":
        return f"benchkit installs with apt only, not with {state.manager}"
    if state.privilege == "none":
        return "installing needs root, or sudo without a password"
    if yes:
        return None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "no terminal to ask on, and --yes was not given"
    typer.echo(f"To be installed with apt, without starting their daemons: {', '.join(packages)}", err=True)
    return None if typer.confirm("Install them now?", default=True, err=True) else "declined"


def _advice(state: PackageState, packages: tuple[str, ...], unpackaged: tuple[str, ...]) -> str:
    """Return the line that installs `packages`, and the home pages of programs that no package has."""
    from dataclasses import replace

    from benchkit.hosts.install import install_steps, shell_line

    needs_root = state.manager != "brew" and os.geteuid() != 0
    sudo = needs_root and shutil.which("sudo") is not None
    line = shell_line(install_steps(replace(state, privilege="root"), packages), sudo=sudo)
    how = f"run this line{' as root' if needs_root and not sudo else ''}, then start again:\n\n{line}\n"
    return f"{how}\n{_elsewhere(unpackaged)}" if unpackaged else how


def _elsewhere(programs: tuple[str, ...]) -> str:
    from benchkit.hosts.packages import PROGRAMS as KNOWN

    return "install by hand: " + ", ".join(f"{program} ({KNOWN[program].home})" for program in programs)
