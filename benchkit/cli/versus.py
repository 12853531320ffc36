"""`benchkit versus` and `benchkit capacity`: servers given by command lines, URLs, images or git refs."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit.cli import options
from benchkit.cli.options import SERVER_HELP, finite, parse_tags
from benchkit.errors import ExitCode
from benchkit.models.design import Design, ResponsePart

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.run.recorder import RunOutcome
    from benchkit.scenario.versus import ServerComparison

MIN_REFS = 2
"""Sides of a ratio."""

_LIMIT = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|µs|ms|s)")
_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def versus(
    commands: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SERVER…",
            help=f"{SERVER_HELP} The first is the baseline; one alone is measured.",
            show_default=False,
        ),
    ] = None,
    *,
    image: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Image of this machine's podman or docker, started as a server; repeatable."),
    ] = None,
    dockerfile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Containerfile that builds an image at each --ref.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port in the container.", show_default="the one that it exposes, or 8080"),
    ] = None,
    build: options.BuildCommand = None,
    run: options.BuiltCommand = None,
    ref: Annotated[
        list[str] | None,
        typer.Option(metavar="REF", help="Git ref to build; repeatable, `worktree` is the present state of the files."),
    ] = None,
    path: options.UrlPath = None,
    method: options.Method = None,
    request: options.Requests = None,
    body: options.Body = None,
    header: options.Header = None,
    header_env: options.HeaderEnv = None,
    differs: Annotated[
        list[ResponsePart] | None,
        typer.Option(help="Part of the responses that is meant to differ, between servers or each time; repeatable."),
    ] = None,
    connections: options.LoadConnections = None,
    at: Annotated[
        str,
        typer.Option(
            metavar="RATE|SHARE",
            help="Held rate at which latencies are compared: requests per second, or a share of what the slower server "
            "carries; `off` for none.",
        ),
    ] = "0.5",
    duration: Annotated[
        float, options.seconds("--duration", text="Time that the comparison may take.", least=1)
    ] = 60.0,
    precision: Annotated[
        float, options.share("--precision", text="End earlier once intervals reach at most this far to either side.")
    ] = 0.03,
    blocks: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=2, max=1000, help="Run this number of blocks (a trial of each server), however precise."
        ),
    ] = None,
    warmup: Annotated[
        float | None, options.seconds("--warmup", text="Load before each measured window.", least=0, most=3600)
    ] = None,
    design: Annotated[
        Design | None, typer.Option(help="Order of the trials.", show_default="sliced if they fit")
    ] = None,
    ready_within: options.ReadyWithin = None,
    tool: options.LoadTool = None,
    settings: options.Set = None,
    names: options.Names = None,
    files: options.Files = None,
    certificate: options.Certificate = None,
    why: Annotated[
        bool,
        typer.Option(
            "--why", help="Profile the servers afterwards, for up to the same time again, to explain the result."
        ),
    ] = False,
    trace: options.Trace = False,
    save: options.Save = None,
    tag: options.Tags = None,
    inventory: options.InventoryFileOrOwnLab = None,
    lab: options.LabNameOrOwnLab = None,
    wait_idle: options.WaitIdle = None,
    store: options.StoreFolder = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Compare servers by their command lines or URLs, or one server at several git refs, and say which is faster.

    First measures the load curve of each server: its rate by the number of connections, and what limits it. Then it
    compares rates just above the knee and latencies at a held rate, until intervals are narrow or the time is spent.
    Without -i or --lab, servers and load tool share the only host of a lab of its own: servers may listen on the
    loopback interface. Where a server does not run as it reaches no other one, such as its database, the host gets the
    network of this machine. Elsewhere the load comes from another host.
    """
    from benchkit.cli.choices import named_servers, on_hosts_for, place_of, read_requests, wait_idle_hosts
    from benchkit.cli.console import say, signals_interrupt
    from benchkit.cli.run_summary import print_comparison
    from benchkit.cli.server_runs import MakeFields, compare_servers, experiment_of
    from benchkit.scenario.server_arguments import IMAGE
    from benchkit.scenario.trial_order import profile_of_servers
    from benchkit.scenario.versus import (
        ServerComparison,
        compare_commands,
        compare_images_of,
        compare_refs,
        default_tool,
    )
    from benchkit.store.store import Store, store_path

    servers = [*(commands or []), *(f"{IMAGE}{name}" for name in image or ())]
    refs, here = ref or [], str(Path.cwd())
    if refs or dockerfile is not None or build is not None or run is not None:
        is_built = build is not None and run is not None
        if servers or len(set(refs)) < MIN_REFS or (dockerfile is None) != is_built:
            needs = "name two refs, and either --build and --run or --dockerfile, in place of servers"
            raise typer.BadParameter(needs, param_hint="--ref")
    tags = parse_tags(tag or [])
    requests = read_requests(
        request, servers=servers, path=path, method=method, body=body, headers=header, headers_env=header_env
    )
    comparison = ServerComparison(
        requests=requests,
        differs=tuple(differs or ()),
        tool=tool or default_tool(requests),
        connections=connections,
        fixed=frozenset() if tool is None else frozenset({"tool"}),
        **held_load(at),
        budget_s=duration,
        precision=precision,
        blocks=blocks,
        design=design,
        warm_up_s=warmup,
        ready_within_s=ready_within,
        has_trace=trace,
        port=port,
        certificate=None if certificate is None else str(certificate.resolve()),
        **place_of(files or [], inventory, lab),
    )
    make_fields: MakeFields
    if dockerfile is not None:
        make_fields = partial(compare_images_of, dockerfile, refs, here)
    elif build is not None and run is not None:
        make_fields = partial(compare_refs, build, run, refs, here)
    else:
        make_fields = partial(compare_commands, named_servers(servers, names))
    experiment = experiment_of(make_fields(comparison), settings or ())  # finds mistakes before a lab is started
    if not quiet and (shortage := comparison.shortage(len(experiment.cells))):
        say(shortage)
    if why:
        comparison = replace(comparison, profile=profile_of_servers(len(experiment.cells), duration))
    stored_in = Store(store_path(store))

    def compare(hosts: Inventory) -> tuple[RunOutcome, ServerComparison]:
        wait_idle_hosts(hosts, wait_idle, experiment.scenario.thresholds.foreign_cores, quiet=quiet)
        return compare_servers(
            make_fields, comparison, hosts, stored_in, settings=settings or (), tags=tags, save=save, quiet=quiet
        )

    with signals_interrupt():  # around the start of the lab, so that a signal removes it
        outcome, comparison = on_hosts_for("versus", servers, inventory, lab, quiet=quiet, act=compare)
        is_one_host = comparison.cpus is not None
        is_answered = print_comparison(outcome, stored_in, quiet=quiet, json=json, save=save, is_one_host=is_one_host)
    if outcome.status == "interrupted":
        raise typer.Exit(ExitCode.INTERRUPTED)
    if outcome.failures or outcome.not_restored or not is_answered:
        raise typer.Exit(ExitCode.FAILED)


