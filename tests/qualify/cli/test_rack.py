"""The inventory of `benchkit/hosts/README.md`: a run is planned on hosts like those that it names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchkit.document import parse_document
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.support.cli.fixtures import Cli
from tests.support.needs import separate_hosts
from tests.support.paths import ROOT

README = ROOT / "benchkit" / "hosts" / "README.md"


@pytest.fixture(scope="module")
def written() -> Any:  # noqa: ANN401 - any YAML
    """The inventory that the README has."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    return parse_document(text, "rack.yaml").data


@pytest.fixture(scope="module")
def rack(written: Any) -> Iterator[Lab]:  # noqa: ANN401
    """A lab with the hosts that it names."""
    places = {
        name: (testbed, role)
        for testbed, names_by_role in written["testbeds"].items()
        for role, names in names_by_role.items()
        for name in names
    }
    hosts = []
    for name in written["hosts"]:
        testbed, role = places.get(name, (None, "jump"))
        hosts.append(LabHost(name=name, roles=(role,), testbed=testbed))
    made = up(LabSpec(name=f"pytest-{os.getpid()}-readme", hosts=tuple(hosts)), temporary=True)
    try:
        yield made
    finally:
        down(made.name)


@separate_hosts
def test_a_run_is_planned_on_it(written: Any, rack: Lab, cli: Cli, tmp_path: Path) -> None:  # noqa: ANN401
    """Reach the hosts of a lab by the same names, roles and jump host."""
    ways = {
        spec.name: spec.model_dump(mode="json", exclude={"name", "roles", "testbed"}, exclude_none=True)
        for spec in rack.inventory().hosts
    }
    hosts = {name: {**fields, **ways[name]} for name, fields in written["hosts"].items()}
    path = tmp_path / "rack.yaml"
    path.write_text(json.dumps({**written, "hosts": hosts}))
    planned = cli("plan", "quickstart", "--scale", "smoke", "-i", path, "--json")
    assert planned.code == 0, planned.err
    assert {each["testbed"]: each["roles"] for each in planned.document()["testbeds"]} == written["testbeds"]
