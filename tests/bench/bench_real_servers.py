"""Twelve servers of other people, each against itself with a loop in each request: the ratio, the time, the causes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.real_runs import table
from tests.support.real_servers.servers import SERVERS, compare_with_loop

LIMIT_S = 75.0
"""Time from the shell to the end of `versus` without options."""


HEADS = ("server", "loop", "ratio [95 %]", "took", "load tool", "causes but the loop")


@pytest.fixture(scope="module")
def rows() -> Iterator[list[tuple[str, ...]]]:
    """Rows of the table, which is printed after the last server."""
    rows: list[tuple[str, ...]] = []
    yield rows
    print("\n" + table(HEADS, rows))


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_with_a_loop_is_shown_to_be_slower_than_itself(
    name: str, rows: list[tuple[str, ...]], tmp_path: Path
) -> None:
    found = compare_with_loop(name, tmp_path)
    ratio, answer = found.document["servers"][1]["ratio"], found.document["answer"]
    shown = "none" if ratio["low"] is None else f"{ratio['ratio']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"
    tools, causes = (", ".join(sorted(each)) or "none" for each in (found.tools, found.causes))
    rows.append((name, f"{SERVERS[name].turns:,}", shown, f"{found.took_s:.0f} s", tools, causes))
    print(*answer["sentences"], answer["trust_sentence"], sep="\n")
    assert ratio["high"] is not None, answer["reasons"]
    assert ratio["high"] < 1
    assert found.causes == set()
    assert found.took_s <= LIMIT_S
