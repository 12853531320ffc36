"""Unit tests start no process: what needs one is in tests/contract, tests/lab or tests/qualify."""

from __future__ import annotations

import os
import subprocess

import pytest


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the start of a process fail."""

    def refuse(*_arguments: object, **_more: object) -> None:
        raise AssertionError("a unit test starts a process: it belongs in tests/qualify")

    for function in ("fork", "posix_spawn"):
        monkeypatch.setattr(os, function, refuse)
    monkeypatch.setattr(subprocess.Popen, "__init__", refuse)
