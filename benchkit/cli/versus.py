"""`benchkit versus`: servers given by command lines or URLs, or one server at several git refs, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli import options
from benchkit.cli.console import print_json, say
from benchkit.cli.host_choice import hosts_for
from benchkit.cli.options import MAX_TIMEOUT_S, SERVER_HELP, finite, parse_tags
from benchkit.cli.progress import DelayedDisplay, SilentProgress
from benchkit.cli.run_summary import outcome_document, say_not_restored
from benchkit.cli.signals import signals_interrupt
from benchkit.errors import ExitCode
from benchkit.models.design import Design, ResponsePart

if TYPE_CHECKING:
    from benchkit.cli.calibration import MakeFields
    from benchkit.comparison.runs.run_data import RunData
    from benchkit.comparison.server_results import ServerResult
    from benchkit.hosts.inventory import Inventory
    from benchkit.run.events import Opened
    from benchkit.run.recorder import RunOutcome
    from benchkit.scenario.versus import ServerComparison
    from benchkit.store.run_folder import RunFolder
    from benchkit.store.store import Store

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
    from benchkit.cli.calibration import experiment_of, fixed_fields
    from benchkit.cli.run import wait_idle_hosts, write_run_report
    from benchkit.cli.servers import place_of, read_requests
    from benchkit.comparison.runs.run_data import read_run_data
    from benchkit.comparison.server_results import has_answer, server_results
    from benchkit.scenario.server_arguments import IMAGE
    from benchkit.scenario.versus import ServerComparison, compare_images_of, default_tool
    from benchkit.scenario.versus_times import DEFAULT_CONNECTIONS
    from benchkit.store.store import Store, store_path

    servers = [*(commands or []), *(f"{IMAGE}{name}" for name in image or ())]
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
    if dockerfile is not None:
        if servers or build is not None or run is not None or len(set(ref or [])) < MIN_REFS:
            raise typer.BadParameter("it needs two --ref, and no other servers", param_hint="--dockerfile")
        make_fields: MakeFields = partial(compare_images_of, dockerfile, ref or [], str(Path.cwd()))
    else:
        make_fields = _servers(servers, names, build, run, ref or [])
    experiment = experiment_of(make_fields(comparison), settings or ())  # mistakes are found before a lab is started
    stored_in = Store(store_path(store))
    with signals_interrupt():  # around the start of the lab, so that a signal removes it
        with hosts_for("versus", servers, inventory, lab, quiet=quiet) as hosts:
            wait_idle_hosts(hosts, wait_idle, experiment.scenario.thresholds.foreign_cores, quiet=quiet)
            outcome = _compare(
                make_fields,
                comparison,
                stored_in,
                hosts,
                settings=settings or (),
                tags=tags,
                save=save,
                why=why,
                quiet=quiet,
            )
        say_not_restored(outcome)
        is_interrupted = outcome.status == "interrupted"  # without a report, which takes seconds
        data = read_run_data(stored_in, outcome.run)
        results = server_results(data)
        if json:
            report = None if is_interrupted else write_run_report(outcome, stored_in)
            _print_document(outcome, data, results, stored_in, report=report, save=save)
        else:
            _print_answer(outcome, data, results, quiet=quiet)
            print(f"\nrun       {outcome.run.run_id}", flush=True)
            if not is_interrupted:
                print(f"report    {write_run_report(outcome, stored_in).resolve()}")
            if save is not None:
                how = (
                    "; `benchkit lab up --host host=sut,load` makes a lab for it" if comparison.cpus is not None else ""
                )
                print(f"scenario  {save}{how}")
    if is_interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if outcome.failures or outcome.not_restored or not has_answer(results):
        raise typer.Exit(ExitCode.FAILED)


def _servers(
    commands: Sequence[str], names: str | None, build: str | None, run: str | None, refs: Sequence[str]
) -> MakeFields:
    """Return the function that makes the scenario of the named servers. Raises BadParameter and InputError."""
    from benchkit.cli.servers import named_servers
    from benchkit.scenario.versus import compare_commands, compare_refs

    if refs or build is not None or run is not None:
        if commands or build is None or run is None or not refs:
            raise typer.BadParameter("refs need --build and --run, in place of command lines", param_hint="--ref")
        if len(set(refs)) < MIN_REFS:
            raise typer.BadParameter("name two refs to compare", param_hint="--ref")
        return partial(compare_refs, build, run, refs, str(Path.cwd()))
    return partial(compare_commands, named_servers(commands, names))


def _compare(
    make_fields: MakeFields,
    comparison: ServerComparison,
    store: Store,
    inventory: Inventory,
    *,
    settings: Sequence[str],
    tags: Mapping[str, str],
    save: Path | None,
    why: bool,
    quiet: bool,
) -> RunOutcome:
    """Find the load, run the comparison, and return its outcome, even if it was interrupted.

    Raises KeyboardInterrupt if it was interrupted before a trial of the comparison ended.
    """
    from benchkit.cli.calibration import calibrate, compare_adapted, experiment_of
    from benchkit.cli.run import run_interruptibly
    from benchkit.cli.versus_display import VersusProgress, describe_connections
    from benchkit.comparison.runs.run_data import read_run_data
    from benchkit.comparison.server_results import server_results
    from benchkit.run.recorder import RunOutcome
    from benchkit.run.run import RunOptions
    from benchkit.scenario.versus import save_scenario

    opened: list[RunFolder] = []

    def display(event: Opened) -> SilentProgress:
        plan, folder = event.plan, event.folder
        opened.append(folder)
        if quiet:
            return SilentProgress()
        for sentence in describe_connections(plan):
            say(sentence)
        return VersusProgress(
            lambda: server_results(read_run_data(store, folder)), plan.planned_trials, comparison.budget_s
        )

    def compare(fields: Mapping[str, object], adapted: ServerComparison) -> RunOutcome:
        experiment = experiment_of(fields, settings)
        if save is not None:
            save_scenario(experiment.document.data, save)
        options = RunOptions(tags=tags, names_other_programs=not quiet, adapts=adapted)
        progress = DelayedDisplay(display, quiet=quiet)
        try:
            return run_interruptibly(experiment, inventory, store, progress, options, is_resumable=False)
        except KeyboardInterrupt:
            if not opened or read_run_data(store, opened[-1]).trials.empty:
                raise
            return RunOutcome(opened[-1], "interrupted")

    comparison = calibrate(make_fields, comparison, inventory, store, settings=settings, why=why, quiet=quiet)
    return compare_adapted(make_fields, comparison, compare, quiet=quiet)


def _print_answer(outcome: RunOutcome, data: RunData, results: Sequence[ServerResult], *, quiet: bool) -> None:
    from benchkit.cli.versus_display import describe_interruption, print_measured, print_results
    from benchkit.comparison.cell_labels import cell_views
    from benchkit.comparison.compare import answer_of_run
    from benchkit.comparison.server_results import measure_server

    answer = answer_of_run(data)
    if len(data.manifest.cells) == 1:
        measured = measure_server(data)
        if not quiet:
            print_measured(measured)
            print()
        print(measured.sentence, measured.limit, answer.trust_sentence, sep="\n")
    else:
        if not quiet:
            print_results(results)
            print()
        print(*answer.sentences, answer.trust_sentence, sep="\n")
    labels = {view.cell_id: view.label for view in cell_views(data.manifest)}
    killed = {record.cell_id: record.killed[0] for record in outcome.run.records() if record.killed}
    for cell_id, sentence in killed.items():
        told, _, _ = sentence.partition(", and was killed")
        print(f"{labels[cell_id]}: {told}, and was killed after each trial, which took time from the comparison.")
    if outcome.status == "interrupted":
        print(describe_interruption(data))


def _print_document(
    outcome: RunOutcome,
    data: RunData,
    results: Sequence[ServerResult],
    store: Store,
    *,
    report: Path | None,
    save: Path | None,
) -> None:
    from benchkit.comparison.compare import answer_of_run
    from benchkit.comparison.server_results import measure_server

    answer = answer_of_run(data)
    alone = {"measured": measure_server(data)} if len(data.manifest.cells) == 1 else {}
    print_json(
        {
            **outcome_document(outcome, store),
            "servers": results,
            **alone,
            "answer": {**answer.model_dump(mode="json"), "trust_sentence": answer.trust_sentence},
            "report": report,
            "scenario": save,
        }
    )
