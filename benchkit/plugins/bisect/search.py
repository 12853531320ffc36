"""The search for the commit that made a server slower, among noisy measurements. Pure.

Every step compares a commit with the good end, in blocks that have both. It ends when the interval of their ratio lies
on one side of a threshold. The threshold is half-way, on a logarithmic scale, between no change and the change of the
bad end. This is a sequential classification between two known means (Wald, Sequential Analysis, 1947, ch. 7), with t
intervals because the noise is not known. The error rate of the search is divided among its steps (Bonferroni), whose
number is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import Field

from benchkit import units
from benchkit.comparison.ratios import Ratio
from benchkit.errors import BenchkitError
from benchkit.models.base import Frozen
from benchkit.models.design import ALPHA_PER_LOOK
from benchkit.models.metrics import metric_named
from benchkit.models.run import RunId
from benchkit.scenario.versus import ServerComparison
from benchkit.services.git_source import Commit

ERROR_RATE = 0.05
"""Probability, at most, that a search names a wrong commit; `make bench` simulates it."""

StepJudgement = Literal["good", "bad", "undecided", "skipped"]
"""Only the bad end can be undecided: for other commits, the ratio itself decides where the interval does not."""


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

    def __str__(self) -> str:
        """Return ratio, interval and judgement in a few words; the reason of a step without a ratio."""
        is_by_point = not self.is_decided and self.judgement != "undecided"
        judgement = f"{self.judgement} by its point alone (undecided)" if is_by_point else self.judgement
        if self.ratio is None:
            return f"{judgement}: {self.reason}"
        interval = units.interval(self.low, self.high, units.ratio)
        return f"ratio {units.ratio(self.ratio)}{interval}, {judgement}"


class Search(Frozen):
    """A search: what is searched, how each commit is built, started and loaded, and the steps so far."""

    repository: str
    good: Commit
    commits: tuple[Commit, ...] = Field(description="after the good end, oldest first; the last is the bad end")
    metric: str
    build: str
    run: str
    comparison: ServerComparison = Field(description="load and duration of each step")
    settings: tuple[str, ...] = Field(default=(), description="overrides of scenario fields by `--set`")
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

    def titled(self, commit: str) -> str:
        """Return the beginning of a commit with its subject."""
        subject = next(each.subject for each in self.commits if each.commit == commit)
        return f"{commit[:12]} ({subject})"


@dataclass(frozen=True)
class Compared:
    """The result of comparing a commit with the good end."""

    ratio: Ratio | None = None
    run_id: str | None = None
    reason: str | None = None
    """Reason why there is no ratio: the commit does not build, or does not start."""
    same_as: str | None = None
    """Commit with the same build output, byte for byte, which needs no comparison; None: there is none."""


class Compare(Protocol):
    """Function that builds a commit, starts it and compares it with the good end."""

    def __call__(self, commit: str, *, threshold: float | None, judged: Sequence[str]) -> Compared:
        """Compare until the interval excludes `threshold` (None: until it is narrow), or the time is spent.

        A commit with the same build output as one of `judged` (the good end first) is not compared: `same_as` names
        that one, whose judgement holds for both. Raises BenchkitError where the failure is not the commit's.
        """


def count_steps(commits: int) -> int:
    """Return the number of comparisons of a search without skipped commits, the bad end's included."""
    return 1 + math.ceil(math.log2(max(commits, 1)))


def step_error_rate(commits: int) -> float:
    """Return the error rate of each step that keeps `ERROR_RATE` over a search among this number of commits."""
    return ERROR_RATE / count_steps(commits)


def classify(ratio: Ratio, threshold: float, error_rate: float) -> tuple[StepJudgement, bool] | None:
    """Return the judgement of a commit by its ratio to the good end, and True if it is decided; None without a ratio.

    It is decided once the interval with this error rate lies on one side of the threshold.
    """
    if ratio.ratio is None:
        return None
    low, high = ratio.interval(error_rate)
    is_higher_better = metric_named(ratio.metric).better == "higher"
    is_worse = ratio.ratio < threshold if is_higher_better else ratio.ratio > threshold
    return "bad" if is_worse else "good", not low <= threshold <= high


def run_search(search: Search, compare: Compare, show: Callable[[Search], None]) -> Search:
    """Run the steps of a search, and return it at its end; `show` gets it after each step.

    Raises BenchkitError where the bad end cannot be compared; what `compare` raises passes through.
    """
    search = search.model_copy(update={"end": _judge_end(search, compare)})
    show(search)
    while (commit := search.next_commit) is not None:
        search = search.model_copy(update={"steps": (*search.steps, _judge(commit, search, compare))})
        show(search)
    return search


