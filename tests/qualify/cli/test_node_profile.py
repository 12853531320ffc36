"""Profiles of node servers on a lab host: functions by name, and no file of them left outside the work directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import benchkit
from benchkit.hosts.connections import connect
from benchkit.lab.lab import Lab
from benchkit.models.trial import TrialRecord
from tests.support.builders import stacks, write_scenario
from tests.support.cli.fixtures import Cli


def test_the_profile_of_node_names_its_functions_and_leaves_no_map(
    cli: Cli, inventory: Callable[..., Path], tmp_path: Path, lab: Lab
) -> None:
    scenario = write_scenario(
        tmp_path,
        stacks=stacks(node={"backend": "node", "workers": 2}),
        blocks=1,
        profile={"blocks": 1, "duration_s": 3, "settle_s": 0},
    )
    result = cli("run", scenario, "-i", inventory(), "--json")
    assert result.code == 0, result.err
    raw = tmp_path / "store" / "runs" / result.document()["run_id"] / "raw"
    (profile,) = [
        profile
        for record in map(Path.read_bytes, raw.glob("*/trial.json"))
        for profile in TrialRecord.model_validate_json(record).profiles
    ]
    assert (profile.profiler, profile.why_not) == ("perf", None)
    functions = benchkit.load("profile", store=tmp_path / "store")["function"]
    assert functions.str.contains("node:").any(), sorted(functions)[:50]
    assert maps_on(lab) == []


def maps_on(lab: Lab) -> list[str]:
    """Return this user's maps for perf and logs of V8 on the server's host, which others may use without root."""
    with connect(lab.inventory().named("sut")) as host:
        names = ["-name", "perf-[0-9]*.map", "-o", "-name", "isolate-*-v8.log"]
        find = ["find", "/tmp", str(host.workdir), "-user", str(os.geteuid()), "(", *names, ")"]  # noqa: S108 - where perf reads maps
        return host.processes.run(find).stdout.decode().splitlines()
