"""The search for the commit that made a server slower, among noisy measurements. Pure.

Every step compares a commit with the good end, in blocks that have both. It ends when the interval of their ratio lies
on one side of a threshold. The threshold is half-way, on a logarithmic scale, between no change and the change of the
bad end. This is a sequential classification between two known means (Wald, Sequential Analysis, 1947, ch. 7), with t
intervals because the noise is not known. The error rate of the search is divided among its steps (Bonferroni), whose
number is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchkit import units
from benchkit.comparison.ratios import Ratio
from benchkit.errors import BenchkitError
from benchkit.models.base import Frozen
from benchkit.models.design import ALPHA_PER_LOOK
from benchkit.models.metrics import metric_named
from benchkit.plugins.bisect.record import BisectionRecord, SearchStep, StepJudgement
from benchkit.services.git_source import Commit

ERROR_RATE = 0.05
"""Probability, at most, that a search names a wrong commit; `make bench` simulates it."""


@dataclass(frozen=True)
class Bisection:
    """State of a search: the commits after the good end, oldest first, the last of them bad, and the steps so far."""

    commits: tuple[str, ...]
    steps: tuple[SearchStep, ...] = ()

    @property
    def suspects(self) -> tuple[str, ...]:
        """Commits of which one is the first bad one: those after the last good commit, up to the first bad one."""
        first, last = self._bounds
        return self.commits[first : last + 1]

    @property
    def next_commit(self) -> str | None:
        """The commit to compare next: the untested one nearest to the middle of the suspects; None at the end."""
        first, last = self._bounds
        middle = (first + last - 1) / 2
        skipped = {step.commit for step in self.steps if step.judgement == "skipped"}
        untested = [i for i in range(first, last) if self.commits[i] not in skipped]
        return self.commits[min(untested, key=lambda i: (abs(i - middle), i))] if untested else None

    @property
    def _bounds(self) -> tuple[int, int]:
        judged = {step.commit: step.judgement for step in self.steps}
        bad = [i for i, commit in enumerate(self.commits) if judged.get(commit) == "bad"]
        last = min(bad, default=len(self.commits) - 1)
        good = [i for i in range(last) if judged.get(self.commits[i]) == "good"]
        return max(good, default=-1) + 1, last


def count_steps(commits: int) -> int:
    """Return the number of comparisons of a search without skipped commits, the bad end's included."""
    return 1 + math.ceil(math.log2(max(commits, 1)))


def step_error_rate(commits: int) -> float:
    """Return the error rate of each step that keeps `ERROR_RATE` over a search among this number of commits."""
    return ERROR_RATE / count_steps(commits)


def halfway(change: float) -> float:
    """Return the threshold between no change and a change, both as ratios: their geometric mean."""
    return math.sqrt(change)


def is_worse(ratio: float, metric: str, than: float = 1.0) -> bool:
    """Return True if a ratio to the good end is on the worse side of another ratio, in this metric."""
    return ratio < than if metric_named(metric).better == "higher" else ratio > than


def is_shown_worse(ratio: Ratio, error_rate: float) -> bool:
    """Return True if the whole interval of the ratio is on the worse side of 1."""
    low, high = ratio.interval(error_rate)
    nearest = high if metric_named(ratio.metric).better == "higher" else low
    return math.isfinite(nearest) and nearest > 0 and is_worse(nearest, ratio.metric)


def classify(ratio: Ratio, threshold: float, error_rate: float) -> tuple[StepJudgement, bool] | None:
    """Return the judgement of a commit by its ratio to the good end, and True if it is decided; None without a ratio.

    It is decided once the interval with this error rate lies on one side of the threshold.
    """
    if ratio.ratio is None:
        return None
    low, high = ratio.interval(error_rate)
    judgement: StepJudgement = "bad" if is_worse(ratio.ratio, ratio.metric, threshold) else "good"
    return judgement, not low <= threshold <= high


