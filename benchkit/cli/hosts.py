"""`benchkit hosts`: facts of hosts, missing programs, and what an abandoned run left on them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from benchkit.cli.options import InventoryFile, Json, LabName, ScenarioName
from benchkit.errors import HostError, InputError

if TYPE_CHECKING:
    from benchkit.hosts.connections import Hosts
    from benchkit.hosts.host import Host
    from benchkit.hosts.package_steps import PackageState, Privilege

HOW = {"undone": "restored", "rebooted": "already undone by a reboot of the host"}

app = typer.Typer(help="Hosts: facts, missing programs, leftovers of abandoned runs.", no_args_is_help=True)


@app.command()
def check(inventory: InventoryFile = None, lab: LabName = None, json: Json = False) -> None:
    """Show facts and limits of every host, its tools, the run that uses it, and what abandoned runs left behind."""
    from benchkit.cli.console import print_json, print_table
    from benchkit.cli.inventory_choice import inventory_of
    from benchkit.hosts.connections import connect_all
    from benchkit.units import size

    with connect_all(inventory_of(inventory, lab)) as hosts:
        found = [(host.spec, host.facts, host.changes.state(), host.notices) for host in hosts]
        limits = hosts.inventory.limits
    if json:
        document = [
            {
                "host": spec.name,
                "roles": spec.roles,
                "facts": facts.model_dump(mode="json"),
                "records": [record.text for record in state.records if record.state != "mine"],
                "put_back": [str(report) for report in state.reports],
                "holder": None if state.holder is None else str(state.holder),
                "notices": notices,
            }
            for spec, facts, state, notices in found
        ]
        print_json({"lab": hosts.inventory.lab, "hosts": document, "limits": limits})
        return
    print_table(
        ("host", "roles", "kernel", "arch", "CPUs", "memory", "user", "open files", "Python"),
        (
            (
                spec.name,
                ", ".join(spec.roles),
                facts.kernel,
                facts.machine,
                ", ".join(map(str, facts.cpus)),
                size(facts.memory_bytes),
                facts.user,
                str(facts.nofile_hard or "no limit"),
                facts.python,
            )
            for spec, facts, _, _ in found
        ),
    )
    for spec, facts, state, notices in found:
        programs = (f"{name} {fact.version or ''}".strip() for name, fact in sorted(facts.programs.items()))
        print(
            f"\n{spec.name}: {facts.distribution or facts.os}; {', '.join(programs) or 'no program that benchkit uses'}"
        )
        for notice in notices:
            print(f"- {notice}")
        if state.holder is not None:
            print(f"- in use: {state.holder}")
        for record in state.records:
            if record.state != "mine":
                held = "left by an abandoned run" if record.state == "abandoned" else "held by another run"
                print(f"- {held}: {record.text}")
        for report in state.reports:
            print(f"- restored: {report}")
    if limits:
        print("\nLimits of these hosts:")
        for limit in limits:
            print(f"- {limit}")


@app.command()
def restore(
    inventory: InventoryFile = None,
    lab: LabName = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="First end what holds a host: a stack kept up, or a dead run.")
    ] = False,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Then remove benchkit's own folder from the hosts too, unless something holds a host."
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Restore what an abandoned run changed and verify it; also report what the watchdog restored."""
    from benchkit.cli.console import print_json
    from benchkit.cli.inventory_choice import inventory_of
    from benchkit.hosts.connections import connect_all

    with connect_all(inventory_of(inventory, lab)) as hosts:
        ended = {host.name: host.lock.release() for host in hosts} if take_over else {}
        undone = [(host.name, each) for host in hosts for each in host.changes.restore()]
        reports = [(host.name, report) for host in hosts for report in host.changes.state().reports]
        for name, report in reports:
            hosts[name].changes.delete_report(report)
        has_failures = any(each.failures for _, each in undone if each.how != "kept")
        removed = _remove_workdirs(hosts) if everything and not has_failures else {}
        lab_used = hosts.inventory.lab
    if json:
        done = [{"host": host, "what": each.text, "how": each.how, "failures": each.failures} for host, each in undone]
        restored_before = [{"host": host, "report": str(report)} for host, report in reports]
        print_json(
            {
                "lab": lab_used,
                "undone": done,
                "put_back_before": restored_before,
                "ended": {host: str(each) for host, each in ended.items()},
                "removed": removed,
            }
        )
    else:
        for name, holder in ended.items():
            print(f"{name}: ended {holder}" if holder else f"{name}: nothing held it")
        for host, report in reports:
            print(f"{host}: already restored: {report}")
        for host, each in undone:
            print(f"{host}: {each.text}: {'; '.join(each.failures) or HOW[each.how]}")
        if not (undone or reports):
            print("nothing to restore")
        for host, folder in removed.items():
            print(f"{host}: removed {folder}")
    if has_failures:
        raise HostError(
            "not everything could be restored",
            hint="the records are kept on the host; run `benchkit hosts restore` again",
        )


