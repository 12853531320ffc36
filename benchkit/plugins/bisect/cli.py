"""`benchkit bisect`: which commit made a server slower."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.options import (
    MAX_TIMEOUT_S,
    Body,
    BuildCommand,
    BuiltCommand,
    Header,
    HeaderEnv,
    InventoryFileOrOwnLab,
    Json,
    LabNameOrOwnLab,
    LoadConnections,
    LoadTool,
    Method,
    Quiet,
    ReadyWithin,
    Requests,
    Set,
    StoreFolder,
    UrlPath,
    complete_metric,
    finite,
)

if TYPE_CHECKING:
    from benchkit.hosts.inventory import Inventory
    from benchkit.models.request import Request
    from benchkit.plugins.bisect.record import BisectionRecord, SearchOptions, SearchStep
    from benchkit.scenario.versus import ServerRequest
    from benchkit.store.store import Store

OF_THE_HOSTS = frozenset({"resume", "inventory", "lab", "store", "quiet", "json"})
"""Options that do not say what is searched, and which a resumed search may change."""

REASON_WIDTH = 160
"""Characters of the line of a step that gives a reason."""


def bisect(
    context: typer.Context,
    good: Annotated[
        str | None, typer.Argument(metavar="GOOD", help="Git ref of the fast version.", show_default=False)
    ] = None,
    bad: Annotated[
        str | None, typer.Argument(metavar="BAD", help="Git ref of the slow version, a descendant.", show_default=False)
    ] = None,
    *,
    build: BuildCommand = None,
    run: BuiltCommand = None,
    metric: Annotated[
        str, typer.Option(help="A numeric column of `trials` that became worse.", autocompletion=complete_metric)
    ] = "rps",
    path: UrlPath = None,
    method: Method = None,
    request: Requests = None,
    body: Body = None,
    header: Header = None,
    header_env: HeaderEnv = None,
    connections: LoadConnections = None,
    tool: LoadTool = None,
    ready_within: ReadyWithin = None,
    duration: Annotated[
        float,
        typer.Option(min=1, max=MAX_TIMEOUT_S, callback=finite, help="Time that each comparison may take, in seconds."),
    ] = 180.0,
    precision: Annotated[
        float,
        typer.Option(
            min=0.001,
            max=0.5,
            callback=finite,
            help="How far the interval of the bad end may reach to either side when it is judged.",
        ),
    ] = 0.025,
    resume: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Continue an interrupted search; `latest` is the newest.", show_default=False),
    ] = None,
    settings: Set = None,
    inventory: InventoryFileOrOwnLab = None,
    lab: LabNameOrOwnLab = None,
    store: StoreFolder = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find the commit that made a server slower, among those after GOOD up to BAD, along first parents.

    Compares BAD with GOOD, then by bisection other commits with GOOD, each until its interval is on one side of the
    threshold half-way between the two, or its time is spent. A commit that does not build or start is skipped. Without
    -i or --lab, servers and load tool share the only host of a lab of its own.
    """
    from benchkit.cli.calibration import fixed_fields, search_path
    from benchkit.cli.host_choice import inventory_of, own_lab, split_cpus
    from benchkit.cli.servers import read_requests
    from benchkit.cli.signals import signals_interrupt
    from benchkit.plugins.bisect.record import SearchOptions, read_bisection
    from benchkit.plugins.bisect.search import next_commit
    from benchkit.scenario.versus import DEFAULT_CONNECTIONS, DEFAULT_TOOL
    from benchkit.store.store import Store, store_path

    stored_in = Store(store_path(store))
    has_own_lab = inventory is None and lab is None
    if resume is not None:
        _refuse_changes(context)
        record = read_bisection(stored_in.path, resume)
    else:
        if good is None or bad is None or build is None or run is None:
            raise typer.BadParameter("name GOOD and BAD, --build and --run, or a search with --resume")
        requests = read_requests(request, path=path, method=method, body=body, headers=header, headers_env=header_env)
        options = SearchOptions(
            requests=_stored(requests),
            ready_within_s=ready_within,
            tool=tool or DEFAULT_TOOL,
            connections=connections or DEFAULT_CONNECTIONS,
            fixed=fixed_fields(tool, connections),
            duration_s=duration,
            precision=precision,
            settings=tuple(settings or ()),
        )
        record = _new_record(good, bad, build=build, run=run, metric=metric, options=options)
    is_finished = record.end is not None and next_commit(record) is None
    if not is_finished:
        place = {"search_path": search_path(inventory), "cpus": split_cpus() if has_own_lab else None}
        record = record.model_copy(update={"options": record.options.model_copy(update=place)})
        _require_valid(record)
    with signals_interrupt():  # before the lab is started: a signal at any later time removes it
        if is_finished:
            pass  # it needs no hosts
        elif has_own_lab:
            with own_lab("bisect", is_one_host=True, quiet=quiet) as started:
                record = _search(record, started.inventory(), stored_in, quiet=quiet)
        else:
            record = _search(record, inventory_of(inventory, lab, quiet=quiet), stored_in, quiet=quiet)
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


