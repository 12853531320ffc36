"""Files below a URL, by way of fsspec, which no other module uses.

Credentials come from where the client library of each service looks for them: its environment variables and its config
files. A URL has none, so that no stored file contains them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchkit.errors import BenchkitError, InputError

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://[^/]*[^?#]*")
_EXTRAS: Mapping[str, str] = {"s3": "s3", "s3a": "s3", "http": "http", "https": "http"}
"""Extra of the package that brings the client library of a protocol."""
_READ_ONLY = frozenset({"http", "https"})
_OPTIONS: Mapping[str, Mapping[str, object]] = {
    "file": {"auto_mkdir": True},
    "s3": {"max_concurrency": 1},  # more parts of a file at once would cost a request for its size
}
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({401, 403})


def is_url(text: str) -> bool:
    """Return True for the URL of a store, False for a folder."""
    return "://" in text


@dataclass(frozen=True)
class RemoteFile:
    """A file as a listing describes it."""

    size: int
    md5: str | None
    """MD5 of the content; None where the service does not state it."""


class RemoteFiles:
    """The files below a URL, by their paths from there.

    Methods raise InputError for what the user can change, and BenchkitError for failures of the service or the network.
    """

    def __init__(self, url: str) -> None:
        """Use the files below `url`; nothing is read yet. Raises InputError for a URL that cannot be used."""
        self.url = url.rstrip("/")
        self._protocol = _require_plain_url(url)
        import fsspec  # noqa: PLC0415 - only where a store is a URL

        try:
            # A file system of its own: fsspec would give one that was made for another endpoint or other credentials.
            options = _OPTIONS.get(self._protocol, {})
            self._fs, root = fsspec.url_to_fs(self.url, skip_instance_cache=True, **options)
        except (ImportError, ValueError) as error:  # no client library, no such protocol
            extra = _EXTRAS.get(self._protocol)
            hint = f"pip install 'benchkit[{extra}]'" if extra else "name a protocol of fsspec, and install its package"
            raise InputError(f"no access to {self._protocol}:// here", where=url, why=str(error), hint=hint) from None
        self._root = str(root).rstrip("/")
        self._fs.invalidate_cache()

    @property
    def filesystem(self) -> Any:  # noqa: ANN401 - fsspec has no types
        """The file system of fsspec, for libraries that read through one."""
        return self._fs

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none where there is no such folder."""
        try:
            with self._explained():
                self._fs.invalidate_cache()
                found = self._fs.ls(self._path(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted({str(path).rstrip("/").rpartition("/")[2] for path in found})

    def listing(self, folder: str) -> dict[str, RemoteFile]:
        """Return all files below a folder by path; none where there is no such folder."""
        try:
            with self._explained():
                self._fs.invalidate_cache()
                found = self._fs.find(self._path(folder), detail=True)
        except FileNotFoundError:
            return {}
        return {str(path)[len(self._root) + 1 :]: _described(info) for path, info in found.items()}

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of those files that exist, by path; they are read at once."""
        wanted = list(paths)
        found: dict[str, bytes] = {}
        with self._explained():
            # Not `cat`, which asks whether each file exists before it reads it.
            contents = self._fs.cat_ranges([self._path(path) for path in wanted], None, None, on_error="return")
            for path, content in zip(wanted, contents, strict=True):
                if isinstance(content, bytes):
                    found[path] = content
                elif not isinstance(content, FileNotFoundError):
                    raise content
        return found

    def fetch(self, files: Mapping[str, Path]) -> None:
        """Copy files from there, each to its path here. Raises InputError for a missing one."""
        for target in {target.parent for target in files.values()}:
            target.mkdir(parents=True, exist_ok=True)
        try:
            with self._explained(next(iter(files.values())).parent if files else None):
                self._fs.get([self._path(path) for path in files], [str(target) for target in files.values()])
        except FileNotFoundError as error:
            raise InputError(
                "a file of the store is missing",
                where=self.url,
                why=str(error),
                hint="`benchkit results check` names all that is missing; push the run again from where it is complete",
            ) from None

    def digests(self, paths: Iterable[str]) -> dict[str, str]:
        """Read files and return their SHA-256 by path."""
        with tempfile.TemporaryDirectory(prefix="benchkit-") as folder:
            copies = {path: Path(folder, path) for path in paths}
            self.fetch(copies)
            return {path: hashlib.sha256(copy.read_bytes()).hexdigest() for path, copy in copies.items()}

    def put(self, files: Mapping[str, Path]) -> None:
        """Copy files there, each from its path here; files of these names are replaced."""
        with self._writing():
            self._fs.put([str(source) for source in files.values()], [self._path(path) for path in files])

    def create(self, path: str, source: Path) -> bool:
        """Copy a file there unless there is one; return False where there was.

        On S3 this is atomic, also between two writers; on other services, existence is checked first.
        """
        with self._writing():
            try:
                self._fs.put_file(str(source), self._path(path), mode="create")
            except FileExistsError:
                return False
            except OSError:  # S3's refusal of a condition has no class of its own
                if not self.read([path]):
                    raise
                return False
        return True

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        if self._protocol in _READ_ONLY:
            raise InputError("a store on a web server is read-only", where=self.url, hint="push to s3:// or a folder")
        try:
            with self._explained():
                yield
        except FileNotFoundError as error:
            raise BenchkitError(
                "cannot write to the store",
                where=self.url,
                why=str(error),
                hint="the bucket or folder must exist; check its name",
            ) from None

    @contextlib.contextmanager
    def _explained(self, target: Path | None = None) -> Iterator[None]:
        """Turn failures into BenchkitErrors that name the store; a missing file stays a FileNotFoundError.

        `target` is the folder of this machine that is written, if one is.
        """
        try:
            yield
        except FileNotFoundError:
            raise
        except _failures() as error:
            raise self._explain(error, target) from None

    def _explain(self, error: Exception, target: Path | None) -> BenchkitError:
        why = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.errno in _NO_SPACE:
            hint = "free some space there, then give the command again: it goes on where it was"
            where = self.url if target is None else str(target)
            return BenchkitError("cannot write files", where=where, why=error.strerror, hint=hint)
        if type(error).__name__ in {"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"}:
            hint = "set its environment variables (AWS_ACCESS_KEY_ID, AWS_PROFILE, …) or write its config files"
            return BenchkitError("no credentials for the store", where=self.url, why=why, hint=hint)
        if isinstance(error, PermissionError) or getattr(error, "status", None) in _FORBIDDEN:
            hint = "check the credentials in the environment or config files, and what they allow"
            return BenchkitError("the store forbids this", where=self.url, why=why, hint=hint)
        return BenchkitError(
            "the store cannot be reached", where=self.url, why=why, hint="check its URL, its endpoint and the network"
        )


def _failures() -> tuple[type[Exception], ...]:
    classes = (
        ("botocore.exceptions", "BotoCoreError"),
        ("botocore.exceptions", "ClientError"),
        ("aiohttp", "ClientError"),
    )
    return (OSError, *(getattr(sys.modules[module], name) for module, name in classes if module in sys.modules))


def _described(info: Mapping[str, Any]) -> RemoteFile:
    tag = _MD5.fullmatch(str(info.get("ETag", "")))
    size = info.get("size")
    return RemoteFile(size=-1 if size is None else int(size), md5=tag[1] if tag else None)


def _require_plain_url(url: str) -> str:
    """Return the protocol of a URL. Raises InputError for one with a password or a query, which are not shown."""
    parts = urlsplit(url)
    shown = f"{parts.scheme}://{parts.hostname or ''}"
    if parts.password is not None or parts.query or parts.fragment:
        raise InputError(
            "the URL of a store has no password, query or fragment",
            where=shown,
            hint="credentials belong in the environment or the config files of the service",
        )
    if not _URL.fullmatch(url):
        raise InputError("this is no URL of a store", where=url, hint="as s3://bucket/folder, or file:///folder")
    return parts.scheme
