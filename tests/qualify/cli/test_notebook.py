"""JupyterLab on copies of the notebooks, as `benchkit notebook` starts it."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tests.support.cli.fixtures import Cli
from tests.support.paths import ROOT

SHIPPED = {path.name: path.read_bytes() for path in (ROOT / "notebooks").glob("*.ipynb")}


@contextmanager
def started_server(
    command: list[str], environment: dict[str, str], folder: Path
) -> Iterator[tuple[psutil.Process, str, str]]:
    """Yield process, address and token of a server once it has printed them; terminate it afterwards."""
    with subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            result = []
            for line in server.stderr:
                result.append(line)
                if found := re.search(r"(http://127\.0\.0\.1:\d+/)\S*\?token=(\w+)", line):
                    yield psutil.Process(server.pid), found[1], found[2]
                    break
            else:
                raise AssertionError("".join(result))
        finally:
            server.terminate()
            server.communicate(timeout=120)


def ask(address: str, token: str, what: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return an answer of the server, which prints its address just before it listens."""
    request = urllib.request.Request(f"{address}{what}", headers={"Authorization": f"token {token}"})  # noqa: S310 - http
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError) or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_jupyter_opens_on_the_users_copies(program: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "explore.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    environment = environment | {name: str(tmp_path / name) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR")}
    command = [*program, "notebook", "--dir", "mine", "--no-browser"]
    with started_server(command, environment, tmp_path) as (server, address, token):
        listed = ask(address, token, "api/contents")["content"]
        assert {entry["name"] for entry in listed} == SHIPPED.keys()
        assert Path(server.environ()["BENCHKIT_STORE"]) == Path(environment["BENCHKIT_STORE"]).resolve()
        assert "BENCHKIT_RUN" not in server.environ()
        assert "jupyter-lab" in " ".join(server.cmdline())
    kept = {path.name: path.read_bytes() for path in mine.glob("*.ipynb")}
    assert b'"cells": []' in kept.pop("explore.ipynb")  # what was there is not written over
    assert kept == {name: content for name, content in SHIPPED.items() if name != "explore.ipynb"}


def test_an_unknown_run_starts_nothing(cli: Cli, tmp_path: Path) -> None:
    result = cli("notebook", "r2026", "--dir", tmp_path / "mine")
    assert (result.code, result.out) == (2, "")
    assert "r2026" in result.err
    assert not (tmp_path / "mine").exists()
