"""`benchkit versus` with images and Containerfiles, and the cost of a container on the host's network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.qualify.cli.test_bisect import ON_A_BUSY_MACHINE
from tests.support.cli.fixtures import Cli
from tests.support.containers.fixtures import build_image, make_context
from tests.support.needs import containers

pytestmark = containers
THRESHOLDS = ("--set", f"thresholds={{{ON_A_BUSY_MACHINE}}}")
LOAD = ("--duration", "24", "--at", "off", "--blocks", "3", "--differs", "body", "--ready-within", "60", *THRESHOLDS)


def test_two_images_are_compared(cli: Cli, tmp_path: Path) -> None:
    names = [
        build_image(make_context(tmp_path, text), f"localhost/benchkit-test:{text}", "--timestamp", "0")
        for text in ("one", "two")
    ]
    options = [*LOAD, "--store", tmp_path / "results", "--json"]
    result = cli("versus", *(word for name in names for word in ("--image", name)), *options)
    assert result.code == 0, f"{result.err}\n{result.out}"
    second = result.document()["servers"][1]
    assert second["label"] == "benchkit-test-two"
    assert second["ratio"]["ratio"] > 0, result.document()["answer"]


def test_refs_of_a_containerfile_are_compared(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = make_context(tmp_path)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(context))
    for ref in ("v1", "v2"):
        with (context / "Dockerfile").open("a") as file:
            file.write(f"ENV WHO={ref}\n")
        for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", ref), ("tag", ref)):
            subprocess.run([*git, *words], check=True)
    monkeypatch.chdir(context)
    refs = ("--dockerfile", "Dockerfile", "--ref", "v1", "--ref", "v2", "--port", "80")
    result = cli("versus", *refs, *LOAD, "--store", tmp_path / "results", "--json")
    assert result.code == 0, f"{result.err}\n{result.out}"
    assert [server["label"] for server in result.document()["servers"]] == ["v1", "v2"]
