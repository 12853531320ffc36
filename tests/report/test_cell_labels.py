from __future__ import annotations

from collections.abc import Callable

import pytest

from benchkit.report.cell_labels import baseline, cell_views, factors
from benchkit.report.stored_run import StoredRun

MakeRun = Callable[..., StoredRun]


def test_one_factor_gives_each_cell_its_own_colour_and_one_panel(make_run: MakeRun) -> None:
    views = cell_views(make_run({"stack": ["go", "nginx-go"]}).manifest)
    assert [(view.label, view.hue, view.panel) for view in views] == [("go", 0, ""), ("nginx-go", 1, "")]


def test_colour_follows_the_factor_in_words_and_the_others_make_panels(make_run: MakeRun) -> None:
    views = cell_views(make_run({"connections": [64, 256], "stack": ["go", "nginx"]}).manifest)
    assert [(view.label, view.hue, view.hue_label, view.panel) for view in views] == [
        ("go, connections 64", 0, "go", "connections 64"),
        ("nginx, connections 64", 1, "nginx", "connections 64"),
        ("go, connections 256", 0, "go", "connections 256"),
        ("nginx, connections 256", 1, "nginx", "connections 256"),
    ]


def test_numbers_switches_and_flags_are_named_with_their_factor(make_run: MakeRun) -> None:
    views = cell_views(make_run({"reuseport": ["off", "on"], "keepalive": [True, False], "threads": [1, 2]}).manifest)
    assert views[0].label == "reuseport off, keepalive true, threads 1"


def test_a_level_that_all_cells_share_is_not_part_of_names(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go"], "connections": [64, 256]})
    assert [view.label for view in cell_views(run.manifest)] == ["connections 64", "connections 256"]
    assert factors(run.manifest) == {"connections": ["64", "256"]}


def test_a_lone_cell_is_called_by_its_id(make_run: MakeRun) -> None:
    (view,) = cell_views(make_run({"stack": ["go"]}).manifest)
    assert (view.label, view.hue, view.panel) == ("stack=go", 0, "")


def test_a_control_is_no_cell_of_its_own(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"]})
    first, second = run.manifest.cells
    again = first.model_copy(update={"cell_id": "stack=go~control"})
    views = cell_views(run.manifest.model_copy(update={"cells": (first, second, again)}))
    assert [view.label for view in views] == ["go", "nginx"]


def test_cells_that_the_levels_do_not_tell_apart_are_called_by_their_ids(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"]})
    first, second = run.manifest.cells
    again = first.model_copy(update={"cell_id": "stack=go#2"})
    views = cell_views(run.manifest.model_copy(update={"cells": (first, again, second)}))
    assert [view.label for view in views] == ["stack=go", "stack=go#2", "nginx"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, "stack=go,threads=1"),
        ({"stack": "nginx"}, "stack=nginx,threads=1"),
        ({"threads": 2}, "stack=go,threads=2"),
    ],
)
def test_ratios_are_taken_to_the_baseline_of_the_scenario_or_the_first_cell(
    make_run: MakeRun, wanted: dict[str, object] | None, expected: str
) -> None:
    run = make_run({"stack": ["go", "nginx"], "threads": [1, 2]}, scenario={"baseline": wanted})
    assert baseline(run.manifest) == expected


def test_names_from_files_lose_characters_without_a_picture(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go\N{RIGHT-TO-LEFT OVERRIDE}", "nginx\n\tgo"]})
    assert [view.label for view in cell_views(run.manifest)] == ["go\N{REPLACEMENT CHARACTER}", "nginx go"]
