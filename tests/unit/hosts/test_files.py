"""Files on a host, with a scripted agent, and hints at folders that a host has of its own."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.errors import HostError
from benchkit.hosts.files import CHUNK_BYTES, Files, PlacedFile
from tests.support.hosts.fake_link import HOST, FakeLink

CONTENT = bytes(range(256)) * 12_000


def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def serve_content(wanted: ops.ReadChunk) -> ops.FileChunk:
    """Return the requested chunk of CONTENT."""
    return ops.FileChunk(len(CONTENT), CONTENT[wanted.offset : wanted.offset + wanted.limit])


def test_only_missing_files_are_uploaded_in_chunks() -> None:
    large = sha256_of(CONTENT)
    link = FakeLink(
        {
            ops.MissingFiles: [(large, 0o644)],
            ops.UploadChunk: lambda chunk: chunk.offset + len(chunk.body) == len(CONTENT),
            ops.PlaceFiles: ["large"],
        }
    )
    placed = Files(link, HOST).place([PlacedFile("large", CONTENT), PlacedFile("small", b"x")])
    assert (placed.changed, placed.sent_bytes) == (("large",), len(CONTENT))
    uploads = link.agent.requested(ops.UploadChunk)
    *full, last = [len(request.body) for request in uploads]
    assert set(full) == {CHUNK_BYTES}
    assert 0 < last <= CHUNK_BYTES
    assert b"".join(request.body for request in uploads) == CONTENT
    assert link.agent.requested(ops.PlaceFiles) == [
        ops.PlaceFiles([("large", large, 0o644), ("small", sha256_of(b"x"), 0o644)])
    ]


def test_a_file_that_changes_during_its_upload_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    link = FakeLink({ops.MissingFiles: lambda wanted: wanted.files, ops.UploadChunk: False})
    with pytest.raises(HostError, match=rf"{HOST}: a file was not uploaded: .*changed while it was sent"):
        Files(link, HOST).place([PlacedFile("file", tmp_path / "file")])
    assert link.agent.requested(ops.PlaceFiles) == []
