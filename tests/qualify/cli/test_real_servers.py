"""Servers of other people that close their connections or keep them, compared in few blocks at full speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.qualify.cli.test_bisect import ON_A_BUSY_MACHINE
from tests.support.real_servers.servers import compare_with_loop

THRESHOLDS = ("--set", f"thresholds={{{ON_A_BUSY_MACHINE}}}")
SHORT = ("--duration", "24", "--at", "off", "--blocks", "3", "--ready-within", "60", *THRESHOLDS)


@pytest.mark.parametrize(("name", "tool"), [("gunicorn sync", "hey"), ("php -S", "hey"), ("uvicorn", "h2load")])
def test_a_server_is_compared_with_the_tool_that_suits_it(name: str, tool: str, tmp_path: Path) -> None:
    found = compare_with_loop(name, tmp_path, *SHORT)
    assert found.document["servers"][1]["ratio"]["ratio"] > 0, found.document["answer"]
    assert found.tools == {tool}, "hey opens a new connection where a server closes one"
    assert not found.causes & {"nagle", "syn-retransmits"}, "a queue alone is no other cause"
