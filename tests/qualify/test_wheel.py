"""The wheel without a checkout: installed by itself, used from an empty folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchkit.lab.lab import find_lab
from tests.support.paths import ROOT


@dataclass(frozen=True)
class Installed:
    """Environment with benchkit from its wheel, and an empty folder to work in."""

    venv: Path
    empty: Path

    def run(self, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the empty folder."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BENCHKIT_"))}
        return subprocess.run(
            [self.venv / "bin" / argv[0], *argv[1:]],
            cwd=self.empty,
            env=env | environment,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Wheel built and installed without a network; its dependencies come from the test environment."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("benchkit-*.whl")
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    install = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--python"]
    subprocess.run([*install, venv / "bin/python", wheel], check=True)
    # Only a site folder's own .pth files are read: the one that makes the checkout importable there has no effect here.
    (site_packages,) = venv.glob("lib/python*/site-packages")
    (site_packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / "empty").mkdir()
    return Installed(venv, folder / "empty")


@pytest.fixture(scope="module")
def package(installed: Installed) -> Path:
    """Folder from which that environment imports benchkit."""
    found = installed.run("python", "-c", "import benchkit; print(benchkit.__path__[0])")
    return Path(found.stdout.strip())


def test_the_wheel_is_what_is_imported(installed: Installed, package: Path) -> None:
    assert package.is_relative_to(installed.venv)


def test_the_wheel_states_its_version(installed: Installed, package: Path) -> None:
    shown = installed.run("benchkit", "--version")
    assert shown.stderr == ""
    assert shown.stdout.split()[0] == "benchkit"
    assert f'"{shown.stdout.split()[1]}"' in (package / "version.py").read_text(encoding="utf-8")


def test_the_wheel_finds_scenarios_by_name(installed: Installed) -> None:
    checked = installed.run("benchkit", "validate", "quickstart")
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_demo_of_the_wheel_starts_a_lab_and_removes_it(installed: Installed, tmp_path: Path) -> None:
    done = installed.run("benchkit", "demo", "--scale", "smoke", "--json", BENCHKIT_STORE=str(tmp_path))
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert Path(summary["report"]).is_file()
    assert summary["trials"] == 10  # a load curve of each cell, and two blocks at full speed and at a held rate
    assert find_lab(summary["lab"]) is None


def test_the_wheel_writes_nothing_to_the_current_folder(installed: Installed) -> None:
    assert list(installed.empty.iterdir()) == []
