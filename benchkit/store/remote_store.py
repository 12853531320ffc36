"""A store at a URL, by way of fsspec, with a local copy of those of its files that a command needs.

The copy is a temporary folder with the layout of a store, which `Store` reads like any other. It is filled as files are
needed, each verified against its checksum. A run is there once it has its manifest, which `push` writes last. Its
checksums name all its files: one run is read without listing any folder.

Credentials come from where the client library of each service looks for them, such as environment variables.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from benchkit.errors import BenchkitError, InputError
from benchkit.files import file_sha256
from benchkit.models.run import RunId
from benchkit.store.layout import Checksums, checksums_path, manifest_path, parse_checksums
from benchkit.validation import is_valid_name

_OPTIONS: Mapping[str, Mapping[str, object]] = {
    "file": {"auto_mkdir": True},
    "s3": {"max_concurrency": 1},  # more parts of a file at once would cost a request for its size
}


def is_url(text: str) -> bool:
    """Return True for the URL of a store, False for a folder."""
    return "://" in text


class RemoteStore:
    """The files below a URL, by their paths from there.

    Methods raise InputError for what the user can change, and BenchkitError for failures of the service or the network.
    """

    def __init__(self, url: str) -> None:
        """Use the store at `url`; nothing is read yet. Raises InputError for a URL that cannot be used."""
        if not is_url(url):
            raise InputError("not the URL of a store", where=url, hint="such as s3://bucket/folder or file:///folder")
        parts = urlsplit(url)
        if parts.password is not None or parts.query or parts.fragment:
            raise InputError(
                "the URL of a store has no password, query or fragment",
                where=f"{parts.scheme}://{parts.hostname or ''}",
                hint="credentials belong in the environment or the config files of the service",
            )
        self.url = url.rstrip("/")
        import fsspec  # noqa: PLC0415 - only where a store is a URL

        try:
            self._fs, root = fsspec.url_to_fs(self.url, skip_instance_cache=True, **_OPTIONS.get(parts.scheme, {}))
        except (ImportError, ValueError) as error:  # no client library, no such protocol
            raise InputError(
                f"no access to {parts.scheme}:// here",
                where=url,
                why=str(error),
                hint="pip install 'benchkit[s3]' for s3://, 'benchkit[http]' for https://; fsspec has other protocols",
            ) from None
        self._root = str(root).rstrip("/")
        folder = tempfile.mkdtemp(prefix="benchkit-store-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.copy = Path(folder)
        """Folder of the local copy."""
        self._checksums: dict[str, Checksums] = {}

    def run_ids(self, beginning: str = "") -> list[str]:
        """Return the ids of all runs with this prefix, sorted. Raises InputError for an empty store."""
        try:
            with self._explained():
                self._fs.invalidate_cache()
                found = self._fs.ls(self._path("runs"), detail=False)
        except FileNotFoundError:
            raise InputError(
                "there is no store here",
                where=self.url,
                hint="`benchkit results push` creates one; on a web server that lists no folders, name a run's whole id",
            ) from None
        names = {str(path).rstrip("/").rpartition("/")[2] for path in found}
        return sorted(name for name in names if name.startswith(beginning) and is_valid_name(name, RunId))

    def fetch_manifests(self, run_ids: Iterable[str]) -> None:
        """Copy the manifests of these runs, as far as they exist."""
        paths = (manifest_path(run_id) for run_id in run_ids if is_valid_name(run_id, RunId))
        for path, content in self.read(path for path in paths if not (self.copy / path).is_file()).items():
            target = self.copy / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def checksums(self, run_ids: Iterable[str]) -> dict[str, Checksums]:
        """Return the checksums of published runs, which name all their files; runs without a manifest are omitted.

        Raises InputError where a run has none.
        """
        wanted = list(run_ids)
        self.fetch_manifests(wanted)
        published = [run_id for run_id in wanted if (self.copy / manifest_path(run_id)).is_file()]
        unread = {checksums_path(run_id): run_id for run_id in published if run_id not in self._checksums}
        found = self.read(unread)
        for path, run_id in unread.items():
            if path not in found:
                raise InputError("the run has no checksums, which name its files", where=f"{self.url}/{path}")
            self._checksums[run_id] = parse_checksums(self.url, run_id, found[path])
        return {run_id: self._checksums[run_id] for run_id in published}

    def fetch(self, run_ids: Iterable[str], is_wanted: Callable[[str], bool]) -> None:
        """Copy the wanted files of runs that the copy lacks; `is_wanted` gets paths from the folder of the store.

        Raises InputError for a missing file, and for one that differs from its checksum.
        """
        missing = {
            path: checksum
            for checksums in self.checksums(run_ids).values()
            for path, checksum in checksums.items()
            if is_wanted(path) and not (self.copy / path).is_file()
        }
        if not missing:
            return
        for folder in {(self.copy / path).parent for path in missing}:
            folder.mkdir(parents=True, exist_ok=True)
        try:
            with self._explained():
                self._fs.get([self._path(path) for path in missing], [str(self.copy / path) for path in missing])
        except FileNotFoundError as error:
            raise InputError("a file of the store is missing", where=self.url, why=str(error)) from None
        for path, checksum in missing.items():
            if file_sha256(self.copy / path) != checksum:
                (self.copy / path).unlink()
                raise InputError(
                    "the file differs from its checksum",
                    where=f"{self.url}/{path}",
                    hint="delete the run there, and push it again from a folder that has it",
                )

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of those files that exist, by path."""
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

    def put(self, files: Mapping[str, Path]) -> None:
        """Copy files there, each from its path here; files of these names are replaced."""
        try:
            with self._explained():
                self._fs.put([str(source) for source in files.values()], [self._path(path) for path in files])
        except (FileNotFoundError, NotImplementedError) as error:
            raise BenchkitError(
                "cannot write to the store",
                where=self.url,
                why=str(error),
                hint="the bucket or folder must exist; a store on a web server is read-only",
            ) from None

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn failures into BenchkitErrors that name the store; a missing file stays a FileNotFoundError."""
        try:
            yield
        except FileNotFoundError:
            raise
        except _failures() as error:
            raise BenchkitError(
                "cannot access the store",
                where=self.url,
                why=str(error) or type(error).__name__,
                hint="check its URL, its endpoint, the network, and the credentials in the environment",
            ) from None


def _failures() -> tuple[type[Exception], ...]:
    """Return the errors of file systems and of those client libraries that are loaded."""
    classes = (
        ("botocore.exceptions", "BotoCoreError"),
        ("botocore.exceptions", "ClientError"),
        ("aiohttp", "ClientError"),
    )
    return (OSError, *(getattr(sys.modules[module], name) for module, name in classes if module in sys.modules))
