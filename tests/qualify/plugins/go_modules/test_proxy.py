from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.errors import BenchkitError
from benchkit.plugins.go_modules.upstream import ModuleFile


def test_module_files_come_from_the_controller_s_cache() -> None:
    module = "github.com/beorn7/perks@v1.0.1"
    assert ModuleFile(module, "mod").read() == b"module github.com/beorn7/perks\n\ngo 1.11\n"
    assert b'"Version":"v1.0.1"' in ModuleFile(module, "info").read()
    assert ModuleFile(module, "zip").read().startswith(b"PK")


def test_an_unknown_module_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOPROXY", f"file://{tmp_path}")
    with pytest.raises(BenchkitError, match=r"a\.example/nothing@v1\.0\.0"):
        ModuleFile("a.example/nothing@v1.0.0", "zip").read()
