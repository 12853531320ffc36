from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from benchkit.services.controller_files import STATE_ENVIRONMENT, get_or_create, secret_path, secrets_folder


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_ENVIRONMENT, str(tmp_path / "state"))


def create_secret(name: str) -> bytes:
    return get_or_create(name, lambda: os.urandom(16))


def test_concurrent_processes_get_the_same_secret() -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert len(set(pool.map(create_secret, ["key"] * 16))) == 1
    assert [path.name for path in secrets_folder().iterdir()] == [secret_path("key").name]
