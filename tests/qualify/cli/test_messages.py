"""Commands without any host: help, versions, refusals and the contract's exit codes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchkit import __version__

if TYPE_CHECKING:
    from tests.support.cli.fixtures import CommandResult

Cli = Callable[..., "CommandResult"]

SMALL = """\
name: small
title: Small
question: Which?
factors: {stack: [one]}
stacks:
  one: {entry: app, services: {app: {backend: nethttp, listen: 8080}}}
load: {tool: wrk, connections: 4, duration_s: 1}
blocks: 1
"""


def test_version_and_help_need_no_host(cli: Cli) -> None:
    assert cli("--version").out == f"benchkit {__version__}\n"
    listed = cli("--help").out
    for command in ("demo", "validate", "plan", "run", "report", "parse", "lab", "hosts", "results"):
        assert f"\n  {command} " in listed


@pytest.mark.parametrize(
    ("arguments", "message", "command"),
    [
        (("nope",), "No such command 'nope'", "benchkit"),
        (("run",), "Invalid value for SCENARIO: name a scenario, or a run with --resume", "benchkit run"),
        (
            ("plan", "quickstart", "--seed", "x"),
            "Invalid value for '--seed': expected a valid integer",
            "benchkit plan",
        ),
        (("parse", "ab"), "Missing argument", "benchkit parse"),
        (("plan", "quickstart", "--nope"), "No such option: --nope", "benchkit plan"),
    ],
)
def test_a_usage_error_has_the_form_of_all_errors(
    cli: Cli, arguments: tuple[str, ...], message: str, command: str
) -> None:
    result = cli(*arguments)
    assert (result.code, result.out) == (2, "")
    first, hint = result.err.splitlines()
    assert first.startswith("benchkit: ")
    assert message in first
    assert hint == f"  → `{command} --help` shows the usage"


def test_a_group_without_a_command_prints_its_help(cli: Cli) -> None:
    result = cli("results")
    assert result.code == 2
    assert result.err.startswith("Usage: benchkit results")


@pytest.mark.parametrize("command", ["plan", "run"])
def test_without_hosts_the_message_names_lab_up(cli: Cli, environment: dict[str, str], command: str) -> None:
    result = cli(command, "quickstart")
    assert (result.code, result.out) == (2, "")
    assert f"BENCHKIT_LAB: no lab {environment['BENCHKIT_LAB']!r} is up" in result.err
    assert f"benchkit lab up --name {environment['BENCHKIT_LAB']}" in result.err


def test_shipped_scenarios_are_valid_at_every_scale(cli: Cli) -> None:
    result = cli("validate", "quickstart", "--json")
    assert result.code == 0
    assert result.document() == {
        "checked": [{"scenario": "quickstart", "scale": scale, "cells": 2} for scale in ("paper", "lab", "smoke")],
        "errors": [],
    }


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("stack: [one]", "stakc: [one]", "small.yaml:4: factors.stakc: nothing refers to this factor"),
        ("backend: nethttp", "backend: nethtp", "small.yaml:6: stacks.one.services.app.backend: no backend 'nethtp'; did you mean 'nethttp'?"),
        ("tool: wrk", "tool: wkr", "small.yaml:7: load.tool: no load tool 'wkr'; did you mean 'wrk'?"),
        ("duration_s: 1", "duration_s: 1, rate: 5", "small.yaml:7: load.rate: wrk does not support it"),
        ("duration_s: 1", "duration_s: -1", "small.yaml:7: load.duration_s: found -1"),
        ("duration_s: 1", "duraton_s: 1", "small.yaml:7: load.duraton_s: no such field"),
        ("blocks: 1", "blocks: 1\ntuning: [{profile: nginx-vs-goo}]", "small.yaml:9: tuning.0.profile: no tuning profile 'nginx-vs-goo'; did you mean 'nginx-vs-go'?"),
        ("blocks: 1", "blocks: 1\ntuning: [{profile: nginx-vs-go, roles: [sot]}]", "small.yaml:9: tuning.0.roles: no role 'sot'; did you mean 'sut'?"),
        ("blocks: 1", "blocks: 1\nroles: {sut: {}}", "no role 'load' to generate the load"),
        ("name: small", "name: 'Sm all'", "small.yaml:1: name: found 'Sm all'"),
        ("blocks: 1", "blocks: [", "small.yaml:9: not valid YAML"),
    ],
)  # fmt: skip
def test_a_bad_scenario_names_file_line_and_field(cli: Cli, tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in SMALL
    path = tmp_path / "small.yaml"
    path.write_text(SMALL.replace(old, new))
    result = cli("validate", path)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert cli("validate", path, "--json").document()["errors"] == [result.err.rstrip("\n")]


def test_an_invalid_inventory_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "inventory.yaml"
    path.write_text("hosts:\n  a: {adress: 10.0.0.1}\n")
    result = cli("plan", "quickstart", "-i", path)
    assert result.code == 2
    assert "inventory.yaml:2: hosts.a" in result.err


def test_a_traceback_only_with_debug(program: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*program, "run", "quickstart", "--debug"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "InputError: BENCHKIT_LAB: no lab " in done.stderr


def test_a_store_that_does_not_exist_is_an_error(cli: Cli, tmp_path: Path) -> None:
    result = cli("results", "list", "--store", tmp_path / "nowhere", "--json")
    assert (result.code, result.out) == (2, "")
    assert "nowhere: there is no store here" in result.err


def test_an_unknown_run_names_the_command_that_lists_runs(cli: Cli) -> None:
    result = cli("results", "trials", "latest")
    assert result.code == 2
    assert "no run 'latest'" in result.err
    assert "results list" in result.err


@pytest.mark.parametrize("arguments", [("results", "rm", "--yes"), ("report",), ("compare",), ("run", "--resume")])
def test_an_empty_run_name_selects_nothing(cli: Cli, arguments: tuple[str, ...]) -> None:
    result = cli(*arguments, "")
    assert result.code == 2
    assert "the run's name is empty" in result.err
