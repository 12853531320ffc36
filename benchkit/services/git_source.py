"""Sources at a ref of a git repository, checked out clean on the controller; the repository itself is never written to.

All refs of a repository are checked out at the same path, one after the other, so that paths in build outputs are
equal.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import logging
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.models.run import CodeState
from benchkit.services.controller_files import cache_folder

logger = logging.getLogger(__name__)

WORKTREE = "worktree"
"""The ref that stands for the files of the repository as they are, without those that it ignores."""


class Commit(Frozen):
    """A commit of a repository."""

    commit: str = Field(description="its full hash")
    subject: str


@dataclass(frozen=True)
class GitState:
    """One state of a repository."""

    repository: Path
    ref: str
    commit: str
    """Of `worktree`: the commit that it is based on."""
    tree: str
    """Id of the tree object: the content."""
    diff_sha256: str | None = None
    """SHA-256 of the difference from the commit as `git diff-tree --binary` prints it; None: not `worktree`."""


@functools.cache
def resolve_ref(folder: Path, ref: str) -> GitState:
    """Return the state that a ref names now in the repository of `folder`; it stays the same in this process.

    Raises InputError where there is no git, no repository or no such ref.
    """
    repository = Path(_git(folder, "rev-parse", "--show-toplevel"))
    commit = _commit_of(repository, "HEAD" if ref == WORKTREE else ref)
    if ref != WORKTREE:
        return GitState(repository, ref, commit, _git(repository, "rev-parse", f"{commit}^{{tree}}"))
    with _locked_clone(repository) as clone, tempfile.TemporaryDirectory() as scratch:
        objects = {
            "GIT_INDEX_FILE": f"{scratch}/index",
            "GIT_OBJECT_DIRECTORY": str(clone / ".git" / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _objects(repository),
        }
        _git(repository, "read-tree", "HEAD", environment=objects)
        _git(repository, "add", "--all", environment=objects)
        tree = _git(repository, "write-tree", environment=objects)
        difference = _git(repository, "diff-tree", "-p", "--binary", "--full-index", commit, tree, environment=objects)
    return GitState(repository, ref, commit, tree, hashlib.sha256(difference.encode()).hexdigest())


def commits_between(folder: Path, good: str, bad: str) -> tuple[Commit, tuple[Commit, ...]]:
    """Return the commit of `good`, and the commits after it up to `bad`, oldest first, along first parents.

    Raises InputError where there is no git, no repository or no such ref, and where `good` is not an ancestor of `bad`.
    """
    _git(folder, "rev-parse", "--show-toplevel")
    first, last = (_commit_of(folder, ref) for ref in (good, bad))
    if first == last:
        raise InputError(f"{good} and {bad} are the same commit", where=str(folder), why=first)
    if _git(folder, "rev-list", "--max-count=1", first, f"^{last}"):
        raise InputError(
            f"{good} is not an ancestor of {bad}",
            where=str(folder),
            hint="name the good end first; of two branches, the good end is their `git merge-base`",
        )
    lines = _git(folder, "log", "--first-parent", "--reverse", "--format=%H %s", f"{first}..{last}").splitlines()
    start = _git(folder, "log", "--max-count=1", "--format=%H %s", first)
    return _commit(start), tuple(_commit(line) for line in lines)


def _commit_of(folder: Path, ref: str) -> str:
    try:
        return _git(folder, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")
    except InputError as error:
        raise InputError(f"no ref {ref!r}", where=error.where, why=error.why) from None


def _commit(line: str) -> Commit:
    name, _, subject = line.partition(" ")
    return Commit(commit=name, subject=subject)


def code_state(folder: Path) -> CodeState | None:
    """Return the commit that the checkout of a folder is at, and whether tracked files differ from it.

    None where there is no git, no checkout or no commit.
    """
    try:
        commit, _, subject = _git(folder, "log", "--max-count=1", "--format=%H %s", "HEAD").partition(" ")
        changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    except InputError as error:
        logger.info("no state of the code to record: %s", error)
        return None
    readable = subject.encode(errors="replace").decode()  # git keeps any bytes
    return CodeState(commit=commit, subject=readable, is_modified=bool(changes))


@contextlib.contextmanager
def checked_out(state: GitState) -> Iterator[Path]:
    """Give a folder with exactly the files of a state, for as long as the context lasts. Raises InputError."""
    with _locked_clone(state.repository) as clone:
        _git(clone, "checkout", "--quiet", "--force", "--detach", state.commit)
        _git(clone, "read-tree", "--reset", "-u", state.tree)
        _git(clone, "clean", "-ffdxq")
        yield clone


@contextlib.contextmanager
def _locked_clone(repository: Path) -> Iterator[Path]:
    """Give a clone that reads the repository's objects; other processes wait until it is released."""
    clone = cache_folder("builds") / "checkouts" / hashlib.sha256(str(repository).encode()).hexdigest()[:16]
    clone.parent.mkdir(parents=True, exist_ok=True)
    with clone.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (clone / ".git" / "objects" / "info").is_dir():
            _git(clone.parent, "init", "--quiet", str(clone))
        (clone / ".git" / "objects" / "info" / "alternates").write_text(f"{_objects(repository)}\n", encoding="utf-8")
        yield clone


def _objects(repository: Path) -> str:
    return str((repository / _git(repository, "rev-parse", "--git-path", "objects")).resolve())


def _git(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """Run git in a folder, without the variables of a git that runs this program; return what it prints."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**inherited, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise InputError("cannot run git", where=str(folder), why=error.strerror, hint="install git") from None
    if done.returncode != 0:
        why = done.stderr.decode(errors="replace").strip()
        raise InputError(f"`git {arguments[0]}` failed", where=str(folder), why=why)
    return done.stdout.decode(errors="surrogateescape").strip()
