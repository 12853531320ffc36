"""Each Go module of the backends by Go's own tools: formatted, vetted, tested."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from benchkit.resources import BACKENDS
from benchkit.services.go_build import pinned_toolchain
from benchkit.services.go_toolchain import find_go, go_environment, run_go
from benchkit.services.registry import BACKENDS as REGISTRY
from benchkit.services.server_options import ServerOptions

pytestmark = pytest.mark.system

MODULES = sorted(manifest.parent for manifest in BACKENDS.glob("*/go.mod"))
OURS = [module for module in MODULES if any(module.rglob("*.go"))]
"""A module without code of its own only pins somebody else's program."""

BACKENDS_OF_OURS = {name for name, backend in REGISTRY.items() if issubclass(backend.options, ServerOptions)}
"""The servers that are written here: each has its own module, Node's for the tests that it shares with the others."""


def go(module: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the go command in a module, with the toolchain that it pins."""
    command = find_go()
    target = {"GOTOOLCHAIN": pinned_toolchain(module), "GOFLAGS": "-mod=readonly -buildvcs=false"}
    return run_go([command, *argv], cwd=module, environment=go_environment(command, target))


def test_there_are_modules() -> None:
    assert {"kit", *BACKENDS_OF_OURS} <= {module.name for module in OURS}


def test_all_pin_one_toolchain() -> None:
    assert len({pinned_toolchain(module) for module in MODULES}) == 1


@pytest.mark.parametrize("module", OURS, ids=lambda module: module.name)
def test_formatted(module: Path) -> None:
    gofmt = Path(go(module, "env", "GOROOT").stdout.strip(), "bin", "gofmt")
    done = subprocess.run([gofmt, "-l", "."], cwd=module, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


AT_ONCE = 4
"""Modules whose tests run at the same time: for the most part they wait for what they have started."""

Done = Callable[[Path], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def tried(request: pytest.FixtureRequest) -> Iterator[Done]:
    """What came of a module's vetting and its own tests; all modules that are asked for run side by side."""
    chosen = [
        cast("Path", item.callspec.params["module"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test_vetted_and_tested.__name__
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # -vet=all: all that `go vet` looks at, instead of the part that `go test` looks at by itself.
        started: Mapping[Path, Future[subprocess.CompletedProcess[str]]] = {
            module: pool.submit(go, module, "test", "-vet=all", "-parallel=4", "./...") for module in chosen
        }
        yield lambda module: started[module].result()


@pytest.mark.parametrize("module", OURS, ids=lambda module: module.name)
def test_vetted_and_tested(tried: Done, module: Path) -> None:
    if module.name == "node" and shutil.which("node") is None:
        pytest.skip("there is no node")
    done = tried(module)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok" in done.stdout
