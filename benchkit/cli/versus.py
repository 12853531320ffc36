"""`benchkit versus`: servers given by command lines, URLs or images, or one server at several git refs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchkit.cli import options
from benchkit.cli.options import MAX_TIMEOUT_S, SERVER_HELP, finite, parse_tags
from benchkit.errors import ExitCode
from benchkit.models.design import Design, ResponsePart

MIN_REFS = 2
"""Sides of a ratio."""


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
    duration: Annotated[
        float,
        typer.Option(min=1, max=MAX_TIMEOUT_S, callback=finite, help="Time that the comparison may take, in seconds."),
    ] = 60.0,
    precision: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=0.5,
            callback=finite,
            help="End earlier once intervals reach at most this far to either side.",
        ),
    ] = 0.03,
    blocks: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=2, max=1000, help="Run this number of blocks (a trial of each server), however precise."
        ),
    ] = None,
    warmup: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, max=3600, callback=finite, help="Load before each measured window, in seconds."
        ),
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
        typer.Option("--why", help="Profile the servers afterwards, for up to the same time again, and say why."),
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

    Finds a load at which the load tool is not the limit. Runs blocks of trials until the intervals are narrow or the
    time is spent. Without -i or --lab, servers and load tool share the only host of a lab of its own: servers may
    listen on the loopback interface. Elsewhere the load comes from another host.
    """
    from benchkit.cli.calibration import MakeFields, calibrate, compare_servers, experiment_of, fixed_fields
    from benchkit.cli.choices import hosts_for, named_servers, place_of, read_requests, wait_idle_hosts
    from benchkit.cli.console import say, signals_interrupt
    from benchkit.cli.run_summary import print_comparison
    from benchkit.scenario.server_arguments import IMAGE
    from benchkit.scenario.versus import (
        DEFAULT_CONNECTIONS,
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
        connections=connections or DEFAULT_CONNECTIONS,
        fixed=fixed_fields(tool, connections),
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
    experiment = experiment_of(make_fields(comparison), settings or ())  # mistakes are found before a lab is started
    if not quiet and (shortage := comparison.shortage(len(experiment.cells))):
        say(shortage)
    stored_in = Store(store_path(store))
    with signals_interrupt():  # around the start of the lab, so that a signal removes it
        with hosts_for("versus", servers, inventory, lab, quiet=quiet) as hosts:
            wait_idle_hosts(hosts, wait_idle, experiment.scenario.thresholds.foreign_cores, quiet=quiet)
            comparison = calibrate(
                make_fields, comparison, hosts, stored_in, settings=settings or (), why=why, quiet=quiet
            )
            outcome = compare_servers(
                make_fields,
                comparison,
                hosts,
                stored_in,
                settings=settings or (),
                tags=tags,
                save=save,
                quiet=quiet,
            )
        is_one_host = comparison.cpus is not None
        is_answered = print_comparison(outcome, stored_in, quiet=quiet, json=json, save=save, is_one_host=is_one_host)
    if outcome.status == "interrupted":
        raise typer.Exit(ExitCode.INTERRUPTED)
    if outcome.failures or outcome.not_restored or not is_answered:
        raise typer.Exit(ExitCode.FAILED)
