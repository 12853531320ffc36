from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.errors import InputError
from benchkit.models import Scale
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.read import read_experiment, scenario_name, stored_experiment
from benchkit.services.go_servers import GoServerOptions
from tests.support.builders import read_scenario, stacks

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


def write(folder: Path, *changes: tuple[str, str]) -> str:
    """Write the scenario as text, since its lines matter here, with parts replaced."""
    text = SCENARIO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "small.yaml"
    path.write_text(text)
    return str(path)


def message_of(folder: Path, *changes: tuple[str, str], scale: Scale = "lab", settings: tuple[str, ...] = ()) -> str:
    with pytest.raises(InputError) as caught:
        read_experiment(write(folder, *changes), scale, settings)
    return str(caught.value).replace(f"{folder}/", "")


def cell_ids(experiment: Experiment) -> list[str]:
    return [cell.cell_id for cell in experiment.cells]


def test_cells_are_all_combinations_of_levels(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path))
    assert cell_ids(experiment) == [
        "stack=one,threads=1",
        "stack=one,threads=all",
        "stack=two,threads=1",
        "stack=two,threads=all",
    ]
    assert experiment.baseline == "stack=one,threads=1"


def test_levels_are_filled_into_typed_services_and_loads(tmp_path: Path) -> None:
    cells = read_experiment(write(tmp_path)).cells
    options = cells[1].service("app").options
    assert isinstance(options, GoServerOptions)
    assert options.gomaxprocs == "all"
    assert cells[2].load.headers == {"x-note": "$threads"}


def test_scales_and_settings_override_fields(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path), "smoke", ["load.connections=9", "factors.threads=[1]"])
    assert experiment.scenario.blocks == 1
    load = experiment.cells[0].load
    assert (load.tool, load.connections, load.duration_s) == ("wrk", 9, 2)
    assert cell_ids(experiment) == ["stack=one,threads=1", "stack=two,threads=1"]


def test_cells_may_be_excluded_or_listed(tmp_path: Path) -> None:
    excluded = read_experiment(write(tmp_path, ("blocks: 2", "blocks: 2\nexclude: [{stack: two, threads: 1}]")))
    assert cell_ids(excluded) == ["stack=one,threads=1", "stack=one,threads=all", "stack=two,threads=all"]
    narrowed = write(tmp_path, ("blocks: 2", "blocks: 2\nexclude: [{stack: two, threads: 1}]"))
    assert cell_ids(read_experiment(narrowed, settings=["factors.threads=[all]"])) == [
        "stack=one,threads=all",
        "stack=two,threads=all",
    ]
    listed = read_experiment(write(tmp_path, ("blocks: 2", "blocks: 2\ncells: [{stack: two, threads: 1}]")))
    assert cell_ids(listed) == ["stack=two,threads=1"]


@pytest.mark.parametrize("scale", ["paper", "lab", "smoke"])
def test_a_stored_scenario_may_name_levels_of_other_scales(scale: Scale) -> None:
    experiment = read_experiment("nethttp-vs-fasthttp", scale)
    stored = stored_experiment(experiment.document.data, "small.yaml", scale)
    assert stored.scenario.claims == experiment.scenario.claims


