from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchkit.services.controller_files import STATE_ENVIRONMENT, get_or_create, save_copy, secret_path, secrets_folder


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_ENVIRONMENT, str(tmp_path / "state"))


def create_secret(name: str) -> bytes:
    return get_or_create(name, lambda: os.urandom(16))


def test_a_deleted_secret_is_replaced() -> None:
    first = create_secret("key")
    assert create_secret("key") == first
    secret_path("key").unlink()
    assert create_secret("key") != first


def test_different_names_have_different_files() -> None:
    names = ["a b", "a-b", "a/b", "a" * 200, "a" * 201, "", "/etc/passwd", "../x"]
    assert len({secret_path(name) for name in names}) == len(names)
    assert {secret_path(name).parent for name in names} == {secrets_folder()}


def test_only_the_user_can_read_secrets() -> None:
    create_secret("key")
    save_copy("certificate", b"for people")
    assert secrets_folder().stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in secrets_folder().iterdir()} == {0o600}


def test_a_copy_has_the_latest_content() -> None:
    assert save_copy("certificate", b"one") == b"one"
    save_copy("certificate", b"two")
    assert secret_path("certificate").read_bytes() == b"two"


def test_a_failed_creation_leaves_no_file() -> None:
    def fail() -> bytes:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        get_or_create("key", fail)
    assert not secrets_folder().exists() or list(secrets_folder().iterdir()) == []