def describe(search: Bisection, names: Mapping[str, str]) -> str:
    """Return the result of a finished search in one sentence; `names` are the commits' subjects."""
    suspects = search.suspects
    shown = [f"{commit[:12]} ({names[commit]})" for commit in suspects]
    if len(suspects) == 1:
        return f"{shown[0]} is the first bad commit."
    return (
        f"The first bad commit is one of {len(suspects)}, of which the others could not be tested: {', '.join(shown)}."
    )


def search_of(record: BisectionRecord) -> Bisection:
    """Return the state of a stored search."""
    return Bisection(tuple(commit.commit for commit in record.commits), record.steps)


def next_commit(record: BisectionRecord) -> str | None:
    """Return the commit to compare next, once the bad end is compared; None at the end of the search."""
    if record.end is None or record.end.judgement == "good":
        return None
    return search_of(record).next_commit


def undecided_steps(steps: Sequence[SearchStep]) -> tuple[SearchStep, ...]:
    """Return the steps whose judgement is by the point of the ratio alone."""
    return tuple(step for step in steps if step.judgement != "skipped" and not step.is_decided)


class BisectionAnswer(Frozen):
    """The result of a finished search."""

    sentences: tuple[str, ...]
    is_slowdown_shown: bool
    first_bad: tuple[Commit, ...]
    """The first bad commit; several where commits before it could not be tested; none without a slowdown."""
    ratio: float | None
    """The bad end relative to the good end, with its interval."""
    low: float | None
    high: float | None
    undecided: tuple[SearchStep, ...]
    skipped: tuple[SearchStep, ...]
    error_rate: float
    """Probability, at most, of a wrong result, if no step is undecided."""


def answer_of(record: BisectionRecord) -> BisectionAnswer:
    """Return the result of a finished search. Raises ValueError for one without its first comparison."""
    end = record.end
    if end is None:
        raise ValueError("the bad end is not compared yet")
    is_slower, search = end.judgement == "bad", search_of(record)
    names = {commit.commit: commit.subject for commit in record.commits}
    suspects = search.suspects if is_slower else ()
    skipped = tuple(step for step in record.steps if step.judgement == "skipped")
    undecided = undecided_steps(record.steps)
    condition = ", if the undecided steps are right" if undecided else ""
    return BisectionAnswer(
        sentences=(
            describe(search, names) if is_slower else "No slowdown is shown between the good and the bad end.",
            _end_sentence(record, end),
            *(f"Undecided, judged by its point alone: {_shown(step, names)}." for step in undecided),
            *(f"Skipped: {_shown(step, names)}: {step.reason}." for step in skipped),
            *(f"{_shown(step, names)}: {note}" for step in (end, *record.steps) for note in step.notes),
            f"The error rate of the whole search is at most {ERROR_RATE:.0%}{condition}.",
        ),
        is_slowdown_shown=is_slower,
        first_bad=tuple(commit for commit in record.commits if commit.commit in suspects),
        ratio=end.ratio,
        low=end.low,
        high=end.high,
        undecided=undecided,
        skipped=skipped,
        error_rate=ERROR_RATE,
    )


def describe_step(step: SearchStep) -> str:
    """Return ratio, interval and judgement of a step in a few words; the reason of one without a ratio."""
    judgement = step.judgement if step.is_decided else f"{step.judgement} by its point alone (undecided)"
    if step.ratio is None:
        return f"{judgement}: {step.reason}"
    interval = "" if step.low is None or step.high is None else f" [{units.ratio(step.low)}, {units.ratio(step.high)}]"
    return f"ratio {units.ratio(step.ratio)}{interval}, {judgement}"


def _end_sentence(record: BisectionRecord, end: SearchStep) -> str:
    if end.ratio is None:
        return f"The bad end needs no comparison: {end.reason}."
    title = metric_named(record.metric).title
    interval = units.interval(end.low, end.high, units.ratio)
    return (
        f"The bad end has {units.ratio(end.ratio)} times the {title} of the good end{interval} ({end.blocks} blocks)."
    )


