from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from benchkit.services.secret_files import STATE_ENVIRONMENT, get_or_create, save_copy, secret_path, secrets_folder


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_ENVIRONMENT, str(tmp_path / "state"))


def made_by_somebody(name: str) -> bytes:
    return get_or_create(name, lambda: os.urandom(16))


def test_many_processes_that_want_it_at_once_get_the_same() -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert len(set(pool.map(made_by_somebody, ["key"] * 16))) == 1
    assert [path.name for path in secrets_folder().iterdir()] == [secret_path("key").name]


def test_what_is_deleted_is_made_anew() -> None:
    first = made_by_somebody("key")
    assert made_by_somebody("key") == first
    secret_path("key").unlink()
    assert made_by_somebody("key") != first


def test_names_do_not_meet() -> None:
    names = ["a b", "a-b", "a/b", "a" * 200, "a" * 201, "", "/etc/passwd", "../x"]
    assert len({secret_path(name) for name in names}) == len(names)
    assert {secret_path(name).parent for name in names} == {secrets_folder()}


def test_nobody_else_may_read() -> None:
    made_by_somebody("key")
    save_copy("certificate", b"for people")
    assert secrets_folder().stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in secrets_folder().iterdir()} == {0o600}


def test_what_is_handed_out_is_what_it_is_now() -> None:
    assert save_copy("certificate", b"one") == b"one"
    save_copy("certificate", b"two")
    assert secret_path("certificate").read_bytes() == b"two"


def test_what_cannot_be_made_leaves_nothing() -> None:
    def fail() -> bytes:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        get_or_create("key", fail)
    assert not secrets_folder().exists() or list(secrets_folder().iterdir()) == []
