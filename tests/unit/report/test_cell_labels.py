from __future__ import annotations

from collections.abc import Callable

from benchkit.comparison.cell_labels import cell_views, factors
from benchkit.report.stored_run import StoredRun

MakeRun = Callable[..., StoredRun]


def test_one_factor_gives_each_cell_its_own_colour_and_one_panel(make_run: MakeRun) -> None:
    views = cell_views(make_run({"stack": ["go", "nginx-go"]}).manifest)
    assert [(view.label, view.hue, view.panel) for view in views] == [("go", 0, ""), ("nginx-go", 1, "")]


def test_colour_follows_the_factor_with_words_and_panels_the_others(make_run: MakeRun) -> None:
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


def test_labels_omit_levels_that_all_cells_share(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go"], "connections": [64, 256]})
    assert [view.label for view in cell_views(run.manifest)] == ["connections 64", "connections 256"]
    assert factors(run.manifest) == {"connections": ["64", "256"]}


def test_a_control_is_not_among_the_cells(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"]})
    first, second = run.manifest.cells
    repeated = first.model_copy(update={"cell_id": "stack=go~control"})
    views = cell_views(run.manifest.model_copy(update={"cells": (first, second, repeated)}))
    assert [view.label for view in views] == ["go", "nginx"]


def test_unprintable_characters_are_replaced_in_labels(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go\N{RIGHT-TO-LEFT OVERRIDE}", "nginx\n\tgo"]})
    assert [view.label for view in cell_views(run.manifest)] == ["go\N{REPLACEMENT CHARACTER}", "nginx go"]


def test_a_cell_with_a_server_that_is_not_watched_says_so(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"]})
    first, second = run.manifest.cells
    there = second.model_copy(update={"external": {"app": "http://192.0.2.1"}})
    views = cell_views(run.manifest.model_copy(update={"cells": (first, there)}))
    assert [view.label for view in views] == ["go", "nginx (unwatched)"]
