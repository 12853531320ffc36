"""Tests of the Node backend in Node's test runner; those that it shares with the Go backends are in its Go module."""

from __future__ import annotations

import shutil
import subprocess
import tempfile

import pytest

from benchkit.files import BACKENDS

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


def start_with_map(node: str, before: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run `script` in a node that writes a map for perf, after the command `before`, whose $$ is that node's pid."""
    shell = f'{before}; exec "$0" "$@"'
    argv = ["/bin/sh", "-c", shell, str(NODE / "with-perf-map.sh"), node, "--input-type=module", "--eval", script]
    with tempfile.TemporaryDirectory() as folder:  # V8 writes a log into its working directory
        return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


PRINT_MAP = """
import fs from 'node:fs';
const map = `/tmp/perf-${process.pid}.map`;
console.log(fs.lstatSync(map).isFile(), fs.readFileSync(map, 'utf8').includes('node:internal'));
console.log(fs.existsSync(String(process.pid)));
fs.unlinkSync(map);
"""


def test_node_writes_its_map_for_perf_into_a_file_of_its_own(node: str) -> None:
    done = start_with_map(node, "true", PRINT_MAP)
    assert (done.returncode, done.stdout, done.stderr) == (0, "true true\ntrue\n", "")
