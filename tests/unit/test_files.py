"""Files of others: neither a FIFO nor a device nor a huge file stops a reader."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from benchkit.files import read_regular


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder with what is no regular file."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("fifo", errno.EINVAL),
        ("zero", errno.EINVAL),
        ("folder", errno.EISDIR),
        ("socket", errno.ENXIO),
        ("nothing", errno.ENOENT),
    ],
)
def test_what_is_no_regular_file_is_refused_at_once(odd: Path, name: str, code: int) -> None:
    with pytest.raises(OSError, match=name) as refused:
        read_regular(odd / name)
    assert refused.value.errno == code


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, max_bytes=5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 B"):
        read_regular(path, max_bytes=4)
    assert read_regular(os.devnull) == b""
