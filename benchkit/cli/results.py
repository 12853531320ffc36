"""`benchkit results`: the runs in a store, their trials and tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit.cli.console import print_json, print_table, say
from benchkit.cli.options import Json, RunId, StoreFolder, StoreToRead
from benchkit.errors import ExitCode
from benchkit.units import ABSENT, count, counted, rate, seconds

if TYPE_CHECKING:
    from benchkit.store.journal import RunProgress
    from benchkit.store.run_folder import RunFolder

RunIds = Annotated[list[str], typer.Argument(metavar="RUN…", help="Ids of runs, beginnings of ids, or `latest`.")]

app = typer.Typer(help="What is stored: runs, their trials, and their tables.", no_args_is_help=True)


MARKS: Mapping[str, str] = MappingProxyType(
    {
        "held": " (at a held rate)",
        "profile": " (profiled)",
        "trace": " (traced)",
        "probe": " (probe)",
        "calibrate": " (calibration)",
    }
)
"""Marks of trials other than those at full speed, by kind."""


@app.command("list")
def list_runs(
    *,
    every: Annotated[bool, typer.Option("--all", help="List calibrations, too.")] = False,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """List the runs in the store, oldest first.

    A `stopped` run was killed: `benchkit run --resume` resumes it. Calibrations, by which `bisect` finds its settings,
    are listed with --all.
    """
    from benchkit.store.store import open_store

    found, unreadable = open_store(store, must_exist=True).survey()
    rows = [(m, run.status(m)) for run, m in found if every or not m.is_calibration]
    hidden = len(found) - len(rows)
    if json:
        shown = {"run_id", "scale", "seed", "blocks", "is_imported", "started_at", "ended_at"}
        print_json(
            [
                *(
                    {"scenario": m.scenario_name, **m.model_dump(mode="json", include=shown), "status": status}
                    for m, status in rows
                ),
                *({"run_id": name, "status": "unreadable", "why": str(error)} for name, error in unreadable.items()),
            ]
        )
        return
    shown_rows = (
        (m.run_id, m.scenario_name, m.scale, str(m.blocks), f"{m.started_at:%Y-%m-%d %H:%M:%S} UTC", status)
        for m, status in rows
    )
    print_table(("run", "scenario", "scale", "blocks", "started", "status"), shown_rows, right=(3,))
    for error in unreadable.values():
        say(f"skipped: {error}")
    if hidden:
        say(f"{counted(hidden, 'calibration')} not listed: --all lists them")


@app.command()
def trials(
    run: RunId,
    probes: Annotated[bool, typer.Option("--probes", help="Show the probes of searches for a capacity, too.")] = False,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Show the trials of a run with their verdicts and failures."""
    from benchkit.judge.verdicts import finding_details, group_findings, group_skipped_checks
    from benchkit.models.design import explain
    from benchkit.store.journal import read_progress
    from benchkit.store.store import open_store
    from benchkit.store.tables import load

    where = open_store(store)
    found = where.run(run)
    every = load("trials", store=where, run_id=found.run_id).sort_values("trial_id")
    frame = every if probes else every[every["kind"] != "probe"]
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    notes: dict[str, list[dict[str, str]]] = {row["trial_id"]: [] for row in rows}
    for note in load("notes", store=where, run_id=found.run_id).to_dict("records"):
        notes.setdefault(note["trial_id"], []).append({"code": note["code"], "message": note["message"]})
    findings = (load(table, store=where, run_id=found.run_id) for table in ("verdicts", "unchecked"))
    verdicts, unchecked = (table[table["trial_id"].isin(frame["trial_id"])] for table in findings)
    failed = _failed_trials(found, read_progress(found.history()))
    if json:
        verdict_notes = finding_details(verdicts, unchecked)
        ended = [{**row, "status": "ended", "why": None, "notes": notes[row["trial_id"]]} for row in rows]
        absent = dict.fromkeys(frame.columns)
        print_json(
            [{**row, **verdict_notes(row["trial_id"])} for row in ended] + [{**absent, **each} for each in failed]
        )
        return
    shown = {each["trial_id"]: (str(each["block"]), each["cell_id"], *[ABSENT] * 5, each["status"]) for each in failed}
    shown |= {row["trial_id"]: _trial_row(row) for row in rows}
    heads = ("block", "cell", "rps", "p50", "p99", "max", "requests", "verdict")
    print_table(heads, (row for _, row in sorted(shown.items())), right=(0, 2, 3, 4, 5, 6))
    print(explain("block", "cell", "suspect", "invalid"))
    if hidden := len(every) - len(frame):
        print(f"- {counted(hidden, 'probe')} of searches for a capacity: --probes shows them")
    for each in failed:
        print(f"- {each['status']} ({each['cell_id']}, block {each['block']}): {each['why']}")
        if each["files"]:
            print(f"  its files: {found.location}/raw/{each['trial_id']}: {', '.join(each['files'])}")
    for group in group_findings(frame, verdicts):
        blocks = ", ".join(str(block) for block in dict.fromkeys(group.blocks))
        place = f"{group.cell_id}, block{'s' * (len(set(group.blocks)) > 1)} {blocks}"
        print(f"- {group.severity}, {group.check} ({place}): {group.text}")
    for lacking in group_skipped_checks(unchecked):
        print(f"- not checked, {lacking.check} ({counted(lacking.trials, 'trial')}): {lacking.why}")
    noted = {(row["tool"], note["code"]): note["message"] for row in rows for note in notes[row["trial_id"]]}
    for (tool, _), message in noted.items():
        print(f"- {tool}: {message}")


