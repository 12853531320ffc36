"""Texts that `benchkit why` prints of a recorded run."""

from __future__ import annotations

from collections.abc import Callable

import benchkit
from tests.support.cli.fixtures import CommandResult
from tests.support.paths import ROOT
from tests.support.snapshots import Snapshot

Cli = Callable[..., CommandResult]
RECORDED = str(ROOT / "notebooks" / "recorded")
QUICKSTART = benchkit.find(scenario="quickstart", store=RECORDED)


def test_sentences_and_tables_of_a_run(cli: Cli, snapshot: Snapshot) -> None:
    result = cli("why", QUICKSTART, "--store", RECORDED)
    assert (result.code, result.err) == (0, "")
    snapshot(result.out)


def test_json_has_each_component_and_the_notes(cli: Cli) -> None:
    document = cli("why", QUICKSTART, "--store", RECORDED, "--json").document()
    assert document["run_id"] == QUICKSTART
    assert len(document["sentences"]) == 1
    levels = [each["level"] for each in document["components"]]
    assert levels == ["rate"] * 3 + ["service"] * 3
    assert {"service", "component", "unit", "value", "low", "high"} <= document["components"][0].keys()
    printed = cli("why", QUICKSTART, "--store", RECORDED).out
    assert document["notes"]
    assert all(note in printed for note in document["notes"])


def test_a_run_without_telemetry_of_its_services_says_that_nothing_divides_their_cpu_time(cli: Cli) -> None:
    result = cli("why", benchkit.find(scenario="nginx-upstream-default", store=RECORDED), "--store", RECORDED)
    assert "by service\n" not in result.out
    assert result.out.count("not divided by service: cells have several services, but no telemetry for each.") == 1
