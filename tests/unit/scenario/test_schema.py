from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchkit.document import read_document
from benchkit.files import shipped
from benchkit.scenario.schema import scenario_schema
from tests.support import json_schema
from tests.support.builders import load, scenario, stack

SHIPPED = sorted(shipped("scenarios").glob("*.yaml"))


@pytest.fixture(scope="module")
def validator() -> Any:  # noqa: ANN401 - jsonschema has no types
    """Validator of scenario files."""
    return json_schema.validator(scenario_schema())


def refused(validator: Any, data: object) -> list[str]:  # noqa: ANN401 - jsonschema has no types
    """Return the places of errors."""
    return [".".join(map(str, error.absolute_path)) for error in validator.iter_errors(data)]


def test_the_schema_is_valid_and_refers_to_what_it_defines() -> None:
    schema = scenario_schema()
    json_schema.validator(schema)
    names = {reference.removeprefix("#/$defs/") for reference in references(schema)}
    assert names == set(schema["$defs"])


def references(node: object) -> list[str]:
    if isinstance(node, list):
        return [name for item in node for name in references(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [name for value in node.values() for name in references(value)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_fit_the_schema_that_their_first_line_names(validator: Any, path: Path) -> None:  # noqa: ANN401
    assert refused(validator, read_document(path).data) == []
    first = path.read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=scenario.schema.json"


def test_the_shipped_schema_is_that_of_the_models() -> None:
    text = (shipped("scenarios") / "scenario.schema.json").read_text()
    assert json.loads(text) == scenario_schema(), "run `benchkit fields --schema > scenarios/scenario.schema.json`"


VARIED = {
    "factors": {"n": [1, 2], "server": ["nethttp", "gnet"], "on": [True]},
    "stacks": {"one": stack(backend="$server", gomaxprocs="$n", body_size="$n", cpus="$n")},
    "load": load(connections="$n", keepalive="$on", headers={"x-note": "$$n"}),
}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        VARIED,
        {"telemetry": "off"},
        {"telemetry": {"interval_s": 0.5}},
        {"stacks": {"one": stack(listen="unix", inject_fault=["delay:5ms"])}},
        {"stacks": {"one": stack(listen="127.0.0.1:80", work="loop:10")}},
        {
            "scales": {
                "lab": {},
                "smoke": {"blocks": 1, "load": {"request_count": 5, "duration_s": None, "tool": "hey"}},
            }
        },
        {"tools": {"hey": {"duration_s": 2}}},
        {"claims": [{"text": "x", "ratio": {"of": {"stack": "one"}, "to": {"stack": "one"}}, "between": [1, 2]}]},
    ],
)
def test_what_the_schema_accepts_is_what_editors_should_accept(validator: Any, fields: dict[str, Any]) -> None:  # noqa: ANN401
    assert refused(validator, scenario(**fields)) == []


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"blocs": 2}, ""),
        ({"blocks": 0}, "blocks"),
        ({"blocks": "many"}, "blocks"),
        ({"name": "A b"}, "name"),
        ({"design": "block"}, "design"),
        ({"load": {"connections": 4}}, "load"),
        ({"load": load(tool="wrrk")}, "load.tool"),
        ({"load": load(conections=4)}, "load"),
        ({"load": load(keepalive="x")}, "load.keepalive"),
        ({"tools": {"wrrk": {}}}, "tools"),
        ({"tools": {"wrk": {"thread": 1}}}, "tools.wrk"),
        ({"stacks": {"one": stack(backend="nginxx")}}, "stacks.one.services.app.backend"),
        ({"stacks": {"one": stack(backend="nginx", gomaxprocs=1, status=True)}}, "stacks.one.services.app"),
        ({"stacks": {"one": stack(gomaxproc=1)}}, "stacks.one.services.app"),
        ({"stacks": {"one": stack(gomaxprocs=0)}}, "stacks.one.services.app.gomaxprocs"),
        ({"stacks": {"one": stack(backend="$server", gomaxproc=1)}}, "stacks.one.services.app"),
        ({"stacks": {"one": stack(listen=70000)}}, "stacks.one.services.app.listen"),
        ({"stacks": {"one": stack(work="loop")}}, "stacks.one.services.app.work"),
        ({"stacks": {"one": {"services": {}}}}, "stacks.one"),
        ({"roles": {"sut": {"cpu": 1}}}, "roles.sut"),
        ({"roles": {"Sut": {}}}, "roles"),
        ({"factors": {"n": []}}, "factors.n"),
        ({"factors": {"n": ["a b"]}}, "factors.n.0"),
        ({"telemetry": "of"}, "telemetry"),
        ({"scales": {"lap": {}}}, "scales"),
        ({"scales": {"lab": {"title": "x"}}}, "scales.lab"),
        ({"scales": {"lab": {"load": {"tol": 1}}}}, "scales.lab"),
        ({"claims": [{"text": "x"}]}, "claims.0"),
        ({"claims": [{"text": "x", "ratio": {"of": {}, "to": {"stack": "one"}}}]}, "claims.0.ratio.of"),
        ({"until": {"precision": 5}}, "until"),
        ({"thresholds": {"server_cpu": 2}}, "thresholds.server_cpu"),
        ({"tuning": [{"profile": "no such"}]}, "tuning.0.profile"),
    ],
)
def test_mistakes_are_found_where_they_are(validator: Any, fields: dict[str, Any], place: str) -> None:  # noqa: ANN401
    places = refused(validator, scenario(**fields))
    assert place in places, places
