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


def count_steps(commits: int) -> int:
    """Return the number of comparisons of a search without skipped commits, the bad end's included."""
    return 1 + math.ceil(math.log2(max(commits, 1)))


def step_error_rate(commits: int) -> float:
    """Return the error rate of each step that keeps `ERROR_RATE` over a search among this number of commits."""
    return ERROR_RATE / count_steps(commits)


def halfway(change: float) -> float:
    """Return the threshold between no change and a change, both as ratios: their geometric mean."""
    return math.sqrt(change)


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


_NOT_SLOWER: Mapping[StepJudgement, str] = {
    "good": "No slowdown is shown between the good and the bad end.",
    "undecided": (
        "Whether the bad end is slower is undecided: its interval is wider than `--precision`. "
        "A longer `--duration` narrows it."
    ),
}


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
    is_slower, names = end.judgement == "bad", {commit.commit: commit.subject for commit in record.commits}
    skipped = tuple(step for step in record.steps if step.judgement == "skipped")
    undecided = tuple(step for step in record.steps if step.judgement != "skipped" and not step.is_decided)
    condition = ", if the undecided steps are right" if undecided else ""
    return BisectionAnswer(
        sentences=(
            _suspects_sentence(record) if is_slower else _NOT_SLOWER[end.judgement],
            _end_sentence(record, end),
            *(f"Undecided, judged by its point alone: {_shown(step.commit, names)}." for step in undecided),
            *(f"Skipped: {_shown(step.commit, names)}: {step.reason}." for step in skipped),
            *(f"{_shown(step.commit, names)}: {note}" for step in (end, *record.steps) for note in step.notes),
            f"The error rate of the whole search is at most {ERROR_RATE:.0%}{condition}.",
        ),
        is_slowdown_shown=is_slower,
        first_bad=record.suspects if is_slower else (),
        ratio=end.ratio,
        low=end.low,
        high=end.high,
        undecided=undecided,
        skipped=skipped,
        error_rate=ERROR_RATE,
    )


def describe_step(step: SearchStep) -> str:
    """Return ratio, interval and judgement of a step in a few words; the reason of one without a ratio."""
    is_by_point = not step.is_decided and step.judgement != "undecided"
    judgement = f"{step.judgement} by its point alone (undecided)" if is_by_point else step.judgement
    if step.ratio is None:
        return f"{judgement}: {step.reason}"
    interval = "" if step.low is None or step.high is None else f" [{units.ratio(step.low)}, {units.ratio(step.high)}]"
    return f"ratio {units.ratio(step.ratio)}{interval}, {judgement}"


def _suspects_sentence(record: BisectionRecord) -> str:
    shown = [f"{each.commit[:12]} ({each.subject})" for each in record.suspects]
    if len(shown) == 1:
        return f"{shown[0]} is the first bad commit."
    return f"The first bad commit is one of {len(shown)}, of which the others could not be tested: {', '.join(shown)}."


def _end_sentence(record: BisectionRecord, end: SearchStep) -> str:
    if end.ratio is None:
        return f"The bad end needs no comparison: {end.reason}."
    title = metric_named(record.metric).title
    interval = units.interval(end.low, end.high, units.ratio)
    return (
        f"The bad end has {units.ratio(end.ratio)} times the {title} of the good end{interval} ({end.blocks} blocks)."
    )


def _shown(commit: str, names: Mapping[str, str]) -> str:
    return f"{commit[:12]} ({names[commit]})"


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


SaveSearch = Callable[[BisectionRecord], None]
"""Function that stores the search, and reports its last step."""


def continue_search(record: BisectionRecord, compare: Compare, save: SaveSearch) -> BisectionRecord:
    """Run the remaining steps of a search, and return its record, which is saved after each step.

    Raises BenchkitError where the bad end cannot be compared; what `compare` raises passes through.
    """
    if record.end is None:
        record = record.model_copy(update={"end": _judge_end(record, compare)})
        save(record)
    while (commit := record.next_commit) is not None:
        record = record.model_copy(update={"steps": (*record.steps, _judge(commit, record, compare))})
        save(record)
    return record


def _judge_end(record: BisectionRecord, compare: Compare) -> SearchStep:
    """Compare the bad end, and judge it: bad if shown to be worse, good if shown to be better or within the precision.

    Raises BenchkitError without a ratio.
    """
    bad = record.commits[-1]
    found = compare(bad.commit, threshold=None, judged=[record.good.commit])
    if found.same_as is not None:
        return SearchStep(commit=bad.commit, judgement="good", reason=_same_build(found.same_as))
    ratio = found.ratio
    if ratio is None or ratio.ratio is None:
        why = found.reason if ratio is None else ratio.reason
        raise BenchkitError("the bad end cannot be compared with the good end", where=bad.commit[:12], why=why)
    judged = classify(ratio, 1.0, ALPHA_PER_LOOK)
    if judged is None or not judged[1]:
        low, high = ratio.interval(ALPHA_PER_LOOK)
        is_narrow = high <= low * (1 + record.options.precision) ** 2
        return _step(bad.commit, found, ratio, ALPHA_PER_LOOK, ("good", True) if is_narrow else ("undecided", False))
    return _step(bad.commit, found, ratio, ALPHA_PER_LOOK, judged)


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
    return _step(commit, found, ratio, error_rate, judged)


def _step(
    commit: str, found: Compared, ratio: Ratio, error_rate: float, judged: tuple[StepJudgement, bool]
) -> SearchStep:
    low, high = ratio.interval(error_rate)
    has_interval = ratio.log_error is not None
    return SearchStep(
        commit=commit,
        judgement=judged[0],
        is_decided=judged[1],
        run_id=found.run_id,
        ratio=ratio.ratio,
        low=low if has_interval else None,
        high=high if has_interval else None,
        blocks=ratio.blocks,
        notes=ratio.notes,
    )


def _same_build(commit: str) -> str:
    return f"its build output is that of {commit[:12]}, byte for byte"