def _trial_row(trial: Mapping[Hashable, Any]) -> tuple[str, ...]:
    times = [seconds(trial[name]) for name in ("latency_p50_s", "latency_p99_s", "latency_max_s")]
    cell = f"{trial['cell_id']}{MARKS.get(trial['kind'], '')}"
    figures = (rate(trial["rps"]), *times, count(trial["requests"]))
    return str(trial["block"]), cell, *figures, trial["verdict"] or ABSENT


def _failed_trials(run: RunFolder, progress: RunProgress) -> list[dict[str, Any]]:
    """Return the trials without a result, each with its reason in the journal and the names of its raw files."""
    return [
        {
            "trial_id": trial_id,
            "cell_id": progress.positions[trial_id].cell_id,
            "block": progress.positions[trial_id].block,
            "position": progress.positions[trial_id].position,
            "status": status,
            "why": why,
            "files": run.raw_file_names(trial_id),
        }
        for status, reasons in (("failed", progress.failed), ("skipped", progress.skipped))
        for trial_id, why in sorted(reasons.items())
    ]


@app.command()
def reparse(run: RunId, store: StoreFolder = None, json: Json = False) -> None:
    """Rebuild the tables and verdicts of a run from its raw outputs."""
    from benchkit.run.judge import reparse_run
    from benchkit.store.store import Store, store_path

    where = Store(store_path(store))
    found = where.run(run)
    number = reparse_run(where, found)
    if json:
        print_json({"run_id": found.run_id, "trials": number})
    else:
        say(f"{found.run_id}: {counted(number, 'trial')} parsed")


@app.command()
def check(
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="A run's id, the beginning of one, or `latest`.", show_default="all runs"),
    ] = None,
    *,
    store: StoreFolder = None,
    json: Json = False,
) -> None:
    """Verify the checksums of stored runs. Exit code 1: a file is damaged."""
    from benchkit.store.store import Store, existing_store
    from benchkit.store.verification import check_store

    results = check_store(Store(existing_store(store)), run)
    if json:
        print_json([asdict(result) for result in results])
    else:
        for result in results:
            print(f"{result.run_id}: {result.status}")
            for file, what in result.damages.items():
                print(f"  {file}: {what}")
    damaged = [result for result in results if result.damages]
    if damaged:
        say(
            f"{counted(len(damaged), 'run')} damaged: restore the files from a backup; `benchkit results reparse RUN` builds "
            "tables from raw files that are intact"
        )
        raise typer.Exit(ExitCode.FAILED)


@app.command("rm")
def remove(
    run: RunId,
    store: StoreFolder = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove without asking.")] = False,
) -> None:
    """Remove a run: its rows in every table, and its raw files."""
    from benchkit.store.store import Store, store_path

    where = Store(store_path(store))
    found = where.run(run)
    if not yes:
        typer.confirm(f"Remove {found.run_id} and all its files?", abort=True, err=True)
    where.remove(found)
    say(f"{found.run_id} is removed")


@app.command()
def push(
    runs: RunIds,
    url: Annotated[str, typer.Argument(metavar="URL", help="Store to publish to, such as s3://bucket/folder.")],
    *,
    store: StoreFolder = None,
    json: Json = False,
) -> None:
    """Publish ended runs to a store at a URL, for others to read.

    The manifest comes last, so that nobody sees half a run. An interrupted push continues where it stopped. A run whose
    id the store has with other content is refused; nothing is deleted. Credentials come from the environment and the
    service's config files.
    """
    from benchkit.store.remote_store import RemoteStore
    from benchkit.store.store import Store, existing_store
    from benchkit.store.transfer import push as publish

    where, remote = Store(existing_store(store)), RemoteStore(url)
    named = {run.run_id: run for run in map(where.run, runs)}
    _show_transfers(((name, publish(where, run, remote)) for name, run in named.items()), "published", json=json)


@app.command()
def pull(
    runs: RunIds,
    url: Annotated[str, typer.Argument(metavar="URL", help="Store to fetch from, such as s3://bucket/folder.")],
    *,
    store: StoreFolder = None,
    json: Json = False,
) -> None:
    """Fetch published runs into a folder, and verify every file.

    The manifest comes last. A run whose id the folder has with other content is refused.
    """
    from benchkit.store.remote_store import RemoteStore
    from benchkit.store.store import Store, store_path
    from benchkit.store.transfer import pull as fetch

    where, remote = Store(store_path(store)), RemoteStore(url)
    ids = dict.fromkeys(Store(remote).run(name).run_id for name in runs)
    _show_transfers(((run_id, fetch(remote, run_id, where)) for run_id in ids), "fetched", json=json)


def _show_transfers(transfers: Iterable[tuple[str, int]], done: str, *, json: bool) -> None:
    """Print each transfer once it is done: run id and number of files; 0 files: the run was already there."""
    results = []
    for run_id, files in transfers:
        results.append({"run_id": run_id, "files": files})
        copied = f"{done}, {counted(files, 'file')}" if files else "already there"
        say(f"{run_id}: {copied}")
    if json:
        print_json({"runs": results})
