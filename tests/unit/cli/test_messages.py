"""Messages of commands without any host: versions, refusals and the contract's exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.version import __version__
from tests.support.cli.fixtures import Cli, transcript
from tests.support.snapshots import Snapshot

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
FAULTS = [
    ("stack: [one]", "stakc: [one]"),
    ("backend: nethttp", "backend: nethtp"),
    ("tool: wrk", "tool: wkr"),
    ("duration_s: 1", "duration_s: 1, rate: 5"),
    ("duration_s: 1", "duration_s: -1"),
    ("duration_s: 1", "duraton_s: 1"),
    ("blocks: 1", "blocks: 1\ntuning: [{profile: nginx-vs-goo}]"),
    ("blocks: 1", "blocks: 1\ntuning: [{profile: nginx-vs-go, roles: [sot]}]"),
    ("blocks: 1", "blocks: 1\nroles: {sut: {}}"),
    ("name: small", "name: 'Sm all'"),
    ("blocks: 1", "blocks: ["),
]
"""Texts of `SMALL`, and the mistakes in their place."""


def test_the_version_is_printed(cli: Cli) -> None:
    assert cli("--version").out == f"benchkit {__version__}\n"


def test_help(cli: Cli, snapshot: Snapshot) -> None:
    snapshot(transcript(cli, ("--help",), ("run", "--help"), ("results",)))


def test_usage_errors(cli: Cli, snapshot: Snapshot) -> None:
    """Each has the form of all errors: a line on stderr, and a hint."""
    commands = [
        ("nope",),
        ("comparee",),
        ("profile", "topp"),
        ("run",),
        ("plan", "quickstart", "--seed", "x"),
        ("parse", "ab"),
        ("plan", "quickstart", "--nope"),
    ]
    shown = transcript(cli, *commands)
    assert shown.count("\n  → `benchkit") == shown.count("exit code 2") == len(commands)
    snapshot(shown)


def test_mistakes_in_a_scenario(cli: Cli, here: Path, snapshot: Snapshot) -> None:
    """Each is named with file, line and field."""
    shown = []
    for old, new in FAULTS:
        assert old in SMALL
        (here / "small.yaml").write_text(SMALL.replace(old, new))
        refused = cli("validate", "small.yaml")
        assert (refused.code, refused.out) == (2, "")
        assert cli("validate", "small.yaml", "--json").document()["errors"] == [refused.err.rstrip("\n")]
        shown.append(f"{new}\n{refused.err}")
    snapshot("\n".join(shown))


@pytest.mark.parametrize("command", ["plan", "run"])
def test_without_hosts_the_message_names_lab_up(cli: Cli, command: str) -> None:
    result = cli(command, "quickstart")
    assert (result.code, result.out) == (2, "")
    assert "BENCHKIT_LAB: no lab 'none' is up" in result.err
    assert "benchkit lab up --name none" in result.err


@pytest.mark.parametrize(
    ("option", "value"), [("--lease", "inf"), ("--lease", "0"), ("--reconnect", "nan"), ("--seed", "9" * 26)]
)
def test_a_number_without_sense_is_refused_before_anything_starts(cli: Cli, option: str, value: str) -> None:
    refused = cli("run", "quickstart", option, value)
    assert refused.code == 2
    assert option in refused.err
    assert "no lab" not in refused.err


def test_hosts_stores_and_runs_that_do_not_exist(cli: Cli, here: Path, snapshot: Snapshot) -> None:
    (here / "inventory.yaml").write_text("hosts:\n  a: {adress: 10.0.0.1}\n")
    shown = transcript(
        cli,
        ("plan", "quickstart", "-i", "inventory.yaml"),
        ("results", "list", "--store", "nowhere", "--json"),
        ("results", "trials", "latest"),
        ("results", "rm", "--yes", ""),
        ("report", ""),
        ("compare", ""),
        ("run", "--resume", ""),
    )
    assert shown.count("exit code 2") == 7
    snapshot(shown)


def test_shipped_scenarios_are_valid_at_every_scale(cli: Cli) -> None:
    result = cli("validate", "quickstart", "--json")
    assert result.code == 0
    assert result.document() == {
        "checked": [{"scenario": "quickstart", "scale": scale, "cells": 2} for scale in ("paper", "lab", "smoke")],
        "errors": [],
    }
