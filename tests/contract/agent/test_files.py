from __future__ import annotations

import hashlib
import os
import tarfile
import time
from pathlib import Path

import pytest

from benchkit.agent.common import RefusedError
from benchkit.agent.files import Files
from benchkit.agent.frames import Json
from benchkit.agent.workdir import Workdir

CONTENT = b"some bytes\n"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(Workdir(str(tmp_path / "workdir")))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "workdir"


def upload(files: Files, content: bytes = CONTENT, mode: int = 0o644, token: str = "t1") -> Json:  # noqa: S107
    sha256 = hashlib.sha256(content).hexdigest()
    return files.upload(token=token, sha256=sha256, mode=mode, size=len(content), offset=0, body=content)


def test_what_was_uploaded_is_there_and_is_placed(files: Files, root: Path) -> None:
    assert files.missing(files=[(SHA256, 0o644)]) == {"missing": [[SHA256, 0o644]]}
    assert upload(files) == {"stored": True}
    assert files.missing(files=[(SHA256, 0o644), (SHA256, 0o755)]) == {"missing": [[SHA256, 0o755]]}
    assert files.place(files=[("conf/a", SHA256, 0o644)]) == {"changed": ["conf/a"]}
    assert (root / "conf/a").read_bytes() == CONTENT
    assert (root / "conf/a").stat().st_mode & 0o777 == 0o644


def test_placing_is_idempotent(files: Files, root: Path) -> None:
    upload(files)
    files.place(files=[("a", SHA256, 0o644)])
    before = (root / "a").stat()
    assert files.place(files=[("a", SHA256, 0o644)]) == {"changed": []}
    after = (root / "a").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_an_equal_file_that_came_otherwise_stays_too(files: Files, root: Path) -> None:
    upload(files)
    (root / "a").write_bytes(CONTENT)
    (root / "a").chmod(0o644)
    assert files.place(files=[("a", SHA256, 0o644)]) == {"changed": []}
    (root / "a").chmod(0o600)
    assert files.place(files=[("a", SHA256, 0o644)]) == {"changed": ["a"]}


def test_pieces_may_come_in_any_order(files: Files, root: Path) -> None:
    content = os.urandom(1000)
    sha256 = hashlib.sha256(content).hexdigest()
    for offset in (600, 0, 300):
        piece = content[offset : offset + (300 if offset < 600 else 400)]
        answer = files.upload(token="p", sha256=sha256, mode=0o600, size=1000, offset=offset, body=piece)  # noqa: S106
    assert answer == {"stored": True}
    files.place(files=[("x", sha256, 0o600)])
    assert (root / "x").read_bytes() == content


def test_an_empty_file_is_a_file(files: Files, root: Path) -> None:
    upload(files, b"")
    files.place(files=[("empty", hashlib.sha256(b"").hexdigest(), 0o644)])
    assert (root / "empty").stat().st_size == 0


def test_what_arrives_damaged_is_not_kept(files: Files, root: Path) -> None:
    with pytest.raises(RefusedError, match="arrived with the hash"):
        files.upload(token="t", sha256=SHA256, mode=0o644, size=3, offset=0, body=b"xyz")  # noqa: S106
    assert list((root / "store").iterdir()) == []


def test_a_placed_file_that_was_written_to_does_not_spoil_the_store(files: Files, root: Path) -> None:
    upload(files)
    files.place(files=[("a", SHA256, 0o644)])
    with (root / "a").open("ab") as file:  # in place: the stored file is the same one
        file.write(b"and more")
    assert files.missing(files=[(SHA256, 0o644)]) == {"missing": [[SHA256, 0o644]]}
    with pytest.raises(RefusedError, match="nothing with the hash"):
        files.place(files=[("b", SHA256, 0o644)])
    upload(files)
    files.place(files=[("a", SHA256, 0o644)])
    assert (root / "a").read_bytes() == CONTENT


