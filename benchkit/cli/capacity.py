"""`benchkit capacity`: the highest rate at which servers keep an objective, in one line for each."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from benchkit.cli import options
from benchkit.cli.options import MAX_TIMEOUT_S, SERVER_HELP, finite, parse_tags
from benchkit.errors import ExitCode

_LIMIT = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>us|µs|ms|s)")
_UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


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
    duration: Annotated[
        float,
        typer.Option(min=1, max=MAX_TIMEOUT_S, callback=finite, help="Time that each search may take, in seconds."),
    ] = 60.0,
    precision: Annotated[
        float,
        typer.Option(
            min=0.001, max=0.5, callback=finite, help="End a search once its interval reaches at most this far."
        ),
    ] = 0.05,
    probe: Annotated[
        float,
        typer.Option(min=0.5, max=MAX_TIMEOUT_S, callback=finite, help="Length of each trial of a rate, in seconds."),
    ] = 2.0,
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
    """Find the highest rate at which servers keep limits of latency, and say how sure that is.

    The server is restarted for each rate, unless it is given by its URL. Servers that are started run in a lab of the
    command's own, or on the hosts of -i or --lab.
    """
    from benchkit.cli.calibration import experiment_of
    from benchkit.cli.choices import hosts_for, named_servers, place_of, read_requests, wait_idle_hosts
    from benchkit.cli.console import signals_interrupt
    from benchkit.cli.display import RunDisplay
    from benchkit.cli.run import run_interruptibly
    from benchkit.cli.run_summary import print_capacities
    from benchkit.models.capacity import CapacityGoal, Objective
    from benchkit.run.run import RunOptions
    from benchkit.scenario.versus import ServerComparison, capacity_fields, save_scenario
    from benchkit.store.store import Store, store_path

    limits = {"p50_s": p50, "p90_s": p90, "p99_s": p99, "p999_s": p999}
    if not any(limits.values()):
        raise typer.BadParameter("name a limit, as --p99 10ms", param_hint="--p99")
    given, tags = servers or [], parse_tags(tag or [])
    named = named_servers(given, names)
    comparison = ServerComparison(
        requests=read_requests(
            request, servers=given, path=path, method=method, body=body, headers=header, headers_env=header_env
        ),
        ready_within_s=ready_within,
        tool=tool,
        connections=connections,
        budget_s=duration,
        precision=precision,
        certificate=None if certificate is None else str(certificate.resolve()),
        **place_of(files or [], inventory, lab),
    )
    goal = CapacityGoal(slo=Objective(**limits, error_share=errors), precision=precision, budget_s=duration)
    fields = capacity_fields(named, comparison, goal, probe_s=probe, blocks=blocks)
    experiment = experiment_of(fields)  # mistakes are found before a lab is started
    stored_in = Store(store_path(store))
    if save is not None:
        save_scenario(fields, save)
    with signals_interrupt():  # around the start of the lab, so that a signal removes it
        with hosts_for("capacity", given, inventory, lab, quiet=quiet) as hosts:
            wait_idle_hosts(hosts, wait_idle, experiment.scenario.thresholds.foreign_cores, quiet=quiet)
            run_options = RunOptions(tags=tags, names_other_programs=not quiet)
            display = RunDisplay(quiet=quiet)
            outcome = run_interruptibly(experiment, hosts, stored_in, display, run_options, is_resumable=False)
        is_known = print_capacities(outcome, stored_in, json=json, save=save)
    if outcome.failures or outcome.not_restored or not is_known:
        raise typer.Exit(ExitCode.FAILED)
