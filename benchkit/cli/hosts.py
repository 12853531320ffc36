"""`benchkit hosts`: facts of hosts, missing programs, and what an abandoned run left on them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit.agent.records import Records
from benchkit.agent.server import Agent
from benchkit.agent.undo import Undo
from benchkit.agent.watchdog_link import WatchdogLink
from benchkit.cli.choices import inventory_of
from benchkit.cli.console import print_json, print_table
from benchkit.cli.options import InventoryFile, Json, LabName, ScenarioName
from benchkit.errors import HostError, InputError
from benchkit.units import size

if TYPE_CHECKING:
    from benchkit.hosts.host import Host
    from benchkit.hosts.inventory import HostSpec
    from benchkit.hosts.packages import Privilege
    from benchkit.models.facts import RecordedFacts

HOW = {"undone": "restored", "rebooted": "undone by a reboot of the host"}
"""Texts for how a change was undone."""

app = typer.Typer(help="Hosts: facts, missing programs, leftovers of abandoned runs.", no_args_is_help=True)


@app.command()
def check(inventory: InventoryFile = None, lab: LabName = None, json: Json = False) -> None:
    """Show facts and limits of every host, its tools, the run that uses it, and what abandoned runs left behind."""
    from benchkit.hosts.connections import connect_all

    chosen = inventory_of(inventory, lab)
    limits = chosen.limits
    with connect_all(chosen) as hosts:
        found = [(host.spec, host.facts, host.call(Undo.traces), host.notes) for host in hosts]
    if json:
        document = [
            {
                "host": spec.name,
                "roles": spec.roles,
                "facts": facts,
                "records": [record.text for record in state.records if record.state != "mine"],
                "restored": [str(report) for report in state.reports],
                "holder": None if state.holder is None else str(state.holder),
                "notices": notes,
            }
            for spec, facts, state, notes in found
        ]
        print_json({"lab": chosen.lab, "hosts": document, "limits": limits})
        return
    rows = (_host_row(spec, facts) for spec, facts, _, _ in found)
    print_table(("host", "roles", "kernel", "arch", "CPUs", "memory", "user", "open files", "Python"), rows)
    for spec, facts, state, notes in found:
        programs = (f"{name} {fact.version or ''}".strip() for name, fact in sorted(facts.programs.items()))
        print(
            f"\n{spec.name}: {facts.distribution or facts.os}; {', '.join(programs) or 'no program that benchkit uses'}"
        )
        for note in notes:
            print(f"- {note}")
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


def _host_row(spec: HostSpec, facts: RecordedFacts) -> tuple[str, ...]:
    machine = (facts.kernel or "", facts.machine or "", ", ".join(map(str, facts.cpus)), size(facts.memory_bytes))
    user = (facts.user or "", str(facts.nofile_hard or "no limit"), facts.python or "none")
    return spec.name, ", ".join(spec.roles), *machine, *user


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
    from benchkit.hosts.connections import connect_all

    with connect_all(inventory_of(inventory, lab)) as hosts:
        holders = [(host, host.call(WatchdogLink.release)) for host in hosts if take_over]
        done = [_outcome(host, holder, "ended") for host, holder in holders if holder is not None]
        done += [outcome for host in hosts for outcome in _restore(host)]
        has_failures = any(each["failures"] for each in done if each["how"] != "kept")
        if everything and not has_failures:
            hosts.lock("hosts restore --all")  # no run may begin meanwhile
            done += [_outcome(host, host.call(Agent.remove_workdir), "removed") for host in hosts]
    if json:
        print_json({"lab": hosts.inventory.lab, "done": done})
    for each in done if not json else ():
        print(f"{each['host']}: {each['what']}: {'; '.join(each['failures']) or each['how']}")
    if not (json or done):
        print("nothing to restore")
    if has_failures:
        raise HostError(
            "not everything could be restored",
            hint="the records are kept on the host; run `benchkit hosts restore` again",
        )


def _restore(host: Host) -> Iterator[dict[str, Any]]:
    for change in host.changes.restore():
        yield _outcome(host, change.text, HOW.get(change.how, change.how), change.failures)
    for report in host.call(Undo.traces).reports:
        yield _outcome(host, report, "restored before")
        host.call(Records.delete_report, report.name)


def _outcome(host: Host, what: object, how: str, failures: Sequence[str] = ()) -> dict[str, Any]:
    return {"host": host.name, "what": str(what), "how": how, "failures": failures}


@app.command()
def prepare(
    scenario: ScenarioName,
    inventory: InventoryFile = None,
    lab: LabName = None,
    yes: Annotated[bool, typer.Option("--yes", help="Install without asking.")] = False,
    json: Json = False,
) -> None:
    """Install what a scenario needs on its hosts where benchkit may, else print the line to run there."""
    from benchkit.hosts.connections import connect_all
    from benchkit.plan.planner import require_roles
    from benchkit.scenario.experiment import needed_programs
    from benchkit.scenario.read import read_experiment

    experiment = read_experiment(scenario)
    needed = needed_programs(experiment, optional=False)
    chosen = inventory_of(inventory, lab)
    require_roles(experiment, chosen)
    with connect_all(chosen) as hosts:
        lacking = {}
        for host in hosts:
            wanted = set[str]().union(*(needed.get(role, set()) for role in host.spec.roles))
            lacking[host.name] = sorted(wanted - host.facts.programs.keys())
        outcomes = [_prepare(hosts[name], programs, yes=yes) for name, programs in lacking.items() if programs]
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


def _prepare(host: Host, lacking: list[str], *, yes: bool) -> dict[str, Any]:
    """Install packages on one host; return what was installed, or why not and the line to run there."""
    from benchkit.hosts.packages import build_hint, install_command, install_on, packages_for, shell_line

    spec, facts = host.spec, host.facts
    if facts.package_manager != "apt":
        raise InputError(f"missing: {', '.join(lacking)}", where=spec.name, why="benchkit installs with apt only")
    packages, unpackaged = packages_for(lacking)
    privilege: Privilege = "root" if facts.uid == 0 else "sudo" if spec.sudo and facts.can_sudo else "none"
    outcome = {"host": spec.name, "lacking": lacking, "installed": [], "why": None, "to_run": None}
    why = why_not_install(
        privilege,
        question=f"{spec.name}: install {', '.join(packages)} with apt, without starting their daemons?",
        privileges="root, or `sudo: true` in the inventory and sudo without a password",
        yes=yes,
    )
    if why is None and packages:
        install_on(host, install_command(packages), sudo=privilege == "sudo")
        outcome["installed"] = list(packages)
    elif packages:
        to_run = shell_line(install_command(packages), sudo=privilege != "root")
        outcome |= {"why": why, "to_run": to_run}
    if unpackaged:
        how = build_hint(unpackaged) or "install it by hand on the host"
        raise HostError(
            f"no package has: {', '.join(unpackaged)}",
            where=spec.name,
            hint=f"{how}, into the PATH there, or name its path in the inventory (programs)",
        )
    return outcome


def why_not_install(privilege: Privilege, *, question: str, privileges: str, yes: bool) -> str | None:
    """Return why benchkit may not install packages, or None; asks for consent on a terminal, unless `yes`."""
    if privilege == "none":
        return f"installing needs {privileges}"
    if yes:
        return None
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return "no terminal to ask on, and --yes was not given"
    return None if typer.confirm(question, default=True, err=True) else "declined"
