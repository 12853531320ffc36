from __future__ import annotations

import pytest

from benchkit.errors import InputError
from benchkit.models.base import Levels
from benchkit.stats.cell_pairs import ComparedCells, baseline_pairs, levels_of, partner_finder, scenario_baseline
from tests.support.comparison.fixtures import manifest_of

GRID: list[Levels] = [{"stack": stack, "connections": n} for stack in ("go", "nginx") for n in (8, 64)]


def test_whole_cell_is_the_baseline_of_all_cells() -> None:
    cells = manifest_of(GRID).cells
    pairs, alone = baseline_pairs(cells, levels_of("stack=go,connections=8", cells))
    assert [(pair.cell_id, pair.baseline) for pair in pairs] == [
        ("stack=go,connections=64", "stack=go,connections=8"),
        ("stack=nginx,connections=8", "stack=go,connections=8"),
        ("stack=nginx,connections=64", "stack=go,connections=8"),
    ]
    assert alone == []


def test_baseline_of_some_levels_is_the_cell_that_differs_only_in_them() -> None:
    cells = manifest_of(GRID).cells
    pairs, _ = baseline_pairs(cells, levels_of("stack=go", cells))
    assert pairs == [
        ComparedCells("stack=nginx,connections=8", "stack=go,connections=8"),
        ComparedCells("stack=nginx,connections=64", "stack=go,connections=64"),
    ]


def test_cells_without_a_partner_are_returned() -> None:
    cells = manifest_of([*GRID, {"stack": "nginx", "connections": 256}]).cells
    pairs, alone = baseline_pairs(cells, {"stack": "go"})
    assert len(pairs) == 2
    assert alone == ["stack=nginx,connections=256"]
    # The only cell that has the levels at all will do.
    cells = manifest_of([{"stack": "go", "connections": 8}, {"stack": "nginx", "connections": 64}]).cells
    assert baseline_pairs(cells, {"stack": "go"})[0] == [
        ComparedCells("stack=nginx,connections=64", "stack=go,connections=8")
    ]


def test_a_control_is_compared_with_its_own_cell() -> None:
    cells = manifest_of(GRID, controls=["stack=nginx,connections=8"]).cells
    pairs, _ = baseline_pairs(cells, {"stack": "go"})
    assert pairs[-1] == ComparedCells("stack=nginx,connections=8~control", "stack=nginx,connections=8", control=True)
    assert len(pairs) == 3
    assert partner_finder({"stack": "nginx"}, cells)(cells[0]) == cells[2]


def test_the_scenario_names_the_baseline_else_it_is_the_first_cell() -> None:
    cells = manifest_of(GRID, unsupported={"stack=go,connections=8": "no"}).cells
    assert scenario_baseline({"baseline": {"stack": "nginx"}}, cells) == {"stack": "nginx"}
    assert scenario_baseline({}, cells) == {"stack": "go", "connections": "64"}
    assert scenario_baseline({"baseline": {"stack": "gone"}}, cells) == {"stack": "go", "connections": "64"}


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("stak=go", "no factor 'stak': did you mean 'stack'"),
        ("stack=ngin", "no level 'ngin' of stack: did you mean 'nginx'.* allowed: go, nginx$"),
        ("stack=go,connections=9", "no level '9' of connections"),
        ("go", "no cell 'go'"),
    ],
)
def test_unknown_levels_are_refused_with_suggestions(text: str, reported: str) -> None:
    with pytest.raises(InputError, match=reported):
        levels_of(text, manifest_of(GRID).cells)
