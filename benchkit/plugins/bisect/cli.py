"""`benchkit bisect`: which commit made a server slower."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from benchkit.cli import options


def bisect(
    good: Annotated[str, typer.Argument(metavar="GOOD", help="Git ref of the fast version.")],
    bad: Annotated[str, typer.Argument(metavar="BAD", help="Git ref of the slow version, a descendant.")],
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
        float, options.seconds("--duration", text="Time that each comparison may take.", least=1)
    ] = 180.0,
    precision: Annotated[
        float,
        options.share(
            "--precision", text="How far the interval of the bad end may reach to either side when it is judged."
        ),
    ] = 0.025,
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
    from benchkit.cli.choices import on_hosts_for, place_of, read_requests
    from benchkit.cli.console import print_json, signals_interrupt
    from benchkit.plugins.bisect.bisection import bisect_commits, new_search
    from benchkit.plugins.bisect.search import answer_of
    from benchkit.scenario.versus import ServerComparison, default_tool
    from benchkit.store.store import Store, store_path

    if build is None or run is None:
        raise typer.BadParameter("name --build and --run", param_hint="--build")
    requests = read_requests(request, path=path, method=method, body=body, headers=header, headers_env=header_env)
    comparison = ServerComparison(
        requests=requests,
        tool=tool or default_tool(requests),
        connections=connections,
        held_share=None,
        budget_s=duration,
        precision=precision,
        ready_within_s=ready_within,
        fixed=frozenset() if tool is None else frozenset({"tool"}),
        **{**place_of([], inventory, lab), "cwd": None},
    )
    search = new_search(good, bad, build=build, run=run, metric=metric, comparison=comparison, settings=settings or ())
    stored_in = Store(store_path(store))
    act = partial(bisect_commits, search, store=stored_in, quiet=quiet)
    with signals_interrupt():  # before the lab is started: a signal at any later time removes it
        search = on_hosts_for("bisect", (), inventory, lab, quiet=quiet, act=act)
    answer = answer_of(search)
    if json:
        print_json({"search": search, "answer": answer})
        return
    print(*answer.sentences, sep="\n")
    runs = [step.run_id for step in (search.end, *search.steps) if step is not None and step.run_id is not None]
    print(f"\nruns      {' '.join(runs) or '-'}")
