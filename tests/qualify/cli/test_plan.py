"""`benchkit plan`: the design that a run takes on these hosts, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.cli.fixtures import CommandResult

SCENARIO = """\
name: fixed
title: Two servers that listen on one port of their own
question: Which cells are up together?
stacks:
  one: {entry: app, services: {app: {backend: nethttp, listen: 18080}}}
  two: {entry: app, services: {app: {backend: command, listen: 19000, run: python3 -m http.server 19000}}}
  three: {entry: app, services: {app: {backend: command, listen: 19000, run: python3 -u -m http.server 19000}}}
factors: {stack: [one, two, three]}
load: {tool: h2load, connections: 4, duration_s: 1, warmup_s: 0.1}
design: sliced
blocks: 2
"""


def test_groups_of_cells_are_listed_with_the_reason(
    cli: Callable[..., CommandResult], inventory: Callable[..., Path], tmp_path: Path
) -> None:
    scenario = tmp_path / "fixed.yaml"
    scenario.write_text(SCENARIO)
    shown = cli("plan", scenario, "-i", inventory())
    assert shown.code == 0, shown.err
    assert "2 groups, because app of stack=three always listens on port 19000" in shown.out
    assert "2 groups of cells in turn, 2 blocks each:" in shown.out
    assert "  group 1: stack=one, stack=two\n  group 2: stack=one, stack=three\n" in shown.out
    plan = json.loads(cli("plan", scenario, "-i", inventory(), "--json").out)
    assert (plan["design"], plan["blocks"]) == ("sliced", 4)
    assert plan["groups"] == [["stack=one", "stack=two"], ["stack=one", "stack=three"]]
    assert plan["design_reason"] in shown.out