def _stored(requests: Sequence[ServerRequest]) -> tuple[Request, ...]:
    """Return the requests as the record of a search has them. Raises InputError for one that cannot be sent."""
    from pydantic import ValidationError

    from benchkit.errors import InputError
    from benchkit.models.request import Request
    from benchkit.validation import first_fault

    try:
        return tuple(Request.model_validate({**each.fields, "headers": each.headers}) for each in requests)
    except ValidationError as error:
        raise InputError("a request cannot be sent", why=first_fault(error, Request)) from None


def _new_record(good: str, bad: str, *, build: str, run: str, metric: str, options: SearchOptions) -> BisectionRecord:
    """Return the record of a new search in the repository of the present folder. Raises InputError."""
    from benchkit.errors import InputError
    from benchkit.models.metrics import METRICS, metric_column
    from benchkit.plugins.bisect.record import BisectionRecord
    from benchkit.run.manifest import new_run_id
    from benchkit.services.git_source import commits_between

    metric = metric_column(metric)
    if metric not in METRICS or METRICS[metric].better is None:
        known = ", ".join(name for name, column in METRICS.items() if column.better is not None)
        raise InputError(
            f"{metric!r} is no column of `trials` with a better direction", where="--metric", why=f"they are: {known}"
        )
    start, commits = commits_between(Path.cwd(), good, bad)
    return BisectionRecord(
        bisection_id=new_run_id("b"),
        started_at=datetime.now(UTC),
        repository=str(Path.cwd()),
        good=start,
        commits=commits,
        metric=metric,
        build=build,
        run=run,
        options=options,
    )


def _require_valid(record: BisectionRecord) -> None:
    """Find mistakes in the scenario of a step, before a lab is started. Raises InputError."""
    from benchkit.cli.calibration import experiment_of
    from benchkit.plugins.bisect.commit_comparison import step_fields

    fields = step_fields(record, record.commits[-1].commit, threshold=None, error_rate=0.01)
    experiment_of(fields, record.options.settings)


def _search(record: BisectionRecord, inventory: Inventory, store: Store, *, quiet: bool) -> BisectionRecord:
    """Run the steps that are left, each stored when it ends; say how to continue where that is interrupted."""
    from benchkit.cli.console import say
    from benchkit.errors import BenchkitError
    from benchkit.plugins.bisect.commit_comparison import CommitComparison
    from benchkit.plugins.bisect.record import save_bisection
    from benchkit.plugins.bisect.search import continue_search

    def save(state: BisectionRecord) -> None:
        save_bisection(store.path, state)
        if not quiet:
            say(_progress_line(state))

    how_to_continue = f"continue the search with `benchkit bisect --resume {record.bisection_id}`"
    save_bisection(store.path, record)
    compare = CommitComparison(record, inventory, store)
    try:
        if record.end is None:
            if not quiet:
                say(_opening_line(record))
            record = compare.calibrate(quiet=quiet)
        return continue_search(record, compare, save)
    except KeyboardInterrupt:
        say(how_to_continue)
        raise
    except BenchkitError as error:
        error.add_note(how_to_continue)
        raise


def _opening_line(record: BisectionRecord) -> str:
    from benchkit import units
    from benchkit.plugins.bisect.search import count_steps

    steps = units.counted(count_steps(len(record.commits)), "comparison")
    commits = units.counted(len(record.commits), "commit")
    return f"{commits}: about {steps} of at most {units.duration(record.options.duration_s)}"


def _progress_line(record: BisectionRecord) -> str:
    """Return a line about the last step of a search."""
    from benchkit import units
    from benchkit.plugins.bisect.search import count_steps, describe_step, search_of

    steps: tuple[SearchStep, ...] = (*([record.end] if record.end is not None else []), *record.steps)
    last, names = steps[-1], {commit.commit: commit.subject for commit in record.commits}
    skipped = sum(step.judgement == "skipped" for step in steps)
    total = max(len(steps), count_steps(len(record.commits)) + skipped)
    result = textwrap.shorten(describe_step(last), REASON_WIDTH, placeholder=" …")
    if record.end is not None and record.end.judgement == "bad":
        result += f"; {units.counted(len(search_of(record).suspects), 'suspect')}"
    return f"{len(steps)} of about {total}: {last.commit[:12]} ({names[last.commit]}): {result}"


def _print_answer(record: BisectionRecord, *, json: bool) -> None:
    from benchkit.cli.console import print_json
    from benchkit.plugins.bisect.search import answer_of

    answer = answer_of(record)
    if json:
        print_json({"search": record.model_dump(mode="json"), "answer": answer.model_dump(mode="json")})
        return
    for sentence in answer.sentences:
        print(sentence)
    runs = [step.run_id for step in (record.end, *record.steps) if step is not None and step.run_id is not None]
    print(f"\nsearch    {record.bisection_id}\nruns      {' '.join(runs) or '-'}")
