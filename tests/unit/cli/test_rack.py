"""The inventory of `benchkit/hosts/README.md`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchkit.document import parse_document
from benchkit.hosts.inventory import load_inventory
from tests.support.paths import ROOT

README = ROOT / "benchkit" / "hosts" / "README.md"
TESTBEDS = {"a", "b"}


@pytest.fixture(scope="module")
def written() -> Any:  # noqa: ANN401 - any YAML
    """The inventory that the README has."""
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    return parse_document(text, "rack.yaml").data


def test_it_has_two_testbeds_of_a_server_and_three_load_hosts(written: Any, tmp_path: Path) -> None:  # noqa: ANN401
    path = tmp_path / "rack.yaml"
    path.write_text(json.dumps(written))
    inventory = load_inventory(path)
    assert set(inventory.testbeds) == TESTBEDS
    for testbed in TESTBEDS:
        hosts = inventory.of_testbed(testbed)
        assert (len(hosts.by_role("sut")), len(hosts.by_role("load"))) == (1, 3)