def held_load(text: str) -> dict[str, Any]:
    """Return the fields of a comparison for its held rate, as typed for --at. Raises BadParameter for other texts."""
    if text == "off":
        return {"held_share": None}
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise typer.BadParameter(f"{text!r} is no rate and no share; allowed: 400, 0.5, 50% or off", param_hint="--at")
    return {"held_share": number} if number < 1 else {"held_share": None, "held_rate": number}


def latency_limit(text: str) -> float:
    """Return the seconds of a time such as `10ms`. Raises BadParameter for any other text."""
    match = _LIMIT.fullmatch(text.strip())
    if match is None or not float(match["number"]):
        raise typer.BadParameter(f"{text!r} is no time; allowed: a number and us, ms or s, as in 10ms")
    return float(match["number"]) * _UNITS[match["unit"]]


def _limit(title: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(
        parser=latency_limit, metavar="TIME", help=f"Limit of the {title}, as 10ms.", show_default=False
    )
    return info


def capacity(
    servers: Annotated[
        list[str] | None, typer.Argument(metavar="SERVER…", help=SERVER_HELP, show_default=False)
    ] = None,
    *,
    p50: Annotated[float | None, _limit("median latency")] = None,
    p90: Annotated[float | None, _limit("p90 latency")] = None,
    p99: Annotated[float | None, _limit("p99 latency")] = None,
    p999: Annotated[float | None, _limit("p99.9 latency")] = None,
    errors: Annotated[
        float,
        typer.Option(
            min=0, max=0.99, callback=finite, help="Largest share of failed requests and answers other than 2xx."
        ),
    ] = 0.001,
    path: options.UrlPath = None,
    method: options.Method = None,
    request: options.Requests = None,
    body: options.Body = None,
    header: options.Header = None,
    header_env: options.HeaderEnv = None,
    connections: Annotated[int, typer.Option(min=1, help="Open connections.")] = 64,
    ready_within: options.ReadyWithin = None,
    duration: Annotated[float, options.seconds("--duration", text="Time that each search may take.", least=1)] = 60.0,
    precision: Annotated[
        float, options.share("--precision", text="End a search once its interval reaches at most this far.")
    ] = 0.05,
    probe: Annotated[float, options.seconds("--probe", text="Length of each trial of a rate.", least=0.5)] = 2.0,
    blocks: Annotated[
        int, typer.Option(min=1, help="Searches for each server; 6 or more compare servers with each other.")
    ] = 1,
    tool: Annotated[str, typer.Option(help="Load tool; one that can hold a rate.")] = "openloop",
    names: options.Names = None,
    files: options.Files = None,
    certificate: options.Certificate = None,
    save: options.Save = None,
    wait_idle: options.WaitIdle = None,
    tag: options.Tags = None,
    inventory: options.InventoryFileOrOwnLab = None,
    lab: options.LabNameOrOwnLab = None,
    store: options.StoreFolder = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Find the highest rate at which servers keep limits of latency, with an interval.

    A server is restarted for each rate, unless it is given by its URL. Servers are started in a lab of the command's
    own, or on the hosts of -i or --lab.
    """
    from benchkit.cli.choices import named_servers, on_hosts_for, place_of, read_requests, wait_idle_hosts
    from benchkit.cli.console import signals_interrupt
    from benchkit.cli.display import RunDisplay
    from benchkit.cli.run import run_interruptibly
    from benchkit.cli.run_summary import print_capacities
    from benchkit.cli.server_runs import experiment_of, require_reached
    from benchkit.models.capacity import CapacityGoal, Objective
    from benchkit.run.run import RunOptions
    from benchkit.scenario.versus import ServerComparison, capacity_fields, save_scenario
    from benchkit.store.store import Store, store_path

    limits = {"p50_s": p50, "p90_s": p90, "p99_s": p99, "p999_s": p999}
    if not any(limits.values()):
        raise typer.BadParameter("name a limit, as --p99 10ms", param_hint="--p99")
    commands, tags = servers or [], parse_tags(tag or [])
    named = named_servers(commands, names)
    comparison = ServerComparison(
        requests=read_requests(
            request, servers=commands, path=path, method=method, body=body, headers=header, headers_env=header_env
        ),
        ready_within_s=ready_within,
        tool=tool,
        connections=connections,
        held_share=None,
        budget_s=duration,
        precision=precision,
        certificate=None if certificate is None else str(certificate.resolve()),
        **place_of(files or [], inventory, lab),
    )
    goal = CapacityGoal(slo=Objective(**limits, error_share=errors), precision=precision, budget_s=duration)
    fields = capacity_fields(named, comparison, goal, probe_s=probe, blocks=blocks)
    experiment = experiment_of(fields)  # finds mistakes before a lab is started
    stored_in = Store(store_path(store))
    if save is not None:
        save_scenario(fields, save)

    def search(hosts: Inventory) -> RunOutcome:
        wait_idle_hosts(hosts, wait_idle, experiment.scenario.thresholds.foreign_cores, quiet=quiet)
        run_options = RunOptions(tags=tags, names_other_programs=not quiet)
        display = RunDisplay(quiet=quiet)
        outcome = run_interruptibly(experiment, hosts, stored_in, display, run_options, is_resumable=False)
        require_reached(outcome, stored_in)
        return outcome

    with signals_interrupt():  # around the start of the lab, so that a signal removes it
        outcome = on_hosts_for("capacity", commands, inventory, lab, quiet=quiet, act=search)
        is_known = print_capacities(outcome, stored_in, json=json, save=save)
    if outcome.failures or outcome.not_restored or not is_known:
        raise typer.Exit(ExitCode.FAILED)