def _judge_end(search: Search, compare: Compare) -> SearchStep:
    """Compare the bad end, and judge it: bad if shown to be worse, good if shown to be better or within the precision.

    Raises BenchkitError without a ratio.
    """
    bad = search.commits[-1].commit
    found = compare(bad, threshold=None, judged=[search.good.commit])
    if found.same_as is not None:
        return SearchStep(commit=bad, judgement="good", reason=_same_build(found.same_as))
    judged = None if found.ratio is None else classify(found.ratio, 1.0, ALPHA_PER_LOOK)
    if found.ratio is None or judged is None:
        why = found.reason if found.ratio is None else found.ratio.reason
        raise BenchkitError("the bad end cannot be compared with the good end", where=bad[:12], why=why)
    if not judged[1]:
        low, high = found.ratio.interval(ALPHA_PER_LOOK)
        is_narrow = high <= low * (1 + search.comparison.precision) ** 2
        judged = ("good", True) if is_narrow else ("undecided", False)
    return _step(bad, found, found.ratio, ALPHA_PER_LOOK, judged)


def _judge(commit: str, search: Search, compare: Compare) -> SearchStep:
    """Compare a commit, and judge on which side of the threshold it is; without a ratio it is skipped."""
    end = search.end
    if end is None or end.ratio is None:
        raise ValueError("a bad end that is shown to be worse has a ratio")
    known = {
        search.good.commit: SearchStep(commit=search.good.commit, judgement="good"),
        **{step.commit: step for step in (end, *search.steps) if step.judgement != "skipped"},
    }
    threshold, error_rate = math.sqrt(end.ratio), step_error_rate(len(search.commits))
    found = compare(commit, threshold=threshold, judged=list(known))
    if found.same_as is not None:
        same = known[found.same_as]
        reason = _same_build(found.same_as)
        return SearchStep(commit=commit, judgement=same.judgement, is_decided=same.is_decided, reason=reason)
    judged = None if found.ratio is None else classify(found.ratio, threshold, error_rate)
    if found.ratio is None or judged is None:
        why = found.reason if found.ratio is None else found.ratio.reason
        return SearchStep(commit=commit, judgement="skipped", run_id=found.run_id, reason=why)
    return _step(commit, found, found.ratio, error_rate, judged)


def _step(
    commit: str, found: Compared, ratio: Ratio, error_rate: float, judged: tuple[StepJudgement, bool]
) -> SearchStep:
    low, high = ratio.interval(error_rate) if ratio.log_error is not None else (None, None)
    return SearchStep(
        commit=commit,
        judgement=judged[0],
        is_decided=judged[1],
        run_id=found.run_id,
        ratio=ratio.ratio,
        low=low,
        high=high,
        blocks=ratio.blocks,
        notes=ratio.notes,
    )


def _same_build(commit: str) -> str:
    return f"its build output is that of {commit[:12]}, byte for byte"


class BisectionAnswer(Frozen):
    """The result of a finished search."""

    sentences: tuple[str, ...]
    is_slowdown_shown: bool
    first_bad: tuple[Commit, ...]
    """The first bad commit; several where commits before it could not be tested; none without a slowdown."""
    undecided: tuple[SearchStep, ...]
    skipped: tuple[SearchStep, ...]


def answer_of(search: Search) -> BisectionAnswer:
    """Return the result of a finished search. Raises ValueError for one without its first comparison."""
    end = search.end
    if end is None:
        raise ValueError("the bad end is not compared yet")
    first_bad = search.suspects if end.judgement == "bad" else ()
    skipped = tuple(step for step in search.steps if step.judgement == "skipped")
    undecided = tuple(step for step in search.steps if step.judgement != "skipped" and not step.is_decided)
    condition = ", if the undecided steps are right" if undecided else ""
    return BisectionAnswer(
        sentences=(
            _headline(search, end, first_bad),
            _end_sentence(search, end),
            *(f"Undecided, judged by its point alone: {search.titled(step.commit)}." for step in undecided),
            *(f"Skipped: {search.titled(step.commit)}: {step.reason}." for step in skipped),
            *(f"{search.titled(step.commit)}: {note}" for step in (end, *search.steps) for note in step.notes),
            f"The error rate of the whole search is at most {ERROR_RATE:.0%}{condition}.",
        ),
        is_slowdown_shown=end.judgement == "bad",
        first_bad=first_bad,
        undecided=undecided,
        skipped=skipped,
    )


def _headline(search: Search, end: SearchStep, first_bad: Sequence[Commit]) -> str:
    if end.judgement == "good":
        return "No slowdown is shown between the good and the bad end."
    if end.judgement == "undecided":
        return (
            "Whether the bad end is slower is undecided: its interval is wider than `--precision`. "
            "A longer `--duration` narrows it."
        )
    shown = [search.titled(each.commit) for each in first_bad]
    if len(shown) == 1:
        return f"{shown[0]} is the first bad commit."
    return f"The first bad commit is one of {len(shown)}, of which the others could not be tested: {', '.join(shown)}."


def _end_sentence(search: Search, end: SearchStep) -> str:
    if end.ratio is None:
        return f"The bad end needs no comparison: {end.reason}."
    title = metric_named(search.metric).title
    interval = units.interval(end.low, end.high, units.ratio)
    return (
        f"The bad end has {units.ratio(end.ratio)} times the {title} of the good end{interval} ({end.blocks} blocks)."
    )
