"""The record of a search for the commit that made a server slower: `<store>/bisections/<id>.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, Field, TypeAdapter, ValidationError

from benchkit.errors import InputError
from benchkit.files import read_regular
from benchkit.models.base import Frozen, SplitCpus
from benchkit.models.request import Request
from benchkit.models.run import RunId
from benchkit.services.git_source import Commit
from benchkit.store.durable_files import PRIVATE, make_folders, write_atomically
from benchkit.validation import first_fault

StepJudgement = Literal["good", "bad", "undecided", "skipped"]
"""Undecided is the bad end alone: of other commits the ratio itself decides where the interval does not."""


class SearchStep(Frozen):
    """The result of one step of the search: a commit compared with the good end, or the reason why it was skipped."""

    commit: str
    judgement: StepJudgement
    is_decided: bool = Field(
        default=True,
        description="False if the interval still contained the threshold at the end, and the ratio itself decided",
    )
    run_id: RunId | None = Field(default=None, description="run of the comparison")
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    reason: str | None = Field(default=None, description="reason for which it was skipped, or needed no comparison")
    notes: tuple[str, ...] = Field(default=(), description="notes on its ratio, such as different responses")


class SearchOptions(Frozen):
    """Load and duration of each step."""

    requests: tuple[Request, ...] = Field(min_length=1, description="what is sent, all equally often")
    tool: str
    connections: int
    duration_s: float = Field(description="time after which a comparison ends undecided")
    precision: float = Field(description="reach of the bad end's interval to either side, at which its comparison ends")
    ready_within_s: float | None = Field(default=None, description="time in which a server must accept connections")
    settings: tuple[str, ...] = Field(default=(), description="overrides of scenario fields by `--set`")
    search_path: str | None = Field(
        default=None,
        description="PATH with which servers start on this machine, in a lab; None: the one of their hosts",
    )
    cpus: SplitCpus | None = Field(
        default=None, description="CPUs where servers and the load tool share a host; None: each has hosts"
    )
    fixed: frozenset[str] = Field(
        default=frozenset(), description="`tool` and `connections` where they were given, and are not adapted"
    )
    keepalive: bool = Field(default=True, description="False where each request has a connection of its own")
    is_sliced: bool = Field(default=True, description="False where servers work while they have no load")
    slice_s: float = Field(default=0.25, description="length of the slices of load")
    quota: float | None = Field(
        default=None, description="CPUs that a server may use, where the load tool would otherwise be the limit"
    )


class BisectionRecord(Frozen):
    """A search: what is searched, how each commit is built, started and loaded, and the steps so far."""

    bisection_id: RunId
    started_at: AwareDatetime
    repository: str
    good: Commit
    commits: tuple[Commit, ...] = Field(description="after the good end, oldest first; the last is the bad end")
    metric: str
    build: str
    run: str
    options: SearchOptions
    end: SearchStep | None = Field(
        default=None, description="comparison of the bad end with the good end; None: not yet made"
    )
    steps: tuple[SearchStep, ...] = ()

    @property
    def suspects(self) -> tuple[Commit, ...]:
        """Commits of which one is the first bad one: those after the last good commit, up to the first bad one."""
        first, last = self._bounds
        return self.commits[first : last + 1]

    @property
    def next_commit(self) -> str | None:
        """The commit to compare next: the untested one nearest to the middle of the suspects.

        None before the comparison of the bad end, and at the end of the search.
        """
        if self.end is None or self.end.judgement != "bad":
            return None
        first, last = self._bounds
        middle = (first + last - 1) / 2
        skipped = {step.commit for step in self.steps if step.judgement == "skipped"}
        untested = [i for i in range(first, last) if self.commits[i].commit not in skipped]
        return self.commits[min(untested, key=lambda i: (abs(i - middle), i))].commit if untested else None

    @property
    def _bounds(self) -> tuple[int, int]:
        judged = {step.commit: step.judgement for step in self.steps}
        bad = [i for i, each in enumerate(self.commits) if judged.get(each.commit) == "bad"]
        last = min(bad, default=len(self.commits) - 1)
        good = [i for i in range(last) if judged.get(self.commits[i].commit) == "good"]
        return max(good, default=-1) + 1, last


FOLDER = "bisections"
_ID: TypeAdapter[str] = TypeAdapter(RunId)


def save_bisection(store: Path, record: BisectionRecord) -> None:
    """Write the record of a search, in place of an earlier state of it. Raises OSError."""
    make_folders(store / FOLDER)
    write_atomically(_file(store, record.bisection_id), record.model_dump_json(indent=2).encode(), PRIVATE)


def read_bisection(store: Path, name: str) -> BisectionRecord:
    """Return the search of this id, or the newest one for `latest`. Raises InputError."""
    names = sorted(file.stem for file in (store / FOLDER).glob("*.json"))
    if name == "latest" and names:
        name = names[-1]
    if name not in names:
        raise InputError(f"no bisection {name!r}", where=str(store), why=f"there are: {', '.join(names) or 'none'}")
    path = _file(store, _ID.validate_python(name))
    try:
        return BisectionRecord.model_validate_json(read_regular(path))
    except OSError as error:
        raise InputError("cannot read the record of the bisection", where=str(path), why=error.strerror) from None
    except ValidationError as error:
        raise InputError(
            "the record of the bisection is damaged", where=str(path), why=first_fault(error, BisectionRecord)
        ) from None


def _file(store: Path, bisection_id: str) -> Path:
    return store / FOLDER / f"{bisection_id}.json"
