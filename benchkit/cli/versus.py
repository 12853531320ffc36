"""`benchkit versus`: servers given by command lines or URLs, or one server at several git refs, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import (
    MAX_TIMEOUT_S,
    BuildCommand,
    BuiltCommand,
    HeaderEnv,
    InventoryFile,
    Json,
    LabName,
    LoadConnections,
    LoadTool,
    Quiet,
    StoreFolder,
    Tags,
    finite,
)
from benchkit.models.response_differences import ResponsePart

if TYPE_CHECKING:
    from benchkit.cli.calibration import MakeFields
    from benchkit.hosts.inventory import Inventory
    from benchkit.models.headers import SecretValue
    from benchkit.results.store import Store
    from benchkit.run.loop import FirstBlockReview
    from benchkit.run.opened_run import OpenedRun
    from benchkit.run.recorder import RunOutcome
    from benchkit.scenario.versus import Comparison, Request

MIN_REFS = 2
"""Sides of a ratio."""


def versus(
    commands: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SERVER…",
            help="Command line of each server, in quotes ({port} stands for its port), or the URL of one that is up. The "
            "first is the baseline; one alone is measured. {controller} in a URL is this machine, as hosts reach it.",
            show_default=False,
        ),
    ] = None,
    *,
    build: BuildCommand = None,
    run: BuiltCommand = None,
    ref: Annotated[
        list[str] | None,
        typer.Option(metavar="REF", help="Git ref to build; repeatable, `worktree` is the present state of the files."),
    ] = None,
    path: Annotated[
        str | None, typer.Option(help="Path of the requests.", show_default="that of the URLs, else /")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Method of the requests; by default GET, and POST with a body.", show_default=False),
    ] = None,
    body: Annotated[
        str | None, typer.Option(metavar="TEXT|@FILE", help="Body of the requests, or @ and the file with it.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="'NAME: VALUE'", help="Header of the requests; repeatable.")
    ] = None,
    header_env: HeaderEnv = None,
    differs: Annotated[
        list[ResponsePart] | None,
        typer.Option(help="Part of the responses that is meant to differ, between servers or each time; repeatable."),
    ] = None,
    connections: LoadConnections = None,
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
    tool: LoadTool = None,
    names: Annotated[str | None, typer.Option(metavar="A,B,…", help="Names of the servers.")] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--files",
            metavar="PATH",
            help="File or folder that the servers need, carried to the hosts; repeatable. In a lab, servers start in "
            "this folder, with this shell's PATH, and need none.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the scenario that ran, to continue from it.")
    ] = None,
    tag: Tags = None,
    inventory: InventoryFile = None,
    lab: LabName = None,
    store: StoreFolder = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Compare servers by their command lines or URLs, or one server at several git refs, and say which is faster.

    Starts a lab of its own unless -i or --lab names hosts, finds a load at which the load tool is not the limit, and
    runs blocks of trials until the intervals are narrow or the time is spent.
    """
    from benchkit.cli.calibration import experiment_of, fixed_fields, search_path
    from benchkit.cli.headers import request_headers
    from benchkit.cli.inventory_choice import inventory_of
    from benchkit.cli.own_lab import own_lab, split_cpus
    from benchkit.cli.run import write_run_report
    from benchkit.cli.signals import signals_interrupt
    from benchkit.cli.tags import parse_tags
    from benchkit.results.store import Store, store_path
    from benchkit.scenario.versus import (
        DEFAULT_CONNECTIONS,
        DEFAULT_TOOL,
        Comparison,
        is_on_this_machine,
        request_path,
    )

    servers = commands or []
    tags = parse_tags(tag or [])
    carried = tuple(str(file.resolve()) for file in files or ())
    comparison = Comparison(
        request=_request(request_path(servers, path), method, body, request_headers(header or [], header_env or [])),
        differs=tuple(differs or ()),
        tool=tool or DEFAULT_TOOL,
        connections=connections or DEFAULT_CONNECTIONS,
        fixed=fixed_fields(tool, connections),
        budget_s=duration,
        precision=precision,
        files=carried,
        cwd=None if carried or inventory is not None else str(Path.cwd()),
        search_path=search_path(inventory),
        cpus=split_cpus() if inventory is None and lab is None else None,
    )
    make_fields = _servers(servers, names, build, run, ref or [])
    experiment_of(make_fields(comparison))  # mistakes are found before a lab is started
    stored_in = Store(store_path(store))
    with signals_interrupt():  # before the lab is started: a signal at any later time removes it
        if inventory is None and lab is None:
            on_loopback = any(map(is_on_this_machine, servers))
            with own_lab("versus", is_one_host=True, on_loopback=on_loopback, quiet=quiet) as started:
                outcome = _compare(
                    make_fields, comparison, started.inventory(), stored_in, tags, save=save, quiet=quiet
                )
        else:
            chosen = inventory_of(inventory, lab, quiet=quiet)
            outcome = _compare(make_fields, comparison, chosen, stored_in, tags, save=save, quiet=quiet)
        if json:
            _print_document(outcome, stored_in, write_run_report(outcome, stored_in), save)
        else:
            _print_answer(outcome, stored_in, quiet=quiet)
            print(f"\nrun       {outcome.run.run_id}", flush=True)
            print(f"report    {write_run_report(outcome, stored_in).resolve()}")  # it takes seconds
            if save is not None:
                print(f"scenario  {save}")
    if outcome.failures or outcome.not_restored:
        raise typer.Exit(1)