def _shown(step: SearchStep, names: Mapping[str, str]) -> str:
    return f"{step.commit[:12]} ({names[step.commit]})"


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
        """Return the result; the interval must exclude the threshold, where there is one, or the time be spent.

        `judged` are the commits whose judgement holds for equal ones, the good end first. Raises BenchkitError where
        the failure is not the commit's.
        """


SaveSearch = Callable[[BisectionRecord], None]
"""Function that stores the search, and reports its last step."""


def continue_search(record: BisectionRecord, compare: Compare, save: SaveSearch) -> BisectionRecord:
    """Run the steps of a search that are left, and return its record; it is saved after each step.

    Raises BenchkitError where the bad end cannot be compared; what `compare` raises passes through.
    """
    if record.end is None:
        record = record.model_copy(update={"end": _judge_end(record, compare)})
        save(record)
    while (commit := next_commit(record)) is not None:
        record = record.model_copy(update={"steps": (*record.steps, _judge(commit, record, compare))})
        save(record)
    return record


def _judge_end(record: BisectionRecord, compare: Compare) -> SearchStep:
    """Compare the bad end, and judge it as bad if it is shown to be worse. Raises BenchkitError without a ratio."""
    bad = record.commits[-1]
    found = compare(bad.commit, threshold=None, judged=[record.good.commit])
    if found.same_as is not None:
        return SearchStep(commit=bad.commit, judgement="good", reason=_same_build(found.same_as))
    ratio = found.ratio
    if ratio is None or ratio.ratio is None:
        why = found.reason if ratio is None else ratio.reason
        raise BenchkitError("the bad end cannot be compared with the good end", where=bad.commit[:12], why=why)
    judgement: StepJudgement = "bad" if is_shown_worse(ratio, ALPHA_PER_LOOK) else "good"
    return _step(bad.commit, found, ratio, ALPHA_PER_LOOK).model_copy(update={"judgement": judgement})


def _judge(commit: str, record: BisectionRecord, compare: Compare) -> SearchStep:
    """Compare a commit, and judge on which side of the threshold it is; without a ratio it is skipped."""
    end = record.end
    if end is None or end.ratio is None:
        raise ValueError("a bad end that is shown to be worse has a ratio")
    known = {
        record.good.commit: SearchStep(commit=record.good.commit, judgement="good"),
        **{step.commit: step for step in (end, *record.steps) if step.judgement != "skipped"},
    }
    threshold, error_rate = halfway(end.ratio), step_error_rate(len(record.commits))
    found = compare(commit, threshold=threshold, judged=list(known))
    if found.same_as is not None:
        equal = known[found.same_as]
        reason = _same_build(found.same_as)
        return SearchStep(commit=commit, judgement=equal.judgement, is_decided=equal.is_decided, reason=reason)
    ratio = found.ratio
    judged = None if ratio is None else classify(ratio, threshold, error_rate)
    if ratio is None or judged is None:
        why = found.reason if ratio is None else ratio.reason
        return SearchStep(commit=commit, judgement="skipped", run_id=found.run_id, reason=why)
    judgement, is_decided = judged
    step = _step(commit, found, ratio, error_rate)
    return step.model_copy(update={"judgement": judgement, "is_decided": is_decided})


def _step(commit: str, found: Compared, ratio: Ratio, error_rate: float) -> SearchStep:
    low, high = ratio.interval(error_rate)
    has_interval = ratio.log_error is not None
    return SearchStep(
        commit=commit,
        judgement="good",
        run_id=found.run_id,
        ratio=ratio.ratio,
        low=low if has_interval else None,
        high=high if has_interval else None,
        blocks=ratio.blocks,
        notes=ratio.notes,
    )


def _same_build(commit: str) -> str:
    return f"its build output is that of {commit[:12]}, byte for byte"
