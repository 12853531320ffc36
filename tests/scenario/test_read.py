from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.models.levels import cell_id
from benchkit.models.scale import Scale
from benchkit.scenario.read import SCALES, read_experiment
from benchkit.scenario.trial_order import randomised_blocks
from benchkit.services.go_server import GoServerOptions

SCENARIO = """\
name: small
title: Small
question: Which?
factors:
  stack: [one, two]
  threads: [1, all]
stacks:
  one: {entry: app, services: {app: {backend: nethttp, listen: 8080, gomaxprocs: $threads}}}
  two: {entry: app, services: {app: {backend: nethttp, listen: 8081}}}
load: {tool: wrk, connections: 4, duration_s: 1, headers: {x-note: $$threads}}
blocks: 2
scales:
  lab: {}
  smoke: {blocks: 1, load: {duration_s: 2}}
"""


def write(tmp_path: Path, *changes: tuple[str, str]) -> str:
    text = SCENARIO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "small.yaml"
    path.write_text(text)
    return str(path)


def refusal(tmp_path: Path, *changes: tuple[str, str], scale: Scale = "lab", settings: tuple[str, ...] = ()) -> str:
    with pytest.raises(InputError) as caught:
        read_experiment(write(tmp_path, *changes), scale, settings)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_cells_are_all_combinations_with_levels_filled_in(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path))
    assert [c.cell_id for c in experiment.cells] == [
        "stack=one,threads=1",
        "stack=one,threads=all",
        "stack=two,threads=1",
        "stack=two,threads=all",
    ]
    options = experiment.cells[1].service("app").options
    assert isinstance(options, GoServerOptions)
    assert options.gomaxprocs == "all"
    assert experiment.cells[2].load.headers == {"x-note": "$threads"}
    assert experiment.baseline == "stack=one,threads=1"


def test_scales_and_settings_are_laid_over(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path), "smoke", ["load.connections=9", "factors.threads=[1]"])
    assert experiment.scenario.blocks == 1
    load = experiment.cells[0].load
    assert (load.tool, load.connections, load.duration_s) == ("wrk", 9, 2)
    assert [c.cell_id for c in experiment.cells] == ["stack=one,threads=1", "stack=two,threads=1"]


def test_cells_may_be_listed_or_left_out(tmp_path: Path) -> None:
    excluded = read_experiment(write(tmp_path, ("blocks: 2", "blocks: 2\nexclude: [{stack: two, threads: 1}]")))
    assert [c.cell_id for c in excluded.cells] == [
        "stack=one,threads=1",
        "stack=one,threads=all",
        "stack=two,threads=all",
    ]
    listed = read_experiment(write(tmp_path, ("blocks: 2", "blocks: 2\ncells: [{stack: two, threads: 1}]")))
    assert [c.cell_id for c in listed.cells] == ["stack=two,threads=1"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gomaxprocs: $threads", "gomaxprocs: $thread", "small.yaml:8: stacks.one.services.app.gomaxprocs: $thread refers to no factor; did you mean 'threads'?"),
        ("gomaxprocs: $threads", "gomaxprocs: 1", "small.yaml:6: factors.threads: nothing refers to this factor"),
        ("  stack: [one, two]", "  stakc: [one, two]", "small.yaml:4: factors: several stacks and no factor 'stack'"),
        ("[one, two]", "[one, tow]", "small.yaml:5: factors.stack.1: no stack 'tow'; did you mean 'two'? allowed: one, two"),
        ("[1, all]", "[1, 1]", "small.yaml:6: factors.threads.1: level 1 is listed twice"),
        ("[1, all]", "[1, 'a b']", "small.yaml:6: factors.threads.1"),
        ("[1, all]", "[]", "small.yaml:6: factors.threads"),
        ("one: {entry: app", "one: {entry: ap", "small.yaml:8: stacks.one.entry: no service 'ap'; did you mean 'app'?"),
        ("blocks: 2", "blocks: 0", "small.yaml:11: blocks: found 0; input should be greater than 0"),
        ("blocks: 2", "blocs: 2", "small.yaml:11: blocs: no such field"),
        ("blocks: 2", "blocks: 2\nbaseline: {stack: three}", "small.yaml:12: baseline.stack: found three; levels of stack: one, two"),
        ("blocks: 2", "blocks: 2\nexclude: [{treads: 1}]", "small.yaml:12: exclude.0.treads: no factor 'treads'; did you mean 'threads'?"),
        ("blocks: 2", "blocks: 2\ncells: [{stack: one}]", "small.yaml:12: cells.0: a cell needs a level of every factor; missing: threads"),
        ("blocks: 2", "blocks: 2\ncells: [{stack: one, threads: 1}, {stack: one, threads: 1}]", "small.yaml:12: cells: the cell stack=one,threads=1 is listed twice"),
        ("lab: {}", "lab: {title: other}", "small.yaml:13: scales.lab.title: is the same at every scale"),
        ("lab: {}", "lap: {}", "small.yaml:13: scales.lap: no such field"),
    ],
)  # fmt: skip
def test_faults_name_file_line_field_and_what_is_allowed(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in refusal(tmp_path, (old, new))


def test_an_absent_scale_and_bad_settings_are_refused(tmp_path: Path) -> None:
    assert "small.yaml:12: scales: has no scale 'paper'; it has: lab, smoke" in refusal(tmp_path, scale="paper")
    assert "--set load.connections: not of the form field=value" in refusal(tmp_path, settings=("load.connections",))
    assert "no field 'loda'" in refusal(tmp_path, settings=("loda.connections=1",))
    assert refusal(tmp_path, settings=("blocks=-1",)).startswith("--set blocks=-1: blocks: found -1")


def test_an_unknown_scenario_names_the_shipped_ones() -> None:
    with pytest.raises(InputError, match="did you mean 'quickstart'"):
        read_experiment("quikstart")


@pytest.mark.parametrize("scale", SCALES)
def test_the_shipped_quickstart_reads_at_every_scale(scale: Scale) -> None:
    experiment = read_experiment("quickstart", scale)
    assert [c.cell_id for c in experiment.cells] == ["stack=go", "stack=nginx-go"]
    assert experiment.baseline == "stack=go"


def test_cell_ids_are_as_yaml_writes_levels() -> None:
    assert cell_id({"a": True, "b": 1.5, "c": "x"}) == "a=true,b=1.5,c=x"
    assert cell_id({}) == "only"


def test_blocks_are_complete_random_and_drawn_from_the_seed() -> None:
    cells = [f"c{i}" for i in range(6)]
    planned_trials = randomised_blocks(cells, blocks=50, seed=3)
    by_block = [[s.cell_id for s in planned_trials if s.block == block] for block in range(1, 51)]
    assert all(sorted(order) == cells for order in by_block)
    assert [s.position for s in planned_trials[:6]] == [1, 2, 3, 4, 5, 6]
    assert planned_trials == randomised_blocks(cells, 50, 3)
    assert planned_trials != randomised_blocks(cells, 50, 4)
    assert planned_trials[:60] == randomised_blocks(cells, 10, 3)
    # Each cell comes first about equally often: 50 blocks, 6 cells, mean 8.3; 0.001 of seeds give a count above 18.
    firsts = [order[0] for order in by_block]
    assert set(firsts) == set(cells)
    assert max(firsts.count(cell) for cell in cells) <= 18
