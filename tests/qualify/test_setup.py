"""Set-up: what make does and leaves undone, what CI calls, what the lock pins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT

LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
READY = ".venv/installed"


def environment(**more: str) -> dict[str, str]:
    """Return the environment without variables of a surrounding make, as these tests run under `make test YES=1`."""
    of_make = re.compile(r"(GNU)?MAKE.*|MFLAGS|YES|ARGS|PYTHON")
    return {name: value for name, value in os.environ.items() if not of_make.fullmatch(name)} | more


def make(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run make in a folder, as from a shell of its own."""
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Checkout that make takes for set up, in a folder with a space in its name."""
    folder = tmp_path / "a check out"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to(sys.executable)
    (folder / ".venv/made").write_text(f"{folder.resolve()}\n")
    (folder / READY).touch()
    return folder


def up_to_date(folder: Path) -> bool:
    asked = make(folder, "--question", READY)
    assert asked.returncode in (0, 1), asked.stderr
    return asked.returncode == 0


def test_a_second_start_does_no_install_work(checkout: Path) -> None:
    assert up_to_date(checkout)


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_a_changed_dependency_list_reinstalls(checkout: Path, name: str) -> None:
    after = (checkout / READY).stat().st_mtime + 1
    os.utime(checkout / name, (after, after))
    assert not up_to_date(checkout)


def test_a_moved_checkout_reinstalls(checkout: Path) -> None:
    assert not up_to_date(checkout.rename(checkout.with_name("another")))


def test_an_environment_without_its_python_is_recreated(checkout: Path) -> None:
    for python in (checkout / ".venv/bin").glob("python*"):
        python.unlink()
        python.symlink_to(checkout / "gone")
    assert not up_to_date(checkout)


def test_setup_without_python_says_what_it_needs(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "cat"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    (tools / "make").symlink_to(str(shutil.which("make")))
    shutil.rmtree(checkout / ".venv")
    made = make(checkout, READY, PATH=str(tools))
    assert made.returncode != 0
    assert "needs Python 3.11 or newer" in made.stderr
    assert "make demo PYTHON=" in made.stderr


def test_setup_without_venv_prints_the_line_to_run(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "ensurepip.py").write_text("raise ImportError\n")
    shutil.rmtree(checkout / ".venv")
    made = make(checkout, READY, PYTHON=sys.executable, PYTHONPATH=str(tmp_path))
    assert made.returncode != 0
    assert "apt-get install python3." in made.stderr
    assert "-venv" in made.stderr


def test_the_default_target_prints_help_and_installs_nothing(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    shown = make(checkout).stdout
    assert "make demo" in shown
    assert "make test" in shown
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize(("asked", "yes"), [((), True), (("YES=1",), True), (("YES=0",), False)])
def test_without_a_terminal_packages_are_installed_unless_refused(
    checkout: Path, *, asked: tuple[str, ...], yes: bool
) -> None:
    program = checkout / ".venv/bin/benchkit"
    program.write_text('#!/bin/sh\necho "$@" >> calls\n')
    program.chmod(0o755)
    assert make(checkout, "system", *asked).returncode == 0
    (call,) = (checkout / "calls").read_text().splitlines()
    assert call.startswith("lab prepare --quiet")
    assert ("--yes" in call) is yes


def test_clean_keeps_results(checkout: Path) -> None:
    (checkout / "results").mkdir()
    (checkout / "package/__pycache__").mkdir(parents=True)
    assert make(checkout, "clean").returncode == 0
    assert sorted(entry.name for entry in checkout.iterdir()) == sorted(
        ["Makefile", "package", "pyproject.toml", "requirements.lock", "results"]
    )
    assert not (checkout / "package/__pycache__").exists()


def test_ci_runs_make_test_without_questions_and_fails_with_it(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    (tmp_path / "Makefile").write_text("test:\n\t@echo YES=$(YES); exit 3\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = subprocess.run(
        [tmp_path / ".ci/run"], cwd=elsewhere, env=environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode != 0
    assert ran.stdout.splitlines()[-1] == "YES=1"


def _locked() -> dict[str, set[str]]:
    """Return names and versions that the lock pins; a name may have one version per platform."""
    pinned: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ ]+)", LOCK, re.MULTILINE):
        pinned.setdefault(canonicalize_name(name), set()).add(version)
    return pinned


def test_uv_gets_the_index_and_the_certificates_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_CERT", "PIP_INDEX_URL", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    makefile, config = tmp_path / "show.mk", tmp_path / "pip.conf"
    makefile.write_text("include Makefile\nshow:\n\t@$(index) sh -c 'echo \"$$UV_DEFAULT_INDEX $$SSL_CERT_FILE\"'\n")
    config.write_text("[global]\ncert = /of/all.pem\nindex-url = http://all/\n[install]\nindex-url = http://install/\n")
    command = ("-s", "-f", str(makefile), "show")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    assert make(ROOT, *command).stdout == "http://install/ /of/all.pem\n"
    given = {"PIP_CERT": "/of/environment.pem", "PIP_INDEX_URL": "http://environment/"}
    assert make(ROOT, *command, **given).stdout == "http://environment/ /of/environment.pem\n"


def test_the_lock_pins_every_dependency_of_the_project() -> None:
    project = PROJECT["project"]
    wanted = [
        *PROJECT["build-system"]["requires"],
        *project["dependencies"],
        *(requirement for extra in project["optional-dependencies"].values() for requirement in extra),
        *(requirement for group in PROJECT["dependency-groups"].values() for requirement in group),
    ]
    locked = _locked()
    unfit = [
        text
        for text in wanted
        for requirement in [Requirement(text)]
        if not any(version in requirement.specifier for version in locked.get(canonicalize_name(requirement.name), ()))
    ]
    assert unfit == [], "run `make lock`"


def test_every_pin_has_its_hashes_and_none_names_a_host() -> None:
    entries = re.split(r"^(?=[^ #])", LOCK, flags=re.MULTILINE)[1:]
    assert len(entries) > 50
    assert [
        entry for entry in entries if not re.match(r"[A-Za-z0-9._-]+==[^ ]+ .*\\\n +--hash=sha256:[0-9a-f]{64}", entry)
    ] == []
    assert re.search(r"://|@ |--index|--find-links|--extra-index", LOCK) is None
