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
from benchkit.hosts.inventory import load_inventory
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from tests.support.paths import ROOT

README = ROOT / "benchkit" / "hosts" / "README.md"
TESTBEDS = {"a", "b"}


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


def test_it_has_two_testbeds_of_a_server_and_three_load_hosts(written: Any, tmp_path: Path) -> None:  # noqa: ANN401
    path = tmp_path / "rack.yaml"
    path.write_text(json.dumps(written))
    inventory = load_inventory(path)
    assert set(inventory.testbeds) == TESTBEDS
    for testbed in TESTBEDS:
        hosts = inventory.of_testbed(testbed)
        assert (len(hosts.by_role("sut")), len(hosts.by_role("load"))) == (1, 3)
