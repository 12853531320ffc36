"""Files on a host: sent once by hash, placed where they are needed, fetched; all below the work directory."""

from __future__ import annotations

import hashlib
import io
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchkit.errors import HostError
from benchkit.hosts.agent_link import Link, Reply

HostPath = str | PurePosixPath
"""A path on a host: absolute, or relative to its work directory."""

PIECE = 1 << 20
AHEAD = 4
"""Pieces on their way at a time: a link's delay is paid once, and other messages still get through between them."""
PIECE_S = 120.0
"""Time for a piece: a link that carries less than 10 kB/s is none to measure over."""


@dataclass(frozen=True)
class PlacedFile:
    """A file as it should stand on a host."""

    path: HostPath
    content: bytes | Path
    """Bytes, or a file of the controller's."""
    mode: int = 0o644


@dataclass(frozen=True)
class Placed:
    """What it took to have files stand as they should."""

    changed: tuple[str, ...]
    """Paths that were not so before."""
    sent_bytes: int
    """Content that the host did not have yet."""


class Files:
    """The files of one host; safe for many threads."""

    def __init__(self, link: Link, host: str) -> None:
        """Speak to the host's agent over its link."""
        self._link = link
        self._host = host

    def place(self, files: Iterable[PlacedFile]) -> Placed:
        """Have files stand on the host with their content and mode; those that do are left alone, and sent nothing for.

        Raises HostError.
        """
        wanted = [(file, _sha256(file.content)) for file in files]
        entries = {(sha256, file.mode): file for file, sha256 in wanted}
        missing = self._link.request("have", {"files": list(entries)}).fields["missing"]
        sent = sum(self._send(entries[sha256, mode], sha256) for sha256, mode in missing)
        placing = [(str(file.path), sha256, file.mode) for file, sha256 in wanted]
        changed = self._link.request("place", {"files": placing}).fields["changed"]
        return Placed(tuple(changed), sent)

    def store(self, content: bytes, mode: int = 0o600) -> str:
        """Have content in the host's store without placing it anywhere; its SHA-256."""
        sha256 = _sha256(content)
        if self._link.request("have", {"files": [(sha256, mode)]}).fields["missing"]:
            self._send(PlacedFile("", content, mode), sha256)
        return sha256

    def read(self, path: HostPath) -> bytes:
        """The content of a file, whole in memory. Raises HostError."""
        return b"".join(self._pieces(path))

    def fetch(self, path: HostPath, target: Path) -> int:
        """Bring a file to the controller; its size. `target` appears whole or not at all. Raises HostError."""
        part = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        digest = hashlib.sha256()
        try:
            with part.open("xb") as file:
                for piece in self._pieces(path):
                    digest.update(piece)
                    file.write(piece)
                size = file.tell()
            there = self._link.request("hash", {"path": str(path)}, time_s=PIECE_S).fields
            if there["sha256"] != digest.hexdigest():
                raise HostError(
                    f"{path} changed while it was fetched", where=self._host, hint="end what writes to it first"
                )
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return size

    def mkdir(self, path: HostPath) -> PurePosixPath:
        """Make a folder and those above it; fine where it exists. Its absolute path."""
        return PurePosixPath(self._link.request("mkdir", {"path": str(path)}).fields["path"])

    def scratch(self, path: HostPath) -> PurePosixPath:
        """Make a folder that goes when this connection ends, however that comes. Its absolute path."""
        return PurePosixPath(self._link.request("scratch", {"path": str(path)}).fields["path"])

    def remove(self, path: HostPath) -> bool:
        """Remove a file, or a folder with all that is in it; whether there was one."""
        return bool(self._link.request("remove", {"path": str(path)}, time_s=PIECE_S).fields["removed"])

    def list(self, path: HostPath) -> Mapping[str, int | None]:
        """The entries of a folder: name → size in bytes, None for what is no regular file."""
        entries: Mapping[str, int | None] = self._link.request("list", {"path": str(path)}).fields["entries"]
        return entries

    def _send(self, file: PlacedFile, sha256: str) -> int:
        """Upload content; its size."""
        size = len(file.content) if isinstance(file.content, bytes) else file.content.stat().st_size
        common = {"token": uuid.uuid4().hex, "sha256": sha256, "mode": file.mode, "size": size}
        uploads = (
            self._link.submit("upload", {**common, "offset": offset}, piece) for offset, piece in _cut(file.content)
        )
        stored = [reply.fields["stored"] for reply in self._answers(uploads)]
        if not any(stored):
            raise HostError(
                "a file did not arrive", where=self._host, why=f"{file.content!r:.80} changed while it was sent"
            )
        return size

    def _pieces(self, path: HostPath) -> Iterator[bytes]:
        """A file's content, as long as it is now."""
        size = int(self._link.request("read", {"path": str(path), "offset": 0, "limit": 0}).fields["size"])
        reads = (
            self._link.submit("read", {"path": str(path), "offset": offset, "limit": min(PIECE, size - offset)})
            for offset in range(0, size, PIECE)
        )
        for reply in self._answers(reads):
            yield reply.body

    def _answers(self, questions: Iterable[Future[Reply]]) -> Iterator[Reply]:
        """The answers in order; a few questions, which are asked as `questions` is gone through, are under way at a time."""
        under_way: deque[Future[Reply]] = deque()
        for question in questions:
            under_way.append(question)
            if len(under_way) == AHEAD:
                yield self._link.result(under_way.popleft(), PIECE_S)
        while under_way:
            yield self._link.result(under_way.popleft(), PIECE_S)


def _sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with content.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _cut(content: bytes | Path) -> Iterator[tuple[int, bytes]]:
    """Content in pieces with their offsets; one piece even where there is nothing."""
    with io.BytesIO(content) if isinstance(content, bytes) else content.open("rb") as source:
        piece, offset = source.read(PIECE), 0
        while piece or offset == 0:
            yield offset, piece
            offset += len(piece) or 1
            piece = source.read(PIECE)