def test_a_stored_scenario_gives_the_same_cells(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path), "smoke")
    stored = stored_experiment(experiment.document.data, "small.yaml", "smoke")
    assert (stored.scenario, stored.cells) == (experiment.scenario, experiment.cells)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("gomaxprocs: $threads", "gomaxprocs: $thread", "small.yaml:8: stacks.one.services.app.gomaxprocs: $thread refers to no factor; did you mean 'threads'?"),
        ("gomaxprocs: $threads", "gomaxprocs: 1", "small.yaml:6: factors.threads: nothing refers to this factor"),
        ("  stack: [one, two]", "  stakc: [one, two]", "small.yaml:4: factors: several stacks and no factor 'stack'"),
        ("[one, two]", "[one, tow]", "small.yaml:5: factors.stack.1: no stack 'tow'; did you mean 'two'? allowed: one, two"),
        ("[1, all]", "[1, 1]", "small.yaml:6: factors.threads.1: level 1 is listed twice"),
        ("[1, all]", "[1, 'a b']", "small.yaml:6: factors.threads.1"),
        ("[1, all]", "[]", "small.yaml:6: factors.threads: found []; allowed: at least 1 of them"),
        ("[1, all]", "[1, -1]", "small.yaml:8: stacks.one.services.app.gomaxprocs: found -1"),
        ("one: {entry: app", "one: {entry: ap", "small.yaml:8: stacks.one.entry: no service 'ap'; did you mean 'app'?"),
        ("listen: 8081", "lisen: 8081", "small.yaml:9: stacks.two.services.app.lisen: no such field"),
        ("duration_s: 1,", "duration_s: 1, rate: 5,", "small.yaml:10: load.rate: wrk does not support it"),
        ("blocks: 2", "blocks: 0", "small.yaml:11: blocks: found 0; allowed: greater than 0"),
        ("blocks: 2", "blocs: 2", "small.yaml:11: blocs: no such field"),
        ("blocks: 2", "blocks: 2\nbaseline: {stack: three}", "small.yaml:12: baseline.stack: no level 'three'; allowed: one, two"),
        ("blocks: 2", "blocks: 2\nbaseline: {threads: '1'}", "small.yaml:12: baseline.threads: found '1'; the level is 1"),
        ("blocks: 2", "blocks: 2\nexclude: [{treads: 1}]", "small.yaml:12: exclude.0.treads: no factor 'treads'; did you mean 'threads'?"),
        ("blocks: 2", "blocks: 2\nexclude: [{threads: 3}]", "small.yaml:12: exclude.0.threads: no level '3' at any scale; allowed: 1, all"),
        ("blocks: 2", "blocks: 2\nexclude: [{}]", "small.yaml:12: exclude: no cell remains"),
        ("blocks: 2", "blocks: 2\ncells: []", "small.yaml:12: cells: no cell remains"),
        ("blocks: 2", "blocks: 2\ncells: [{stack: one}]", "small.yaml:12: cells.0: a cell needs a level of every factor; missing: threads"),
        ("blocks: 2", "blocks: 2\ncells: [{stack: one, threads: 1}, {stack: one, threads: 1}]", "small.yaml:12: cells: the cell stack=one,threads=1 is listed twice"),
        ("lab: {}", "lab: {title: other}", "small.yaml:13: scales.lab.title: is the same at every scale"),
        ("lab: {}", "lap: {}", "small.yaml:13: scales.lap: no such field"),
    ],
)  # fmt: skip
def test_faults_name_file_line_field_and_what_is_allowed(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert message in message_of(tmp_path, (old, new))


def test_an_absent_scale_and_wrong_settings_are_refused(tmp_path: Path) -> None:
    assert "small.yaml:12: scales: has no scale 'paper'; it has: lab, smoke" in message_of(tmp_path, scale="paper")
    assert "--set load.connections: not of the form field=value" in message_of(tmp_path, settings=("load.connections",))
    assert "no field 'loda'" in message_of(tmp_path, settings=("loda.connections=1",))
    assert message_of(tmp_path, settings=("blocks=-1",)).startswith("--set blocks=-1: blocks: found -1")


def test_the_error_for_an_unknown_scenario_names_the_shipped_ones() -> None:
    with pytest.raises(InputError, match="did you mean 'quickstart'"):
        read_experiment("quikstart")


def test_the_name_of_an_invalid_scenario_is_known(tmp_path: Path) -> None:
    assert scenario_name(write(tmp_path, ("blocks: 2", "blocs: two"), ("nethttp", "nothttp"))) == "small"
    with pytest.raises(InputError, match=r"small.yaml:1: name: found 'a/b'; allowed: text of the form"):
        scenario_name(write(tmp_path, ("name: small", "name: a/b")))


CLAIM = {"text": "x", "ratio": {"of": {"stack": "nginx"}, "to": {"stack": "go"}}, "at_least": 0.9}


def read(folder: Path, scale: Scale = "lab", **fields: Any) -> Experiment:  # noqa: ANN401 - fields of a scenario
    two_stacks: dict[str, Any] = {
        "stacks": stacks(go={"gomaxprocs": "$cores"}, nginx={"listen": 8081}),
        "blocks": 8,
        "factors": {"stack": ["go", "nginx"], "cores": [1]},
        "scales": {"lab": {}, "paper": {"factors": {"stack": ["go", "nginx"], "cores": [8]}}},
    }
    return read_scenario(folder, scale, **two_stacks, **fields)


def faults(folder: Path, **fields: Any) -> list[str]:  # noqa: ANN401 - fields of a scenario
    """Return the messages about a scenario with these fields, without the path of its file."""
    with pytest.raises(InputError) as caught:
        read(folder, **fields)
    return [fault.removeprefix(f"{folder}/") for fault in str(caught.value).splitlines()]


@pytest.mark.parametrize("scale", ["lab", "paper"])
def test_claims_may_name_levels_of_another_scale(tmp_path: Path, scale: Scale) -> None:
    ratio = {"of": {"stack": "nginx", "cores": 8}, "to": {"stack": "go"}}
    (claim,) = read(tmp_path, scale, claims=[{**CLAIM, "ratio": ratio}]).scenario.claims
    assert claim.ratio.of == {"stack": "nginx", "cores": 8}


def test_faults_of_claims_name_file_line_and_field(tmp_path: Path) -> None:
    wrong = {
        **CLAIM,
        "ratio": {"of": {"stak": "nginx"}, "to": {"stack": "gone"}},
        "metric": "rpss",
        "needs": {"sud": {"cpus": 6}},
    }
    *messages, metric = faults(tmp_path, claims=[CLAIM, wrong])
    assert messages == [
        "small.yaml:9: claims.1.ratio.of.stak: no factor 'stak'; did you mean 'stack'? allowed: stack, cores",
        "small.yaml:9: claims.1.ratio.to.stack: no level 'gone' at any scale; did you mean 'go'? allowed: go, nginx",
        "small.yaml:9: claims.1.needs.sud: no role 'sud'; did you mean 'sut'? allowed: sut, load",
    ]
    assert metric.startswith("small.yaml:9: claims.1.metric: no metric 'rpss'; did you mean 'rps'? allowed: ")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"claims": [{field: value for field, value in CLAIM.items() if field != "at_least"}]},
            "9: claims.0: expects one of at_least",
        ),
        (
            {"control": [{"stack": "go"}, {"cores": 2}]},
            "9: control.1: no cell has cores=2; allowed: stack=go,cores=1",
        ),
        ({"design": "latin"}, "9: design: found 'latin'; allowed: 'blocks', 'sequential' or 'sliced'"),
        (
            {"until": {"precision": 0.05, "metrics": ["rps", "rsp"]}},
            "9: until.metrics.1: no metric 'rsp'; did you mean 'rps'?",
        ),
        ({"until": {"precision": 0.05, "min_blocks": 9}}, "9: until: needs at least 9 blocks, but blocks is 8"),
        (
            {"until": {"precision": 0.05}, "design": "sequential"},
            "9: until: not allowed in a sequential design",
        ),
        ({"until": {"precision": 5}}, "9: until.precision: found 5; allowed: less than 1"),
    ],
)
def test_faults_name_the_field(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    (fault,) = faults(tmp_path, **fields)
    assert fault.startswith(f"small.yaml:{message}")


def test_control_names_cells_by_some_of_their_levels(tmp_path: Path) -> None:
    def controlled(*control: dict[str, object]) -> list[str]:
        experiment = read(tmp_path, control=control)
        return [cell.cell_id for cell in experiment.cells if experiment.scenario.has_control(cell.levels)]

    assert controlled({"stack": "nginx"}, {"stack": "nginx", "cores": 1}) == ["stack=nginx,cores=1"]
    assert controlled({"cores": 1}) == ["stack=go,cores=1", "stack=nginx,cores=1"]
    assert controlled() == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"blocks": 10_001}, "blocks: found 10001; allowed: less than or equal to 10000"),
        (
            {"roles": {"load": {"hosts": 10**9}}},
            "roles.load.hosts: found 1000000000; allowed: less than or equal to 1000",
        ),
    ],
)
def test_the_size_of_an_experiment_is_limited(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    defaults = {"stacks": stacks(go={"gomaxprocs": "$cores"}, nginx={"listen": 8081})}
    with pytest.raises(InputError) as caught:
        read_scenario(tmp_path, **{**defaults, "factors": {"stack": ["go", "nginx"], "cores": [1]}, **fields})
    assert message in str(caught.value)
