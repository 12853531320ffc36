"""Files below the work directory of a host: uploaded once by hash, placed and read."""

from __future__ import annotations

import hashlib
import io
import logging
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from benchkit.agent.files import FileStore
from benchkit.agent.operations import HostPath
from benchkit.errors import HostError
from benchkit.files import open_regular, read_regular
from benchkit.hosts.agent_link import AgentLink, ResultT

CHUNK_BYTES = 1 << 16
"""Size of a chunk; a link of 64 kbit/s sends it in less than the time between two heartbeats."""
CHUNKS_IN_FLIGHT = 16
"""Chunks requested before the first is answered: hides the link's delay, and leaves gaps for other requests."""
CHUNK_TIMEOUT_S = 120.0
"""Time for a chunk, counted from the end of the one before."""
OTHERS = 0o077
"""Permissions of everybody but the owner of a file (chmod(2))."""

PRIVATE_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - names for a message
"""Folders that each host of a lab has for itself."""

_PATH = re.compile(rf"(?<![\w/.-])(?:{'|'.join(map(re.escape, PRIVATE_FOLDERS))})/[^\s\"'`:;,()\[\]]+")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlacedFile:
    """A file to place on a host."""

    path: HostPath
    content: bytes | Path
    """Bytes, or a file of the controller."""
    mode: int = 0o644
    owner: str | None = None
    """User of the host who owns a secret; None: the login user."""

    @property
    def is_secret(self) -> bool:
        """True where only the owner may use the file: its one copy on the host is removed with the connection."""
        return self.mode & OTHERS == 0


@dataclass(frozen=True)
class FileChanges:
    """Changes made to place files."""

    changed: tuple[str, ...]
    """Paths whose content or mode has changed."""
    sent_bytes: int
    """Content that had to be uploaded."""


class Files:
    """The files of one host; safe for many threads."""

    def __init__(self, link: AgentLink, host: str) -> None:
        self._link = link
        self._host = host

    def place(self, files: Iterable[PlacedFile]) -> FileChanges:
        """Place files with their content and mode; files already in place are not touched.

        The host keeps files for later connections, except secrets (`is_secret`). Raises HostError.
        """
        all_files = list(files)
        secrets = [file for file in all_files if file.is_secret]
        changed_secrets = tuple(str(file.path) for file in secrets if self._write_temporary(file))
        wanted = [(file, _sha256(file.content)) for file in all_files if not file.is_secret]
        entries = {(sha256, file.mode): file for file, sha256 in wanted}
        missing = self._link.call(FileStore.missing, list(entries))
        sent = sum(self._send(entries[sha256, mode], sha256) for sha256, mode in missing)
        placing = [(file.path, sha256, file.mode) for file, sha256 in wanted]
        changed = (*self._link.call(FileStore.place, placing), *changed_secrets)
        logger.debug("%s: placed %d files, %d changed, %d bytes sent", self._host, len(all_files), len(changed), sent)
        return FileChanges(changed, sent)

    def read(self, path: HostPath) -> bytes:
        """Return the content of a file. Raises HostError."""
        return b"".join(self._read_chunks(path))

    def _write_temporary(self, file: PlacedFile) -> bool:
        content = file.content if isinstance(file.content, bytes) else read_regular(file.content)
        return self._link.call(FileStore.write_temporary, file.path, file.mode, file.owner, content)

    def _send(self, file: PlacedFile, sha256: str) -> int:
        size = len(file.content) if isinstance(file.content, bytes) else file.content.stat().st_size
        token = uuid.uuid4().hex
        uploads = (
            self._link.submit(FileStore.upload, token, sha256, file.mode, size, offset=offset, body=piece)
            for offset, piece in _chunks(file.content)
        )
        stored = list(self._results(uploads))
        if not any(stored):
            raise HostError(
                "a file was not uploaded", where=self._host, why=f"{file.content!r:.80} changed while it was sent"
            )
        return size

    def _read_chunks(self, path: HostPath) -> Iterator[bytes]:
        size = self._link.call(FileStore.read, path, 0, 0).size
        reads = (
            self._link.submit(FileStore.read, path, offset, min(CHUNK_BYTES, size - offset))
            for offset in range(0, size, CHUNK_BYTES)
        )
        for chunk in self._results(reads):
            yield chunk.body

    def _results(self, requests: Iterable[Future[ResultT]]) -> Iterator[ResultT]:
        """Yield the results in order; iterating `requests` sends them, a few ahead of their answers."""
        in_flight: deque[Future[ResultT]] = deque()
        for request in requests:
            in_flight.append(request)
            if len(in_flight) == CHUNKS_IN_FLIGHT:
                yield self._link.result(in_flight.popleft(), CHUNK_TIMEOUT_S)
        while in_flight:
            yield self._link.result(in_flight.popleft(), CHUNK_TIMEOUT_S)


def _sha256(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    with open_regular(content) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _chunks(content: bytes | Path) -> Iterator[tuple[int, bytes]]:
    with io.BytesIO(content) if isinstance(content, bytes) else open_regular(content) as source:
        piece, offset = source.read(CHUNK_BYTES), 0
        while piece or offset == 0:
            yield offset, piece
            offset += len(piece) or 1
            piece = source.read(CHUNK_BYTES)


def hint_at_private_folder(*texts: str | None, is_on_host: Callable[[str], bool] = lambda _: False) -> str | None:
    """Return a hint for a path in these texts that exists on this machine, in a folder that a host may have for itself.

    `is_on_host` returns True for a path that the host has too, which needs no hint.
    """
    for text in texts:
        for path in _PATH.findall(text or ""):
            if Path(path).exists() and not is_on_host(path):
                folder = next(folder for folder in PRIVATE_FOLDERS if path.startswith(f"{folder}/"))
                return (
                    f"{path} is on this machine; a host of a lab has a {folder} of its own and does not see it. "
                    "Put the file into another folder, such as the scenario's"
                )
    return None
