"""The profile of a node server on a lab host: functions by name, and no file of it left outside the work directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import benchkit
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.models.trial import TrialRecord
from tests.builders import stacks, write_scenario
from tests.cli.conftest import Cli

pytestmark = pytest.mark.lab


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
    with connect_all(lab.inventory()) as hosts:
        assert b"perf-" not in hosts["sut"].processes.run(["ls", "/tmp"]).stdout  # noqa: S108 - where perf reads maps
