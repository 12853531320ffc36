"""The command line in the process of the tests, for those in which the start of a program is not the point."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from benchkit.cli.app import main

Here = Callable[..., tuple[int, str, str]]
"""Runs `benchkit` with these arguments; its exit code, and what it printed on stdout and stderr."""


@pytest.fixture
def benchkit_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Run `benchkit` as its program does, errors and exit code included, but without starting one."""

    def run(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        if environment is not None:
            for name in os.environ.keys() - environment.keys():
                monkeypatch.delenv(name)
            for name, value in environment.items():
                monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["benchkit", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert ended.value.code is None or isinstance(ended.value.code, int)
        return ended.value.code or 0, said.out, said.err

    return run
