"""Files on a host, with a scripted agent, and hints at folders that a host has of its own."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchkit.agent.files import FileStore
from benchkit.errors import HostError
from benchkit.hosts.files import CHUNK_BYTES, Files, PlacedFile, hint_at_private_folder
from tests.support.hosts.fake_link import HOST, FakeLink

CONTENT = bytes(range(256)) * 12_000


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_last(chunk: SimpleNamespace) -> bool:
    return bool(chunk.offset + len(chunk.body) == len(CONTENT))


def test_only_missing_files_are_uploaded_in_chunks() -> None:
    large = sha256_of(CONTENT)
    link = FakeLink({FileStore.missing: [(large, 0o644)], FileStore.upload: is_last, FileStore.place: ["large"]})
    placed = Files(link, HOST).place([PlacedFile("large", CONTENT), PlacedFile("small", b"x")])
    assert (placed.changed, placed.sent_bytes) == (("large",), len(CONTENT))
    uploads = link.agent.requested(FileStore.upload)
    *full, last = [len(request.body) for request in uploads]
    assert set(full) == {CHUNK_BYTES}
    assert 0 < last <= CHUNK_BYTES
    assert b"".join(request.body for request in uploads) == CONTENT
    (placing,) = link.agent.requested(FileStore.place)
    assert placing.files == [["large", large, 0o644], ["small", sha256_of(b"x"), 0o644]]


def test_a_file_that_changes_during_its_upload_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    link = FakeLink({FileStore.missing: lambda wanted: wanted.files, FileStore.upload: False})
    with pytest.raises(HostError, match=rf"{HOST}: a file was not uploaded: .*changed while it was sent"):
        Files(link, HOST).place([PlacedFile("file", tmp_path / "file")])
    assert link.agent.requested(FileStore.place) == []


def test_only_paths_that_this_machine_has_in_such_a_folder_get_the_hint() -> None:
    with tempfile.NamedTemporaryFile(dir="/tmp") as file:
        for text in (f"{file.name} -listen 1", f'open() "{file.name}" failed', f"x={file.name}: not found"):
            assert f"{file.name} is on this machine; a host of a lab has a /tmp of its own" in str(
                hint_at_private_folder("", text)
            )
        assert hint_at_private_folder(f"/srv{file.name}", None) is None
        assert hint_at_private_folder(file.name, is_on_host={file.name}.__contains__) is None
    assert hint_at_private_folder(file.name) is None
