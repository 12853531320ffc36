"""`benchkit bisect`: which commit made a server slower."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli import options

if TYPE_CHECKING:
    from benchkit.plugins.bisect.search import BisectionRecord

OF_THE_HOSTS = frozenset({"resume", "inventory", "lab", "store", "quiet", "json"})
"""Options that a resumed search may change, as they do not define the search."""


def bisect(
    context: typer.Context,
    good: Annotated[
        str | None, typer.Argument(metavar="GOOD", help="Git ref of the fast version.", show_default=False)
    ] = None,
    bad: Annotated[
        str | None, typer.Argument(metavar="BAD", help="Git ref of the slow version, a descendant.", show_default=False)
    ] = None,
    *,
    build: options.BuildCommand = None,
    run: options.BuiltCommand = None,
    metric: Annotated[
        str,
        typer.Option(help="A numeric column of `trials` that became worse."),
    ] = "rps",
    path: options.UrlPath = None,
    method: options.Method = None,
    request: options.Requests = None,
    body: options.Body = None,
    header: options.Header = None,
    header_env: options.HeaderEnv = None,
    connections: options.LoadConnections = None,
    tool: options.LoadTool = None,
    ready_within: options.ReadyWithin = None,
    duration: Annotated[
        float,
        typer.Option(
            min=1,
            max=options.MAX_TIMEOUT_S,
            callback=options.finite,
            help="Time that each comparison may take, in seconds.",
        ),
    ] = 180.0,
    precision: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=0.5,
            callback=options.finite,
            help="How far the interval of the bad end may reach to either side when it is judged.",
        ),
    ] = 0.025,
    resume: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Continue an interrupted search; `latest` is the newest.", show_default=False),
    ] = None,
    settings: options.Set = None,
    inventory: options.InventoryFileOrOwnLab = None,
    lab: options.LabNameOrOwnLab = None,
    store: options.StoreFolder = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Find the commit that made a server slower, among those after GOOD up to BAD, along first parents.

    Compares BAD with GOOD, then by bisection other commits with GOOD. Each comparison ends when its interval is on one
    side of the threshold half-way between the two, or its time is spent. A commit that does not build or start is
    skipped. Without -i or --lab, servers and load tool share the only host of a lab of its own.
    """
    from dataclasses import replace

    from benchkit.cli.calibration import fixed_fields
    from benchkit.cli.choices import hosts_for, place_of, read_requests
    from benchkit.cli.console import signals_interrupt
    from benchkit.plugins.bisect.bisection import new_record, require_valid, run_search
    from benchkit.plugins.bisect.search import read_bisection
    from benchkit.scenario.versus import DEFAULT_CONNECTIONS, ServerComparison, default_tool
    from benchkit.store.store import Store, store_path

    stored_in = Store(store_path(store))
    place = {**place_of([], inventory, lab), "cwd": None}
    if resume is not None:
        _refuse_changes(context)
        record = read_bisection(stored_in.path, resume)
        record = record.model_copy(update={"comparison": replace(record.comparison, **place)})
    else:
        if good is None or bad is None or build is None or run is None:
            raise typer.BadParameter("name GOOD and BAD, --build and --run, or a search with --resume")
        requests = read_requests(request, path=path, method=method, body=body, headers=header, headers_env=header_env)
        comparison = ServerComparison(
            requests=requests,
            tool=tool or default_tool(requests),
            connections=connections or DEFAULT_CONNECTIONS,
            budget_s=duration,
            precision=precision,
            ready_within_s=ready_within,
            fixed=fixed_fields(tool, connections),
            **place,
        )
        record = new_record(
            good, bad, build=build, run=run, metric=metric, comparison=comparison, settings=settings or ()
        )
    if record.end is None or record.next_commit is not None:
        require_valid(record)
        with (
            signals_interrupt(),  # before the lab is started: a signal at any later time removes it
            hosts_for("bisect", (), inventory, lab, quiet=quiet) as hosts,
        ):
            record = run_search(record, hosts, stored_in, quiet=quiet)
    _print_answer(record, json=json)


def _refuse_changes(context: typer.Context) -> None:
    from benchkit.errors import InputError

    given = [
        name
        for name in context.params
        if name not in OF_THE_HOSTS and (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]
    if given:
        raise InputError(f"{', '.join(given)} cannot be changed in a resumed search", where="--resume")


def _print_answer(record: BisectionRecord, *, json: bool) -> None:
    from benchkit.cli.console import print_json
    from benchkit.plugins.bisect.search import answer_of

    answer = answer_of(record)
    if json:
        print_json({"search": record, "answer": answer})
        return
    for sentence in answer.sentences:
        print(sentence)
    runs = [step.run_id for step in (record.end, *record.steps) if step is not None and step.run_id is not None]
    print(f"\nsearch    {record.bisection_id}\nruns      {' '.join(runs) or '-'}")
