from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError, Workdir
from benchkit.agent.files import FileStore
from benchkit.agent.records import Records

CONTENT = b"some bytes\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def files(tmp_path: Path) -> FileStore:
    workdir = Workdir(str(tmp_path / "workdir"))
    return FileStore(workdir, Records(workdir))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workdir"


def upload(files: FileStore, content: bytes = CONTENT, mode: int = 0o644, token: str = "t1") -> bool:  # noqa: S107
    sha256 = hashlib.sha256(content).hexdigest()
    return files.upload(token, sha256, mode, len(content), offset=0, body=content)


def test_pieces_may_come_in_any_order(files: FileStore, root: Path) -> None:
    content = os.urandom(1000)
    sha256 = hashlib.sha256(content).hexdigest()
    for offset in (600, 0, 300):
        piece = content[offset : offset + (300 if offset < 600 else 400)]
        is_stored = files.upload("p", sha256, 0o600, 1000, offset=offset, body=piece)
    assert is_stored
    files.place([("x", sha256, 0o600)])
    assert (root / "x").read_bytes() == content


def test_what_arrives_damaged_is_not_kept(files: FileStore, root: Path) -> None:
    with pytest.raises(OperationError, match="arrived with the hash"):
        files.upload("t", SHA256, 0o644, 3, offset=0, body=b"xyz")
    assert list((root / "store").iterdir()) == []


def test_a_placed_file_that_was_written_to_does_not_spoil_the_store(files: FileStore, root: Path) -> None:
    upload(files)
    files.place([("a", SHA256, 0o644)])
    with (root / "a").open("ab") as file:  # in place: the stored file is the same one
        file.write(b"and more")
    assert files.missing([(SHA256, 0o644)]) == [(SHA256, 0o644)]
    with pytest.raises(OperationError, match="nothing with the hash"):
        files.place([("b", SHA256, 0o644)])
    upload(files)
    files.place([("a", SHA256, 0o644)])
    assert (root / "a").read_bytes() == CONTENT


@pytest.mark.parametrize("path", ["../x", "/etc/x", "store/x", "records/x", ".benchkit", "", "."])
def test_nothing_is_placed_made_or_removed_elsewhere(files: FileStore, path: str) -> None:
    upload(files)
    with pytest.raises(OperationError, match="not below the work directory"):
        files.place([(path, SHA256, 0o644)])
    with pytest.raises(OperationError, match="not below the work directory"):
        files.mkdir(path)
    with pytest.raises(OperationError, match="not below the work directory"):
        files.remove(path)


def test_a_link_at_the_place_is_replaced_and_not_followed(files: FileStore, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (root / "a").symlink_to(outside)
    upload(files)
    files.place([("a", SHA256, 0o644)])
    assert outside.read_text() == "precious"
    assert not (root / "a").is_symlink()


def test_an_archive_has_the_files_of_its_folder_that_it_was_asked_for(files: FileStore, root: Path) -> None:
    files.mkdir("folder/inner")
    large = os.urandom(100_000)
    for name, content in {"a": b"x", "b.txt": large, "empty": b"", "other": b"y"}.items():
        (root / "folder" / name).write_bytes(content)
    files.archive("folder/some.tar", ["b.txt", "a", "empty"])
    with tarfile.open(root / "folder/some.tar") as archive:
        contents = [(member.name, file.read()) for member in archive if (file := archive.extractfile(member))]
    assert contents == [("b.txt", large), ("a", b"x"), ("empty", b"")]
    files.archive("folder/none.tar", [])
    with tarfile.open(root / "folder/none.tar") as archive:
        assert archive.getnames() == []
    for name, reason in {"nothing": "there is no", "inner": "not a regular file", "../../x": "not below"}.items():
        with pytest.raises(OperationError, match=reason):
            files.archive(f"folder/of-{Path(name).name}.tar", [name])


def test_reading_in_pieces_and_listing(files: FileStore, root: Path) -> None:
    (root / "log").write_bytes(b"0123456789")
    assert files.read("log", 4, 3) == ops.FileChunk(10, b"456")
    assert files.read("log", 20, 3) == ops.FileChunk(10)
    files.mkdir("folder/inner")
    (root / "folder/f").write_bytes(b"xx")
    assert files.list_folder("folder") == {"f": 2, "inner": None}
    with pytest.raises(OperationError, match="there is no"):
        files.read("nothing", 0, 1)
    with pytest.raises(OperationError, match="is not a regular file"):
        files.read("folder", 0, 1)
