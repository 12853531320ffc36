"""Each Go module of the backends, checked by gofmt, vet and its own tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from benchkit.files import BACKENDS
from benchkit.services.go_build import find_go, go_environment, pinned_toolchain, run_go

MODULES = sorted(manifest.parent for manifest in BACKENDS.rglob("go.mod"))
MODULES_WITH_CODE = [module for module in MODULES if any(module.rglob("*.go"))]
"""Modules with Go code; the others only pin a published program."""


def go(module: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the go command in a module, with the toolchain that it pins."""
    command = find_go()
    target = {"GOTOOLCHAIN": pinned_toolchain(module), "GOFLAGS": "-mod=readonly -buildvcs=false"}
    return run_go([command, *argv], cwd=module, environment=go_environment(command, target))


def test_all_modules_pin_the_same_toolchain() -> None:
    assert len({pinned_toolchain(module) for module in MODULES}) == 1


@pytest.mark.parametrize("module", MODULES_WITH_CODE, ids=lambda module: module.name)
def test_gofmt_has_nothing_to_change(module: Path) -> None:
    gofmt = Path(go(module, "env", "GOROOT").stdout.strip(), "bin", "gofmt")
    done = subprocess.run([gofmt, "-l", "."], cwd=module, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


PARALLEL_MODULES = 4
"""Modules whose tests run at the same time; most of the time they wait for processes."""

TestResult = Callable[[Path], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def module_results(request: pytest.FixtureRequest) -> Iterator[TestResult]:
    """Function that gives the result of a module's vet and tests; all selected modules are tested in parallel."""
    selected = [
        cast("Path", item.callspec.params["module"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test_vet_and_tests_pass.__name__
    ]
    with ThreadPoolExecutor(PARALLEL_MODULES) as pool:
        # -vet=all runs all checks of `go vet`; by default `go test` runs only some of them.
        started: Mapping[Path, Future[subprocess.CompletedProcess[str]]] = {
            module: pool.submit(go, module, "test", "-vet=all", "-parallel=4", "./...") for module in selected
        }
        yield lambda module: started[module].result()


@pytest.mark.parametrize("module", MODULES_WITH_CODE, ids=lambda module: module.name)
def test_vet_and_tests_pass(module_results: TestResult, module: Path) -> None:
    if module.name == "node" and shutil.which("node") is None:
        pytest.skip("there is no node")
    done = module_results(module)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok" in done.stdout