def _servers(
    commands: Sequence[str], names: str | None, build: str | None, run: str | None, refs: Sequence[str]
) -> MakeFields:
    """Return what makes the scenario of the servers that the options name. Raises BadParameter and InputError."""
    from benchkit.scenario.versus import compare_commands, compare_refs, server_names

    if refs or build is not None or run is not None:
        if commands or build is None or run is None or not refs:
            raise typer.BadParameter("refs need --build and --run, in place of command lines", param_hint="--ref")
        if len(set(refs)) < MIN_REFS:
            raise typer.BadParameter("name two refs to compare", param_hint="--ref")
        return partial(compare_refs, build, run, refs, str(Path.cwd()))
    if not commands:
        why = "name the servers, each by its command line in quotes or its URL; one alone is measured"
        raise typer.BadParameter(why, param_hint="SERVER")
    given = [name.strip() for name in names.split(",")] if names else []
    return partial(compare_commands, dict(zip(server_names(commands, given), commands, strict=True)))


def _request(path: str, method: str | None, body: str | None, headers: Mapping[str, str | SecretValue]) -> Request:
    """Return the request that these options describe."""
    from benchkit.scenario.versus import Request

    method = method or ("GET" if body is None else "POST")
    if body is not None and body.startswith("@"):
        return Request(path, method, body_file=str(Path(body[1:]).absolute()), headers=headers)
    return Request(path, method, body, headers=headers)


def _compare(
    make_fields: MakeFields,
    comparison: Comparison,
    inventory: Inventory,
    store: Store,
    tags: Mapping[str, str],
    *,
    save: Path | None,
    quiet: bool,
) -> RunOutcome:
    """Find the load, run the comparison, and return its outcome."""
    from benchkit.analysis.run_data import read_run_data
    from benchkit.analysis.server_results import server_results
    from benchkit.cli.calibration import calibrate, compare_adapted, experiment_of
    from benchkit.cli.console import say
    from benchkit.cli.progress import SilentProgress
    from benchkit.cli.run import run_experiment
    from benchkit.cli.versus_display import VersusProgress, describe_connections
    from benchkit.scenario.versus import save_scenario

    def show(run: OpenedRun) -> SilentProgress:
        if quiet:
            return SilentProgress()
        for sentence in describe_connections(run.plan):
            say(sentence)
        return VersusProgress(
            lambda: server_results(read_run_data(store, run.folder)), run.plan.planned_trials, comparison.budget_s
        )

    def compare(fields: Mapping[str, object], review: FirstBlockReview | None) -> RunOutcome:
        if save is not None:
            save_scenario(fields, save)
        experiment = experiment_of(fields)
        return run_experiment(experiment, inventory, store, seed=None, quiet=quiet, show=show, tags=tags, review=review)

    comparison = calibrate(make_fields, comparison, inventory, store, quiet=quiet)
    return compare_adapted(make_fields, comparison, compare, quiet=quiet)


def _print_answer(outcome: RunOutcome, store: Store, *, quiet: bool) -> None:
    """Print the table, and the answer in sentences."""
    from benchkit.analysis.cell_labels import cell_views
    from benchkit.analysis.compare import answer_of_run
    from benchkit.analysis.measured_server import measure_server
    from benchkit.analysis.run_data import read_run_data
    from benchkit.analysis.server_results import server_results
    from benchkit.cli.versus_display import print_measured, print_results

    data = read_run_data(store, outcome.run)
    answer = answer_of_run(data)
    if len(data.manifest.cells) == 1:
        measured = measure_server(data, store)
        if not quiet:
            print_measured(measured)
            print()
        print(measured.sentence, measured.limit, answer.trust_sentence, sep="\n")
    else:
        if not quiet:
            print_results(server_results(data))
            print()
        print(*answer.sentences, answer.trust_sentence, sep="\n")
    labels = {view.cell_id: view.label for view in cell_views(data.manifest)}
    killed = {record.cell_id: record.killed[0] for record in outcome.run.records() if record.killed}
    for cell_id, sentence in killed.items():
        told, _, _ = sentence.partition(", and was killed")
        print(f"{labels[cell_id]}: {told}, and was killed after each trial, which took time from the comparison.")


def _print_document(outcome: RunOutcome, store: Store, report: Path, save: Path | None) -> None:
    """Print everything as one JSON document."""
    from benchkit.analysis.compare import answer_of_run
    from benchkit.analysis.measured_server import measure_server
    from benchkit.analysis.run_data import read_run_data
    from benchkit.analysis.server_results import server_results
    from benchkit.cli.console import print_json

    data = read_run_data(store, outcome.run)
    answer = answer_of_run(data)
    alone = {"measured": measure_server(data, store).model_dump(mode="json")} if len(data.manifest.cells) == 1 else {}
    print_json(
        {
            "run_id": outcome.run.run_id,
            "status": outcome.status,
            "store": store.path,
            "servers": [result.model_dump(mode="json") for result in server_results(data)],
            **alone,
            "answer": {**answer.model_dump(mode="json"), "trust_sentence": answer.trust_sentence},
            "failures": outcome.failures,
            "not_put_back": outcome.not_restored,
            "report": report,
            "scenario": save,
        }
    )
