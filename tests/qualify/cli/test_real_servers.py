"""Servers of other people that close their connections or keep them, compared in less time than by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.qualify.cli.test_bisect import ON_A_BUSY_MACHINE
from tests.support.real_servers.servers import compare_with_loop

SHORT_S = 24


@pytest.mark.parametrize(("name", "tool"), [("gunicorn sync", "hey"), ("php -S", "hey"), ("uvicorn", "h2load")])
def test_a_server_has_an_interval_with_the_tool_that_suits_it(name: str, tool: str, tmp_path: Path) -> None:
    short = ("--duration", str(SHORT_S), "--set", f"thresholds={{{ON_A_BUSY_MACHINE}}}")
    found = compare_with_loop(name, tmp_path, *short)
    ratio = found.document["servers"][1]["ratio"]
    assert ratio["low"] is not None, found.document["answer"]
    assert ratio["low"] < ratio["ratio"] < ratio["high"]
    assert found.tools == {tool}, "hey opens a new connection where a server closes one"
    assert not found.causes & {"nagle", "syn-retransmits"}, "a queue alone is no other cause"