@pytest.mark.parametrize("path", ["../x", "/etc/x", "store/x", "records/x", ".benchkit", "", "."])
def test_nothing_is_placed_made_or_removed_elsewhere(files: Files, path: str) -> None:
    upload(files)
    with pytest.raises(RefusedError, match="not below the work directory"):
        files.place(files=[(path, SHA256, 0o644)])
    with pytest.raises(RefusedError, match="not below the work directory"):
        files.mkdir(path=path)
    with pytest.raises(RefusedError, match="not below the work directory"):
        files.remove(path=path)


def test_a_link_at_the_place_is_replaced_and_not_followed(files: Files, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("precious")
    (root / "a").symlink_to(outside)
    upload(files)
    files.place(files=[("a", SHA256, 0o644)])
    assert outside.read_text() == "precious"
    assert not (root / "a").is_symlink()


def test_removing_a_folder_does_not_follow_links(files: Files, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    files.mkdir(path="a/b")
    (root / "a/b/link").symlink_to(outside)
    assert files.remove(path="a") == {"removed": True}
    assert files.remove(path="a") == {"removed": False}
    assert (outside / "precious").exists()


def test_an_archive_has_the_files_of_its_folder_that_it_was_asked_for(files: Files, root: Path) -> None:
    files.mkdir(path="folder/inner")
    large = os.urandom(100_000)
    for name, content in {"a": b"x", "b.txt": large, "empty": b"", "other": b"y"}.items():
        (root / "folder" / name).write_bytes(content)
    path = files.archive(path="folder/some.tar", names=["b.txt", "a", "empty"])["path"]
    with tarfile.open(path) as archive:
        contents = [(member.name, file.read()) for member in archive if (file := archive.extractfile(member))]
    assert contents == [("b.txt", large), ("a", b"x"), ("empty", b"")]
    files.archive(path="folder/none.tar", names=[])
    with tarfile.open(root / "folder/none.tar") as archive:
        assert archive.getnames() == []
    for name, reason in {"nothing": "there is no", "inner": "not a regular file", "../../x": "not below"}.items():
        with pytest.raises(RefusedError, match=reason):
            files.archive(path=f"folder/of-{Path(name).name}.tar", names=[name])


def test_reading_in_pieces_listing_and_hashing(files: Files, root: Path) -> None:
    (root / "log").write_bytes(b"0123456789")
    assert files.read(path="log", offset=4, limit=3) == ({"size": 10}, b"456")
    assert files.read(path="log", offset=20, limit=3) == ({"size": 10}, b"")
    assert files.hash(path="log") == {"size": 10, "sha256": hashlib.sha256(b"0123456789").hexdigest()}
    files.mkdir(path="folder/inner")
    (root / "folder/f").write_bytes(b"xx")
    assert files.list(path="folder") == {"entries": {"f": 2, "inner": None}}
    with pytest.raises(RefusedError, match="there is no"):
        files.read(path="nothing", offset=0, limit=1)
    with pytest.raises(RefusedError, match="is not a regular file"):
        files.hash(path="folder")


def test_what_was_not_used_for_long_makes_room(files: Files, root: Path) -> None:
    upload(files, b"old")
    (old,) = (root / "store").iterdir()
    long_ago = time.time() - Files.KEEP_S - 60
    os.utime(old, (long_ago, long_ago))
    upload(files, b"new", token="t2")  # noqa: S106
    assert [entry.read_bytes() for entry in (root / "store").iterdir()] == [b"new"]


@pytest.mark.parametrize(("sha256", "mode"), [("../../x", 0o644), ("A" * 64, 0o644), (SHA256, 0o4755), (SHA256, -1)])
def test_hashes_and_modes_are_what_they_say(files: Files, sha256: str, mode: int) -> None:
    with pytest.raises(RefusedError, match=r"is not a SHA-256|mode"):
        files.missing(files=[(sha256, mode)])


def test_a_token_is_no_path(files: Files) -> None:
    with pytest.raises(RefusedError, match="not a valid name"):
        upload(files, token="../x")  # noqa: S106
