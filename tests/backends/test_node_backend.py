"""The tests of the Node backend in Node's test runner; those that it shares with the Go backends are in its Go module."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchkit.resources import BACKENDS

pytestmark = pytest.mark.system

NODE = BACKENDS / "node"


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("there is no node")
    return found


def test_tests_of_the_node_backend_pass(node: str) -> None:
    tests = sorted(str(path.relative_to(NODE)) for path in NODE.glob("test/*.test.js"))
    done = subprocess.run([node, "--test", *tests], cwd=NODE, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n# fail 0\n" in done.stdout


@pytest.mark.parametrize("source", sorted(NODE.glob("*.js")), ids=lambda source: source.name)
def test_node_modules_have_at_most_250_lines(source: Path) -> None:
    assert source.read_text().count("\n") <= 250