def _remove_workdirs(hosts: Hosts) -> dict[str, str]:
    """Remove benchkit's folder from every host; return its path by host. Raises HostError naming what holds a host."""
    hosts.lock("hosts restore --all")  # nobody else can begin to use the hosts meanwhile
    return {host.name: str(host.files.remove_workdir()) for host in hosts}


@app.command()
def prepare(
    scenario: ScenarioName,
    inventory: InventoryFile = None,
    lab: LabName = None,
    yes: Annotated[bool, typer.Option("--yes", help="Install without asking.")] = False,
    json: Json = False,
) -> None:
    """Install what a scenario needs on its hosts where benchkit may, else print the line to run there."""
    from benchkit.cli.console import print_json
    from benchkit.cli.inventory_choice import inventory_of
    from benchkit.hosts.connections import connect_all
    from benchkit.run.plan.planner import require_roles
    from benchkit.scenario.programs import needed_programs
    from benchkit.scenario.read import read_experiment

    experiment = read_experiment(scenario)
    needed = needed_programs(experiment)
    chosen = inventory_of(inventory, lab)
    require_roles(experiment, chosen)
    with connect_all(chosen) as hosts:
        outcomes = [_prepare(host, sorted(lacking), yes=yes) for host, lacking in _lacking(hosts, needed)]
    if json:
        print_json(outcomes)
    else:
        for outcome in outcomes:
            if outcome["installed"]:
                print(f"{outcome['host']}: installed {', '.join(outcome['installed'])}")
            if outcome["to_run"]:
                print(f"{outcome['host']}: {outcome['why']}; run this line there:\n\n{outcome['to_run']}\n")
        if not outcomes:
            print("the hosts have everything that the scenario needs")
    unprepared = [outcome["host"] for outcome in outcomes if not outcome["installed"]]
    if unprepared:
        raise HostError(
            "not prepared", where=", ".join(unprepared), hint="run the lines above there, then run this command again"
        )


def _lacking(hosts: Hosts, needed: dict[str, set[str]]) -> list[tuple[Host, set[str]]]:
    """Return the hosts that lack programs for one of their roles, with these programs."""
    found = []
    for host in hosts:
        wanted = set().union(*(needed.get(role, set()) for role in host.spec.roles))
        if lacking := wanted - host.facts.programs.keys():
            found.append((host, lacking))
    return found


def _prepare(host: Host, lacking: list[str], *, yes: bool) -> dict[str, Any]:
    """Install packages on one host, or report why not and the line to run there."""
    from benchkit.hosts.host_runner import HostRunner
    from benchkit.hosts.package_steps import install_steps, survey
    from benchkit.hosts.packages import Manager, packages_for
    from benchkit.hosts.steps import run_steps

    manager = next((known for known in get_args(Manager) if known == host.facts.package_manager), None)
    if manager is None:
        raise InputError(
            f"missing: {', '.join(lacking)}", where=host.name, why="no package manager that benchkit knows"
        )
    packages, unpackaged = packages_for(lacking, manager)
    runner = HostRunner(host)
    privilege: Privilege = "root" if host.facts.root else "sudo" if host.spec.sudo and host.facts.can_sudo else "none"
    state = survey(runner, manager, privilege, packages)
    outcome = {"host": host.name, "lacking": lacking, "installed": [], "why": None, "to_run": None}
    why = _obstacle(host.name, state, packages, yes=yes)
    if why is None and packages:
        run_steps(install_steps(state, packages), runner, where=host.name)
        outcome["installed"] = list(packages)
    elif packages:
        outcome |= {"why": why, "to_run": _line(state, packages)}
    if unpackaged:
        raise HostError(
            f"no package has: {', '.join(unpackaged)}",
            where=host.name,
            hint="install it by hand on the host, or name its path in the inventory (programs)",
        )
    return outcome


def _obstacle(host: str, state: PackageState, packages: tuple[str, ...], *, yes: bool) -> str | None:
    """Return why benchkit may not install on a host, or None; asks for consent on a terminal."""
    if state.manager != "apt":
        return f"benchkit installs with apt only, not with {state.manager}"
    if state.privilege == "none":
        return "installing needs root, or `sudo: true` in the inventory and sudo without a password"
    if yes:
        return None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "no terminal to ask on, and --yes was not given"
    question = f"{host}: install {', '.join(packages)} with apt, without starting their daemons?"
    return None if typer.confirm(question, default=True, err=True) else "declined"


def _line(state: PackageState, packages: tuple[str, ...]) -> str:
    from dataclasses import replace

    from benchkit.hosts.package_steps import install_steps, shell_line

    return shell_line(install_steps(replace(state, privilege="root"), packages), sudo=state.privilege != "root")
