from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from benchkit.models.profile import Profile
from benchkit.profiles.top import Order, TopTable, top
from tests.support.paths import TESTS

FIXTURES = TESTS / "fixtures" / "profiles"
RECORDED = sorted(path.name for path in FIXTURES.glob("*.pb.gz"))
HARD = [name for name in RECORDED if name.startswith("mixed-") or "busy" in name]

THEIR_ROW = re.compile(
    r"\s*(?P<flat>-?[0-9]+)[a-zB]*\s+(?P<flat_share>\S+%)\s+(?P<sum>\S+%)\s+(?P<cum>-?[0-9]+)[a-zB]*\s+(?P<cum_share>\S+%)  (?P<name>.*?)(?: \((?:partial-)?inline\))?"
)
PLAIN_UNITS = {"nanoseconds": "ns", "bytes": "B", "count": "count"}


def percent(value: int, total: int) -> str:
    """Format a percentage like pprof (internal/measurement)."""
    number = abs(value / total) * 100 if total else 0.0
    if 99.95 <= number <= 100.05:
        return "100%"
    return (f"{number:.2f}" if number >= 1 else f"{number:.2g}") + "%"


def rows_of(table: TopTable) -> list[tuple[str, ...]]:
    return [
        (
            str(row.flat),
            percent(row.flat, table.total),
            percent(running, table.total),
            str(row.cum),
            percent(row.cum, table.total),
            row.function,
        )
        for row, running in zip(table.rows, table.running_sums(), strict=True)
    ]


@pytest.fixture(scope="session")
def pprof() -> str:
    """The program behind `go tool pprof`; started directly, it takes half the time."""
    if shutil.which("go") is None:
        pytest.skip("there is no go command")
    subprocess.run(["go", "tool", "pprof", "-h"], capture_output=True, check=False)  # builds it where it is not there
    return subprocess.run(["go", "tool", "-n", "pprof"], capture_output=True, text=True, check=True).stdout.strip()


def rows_of_pprof(program: str, name: str, unit: str, options: Sequence[str]) -> list[tuple[str | Any, ...]]:
    argv = [program, "-top", f"-unit={PLAIN_UNITS[unit]}", *options, str(FIXTURES / name)]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    head = next(i for i, line in enumerate(printed) if line.split() == ["flat", "flat%", "sum%", "cum", "cum%"])
    matches = [THEIR_ROW.fullmatch(line) for line in printed[head + 1 :]]
    assert all(matches), printed
    return [match.groups() for match in matches if match]


@pytest.mark.parametrize(
    ("name", "how"), [*((name, "plainly") for name in RECORDED), *((name, "thoroughly") for name in HARD)]
)
def test_every_row_equals_that_of_pprof(name: str, how: str, pprof: str, recorded: Callable[[str], Profile]) -> None:
    """Compare with the default limits and with others."""
    profile = recorded(name)
    asked: list[tuple[Order, list[str], dict[str, Any]]] = []
    orders: tuple[Order, ...] = ("flat", "cum")
    for order in orders:
        sorting = ["-cum"] if order == "cum" else []
        if how == "plainly":
            asked.append((order, sorting, {}))
        else:
            asked.append((order, [*sorting, "-nodefraction=0"], {"least_share": 0}))
            asked.append((order, [*sorting, "-nodecount=12"], {"most_rows": 12}))
    with ThreadPoolExecutor(4) as pool:
        unit = profile.value_type.unit
        theirs = pool.map(lambda ask: rows_of_pprof(pprof, name, unit, ask[1]), asked)
        for (order, _, limits), expected in zip(asked, theirs, strict=True):
            assert rows_of(top(profile, order=order, **limits)) == expected
            assert len(expected) > 0
