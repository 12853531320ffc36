"""The loop of a search for the commit that made a server slower, to be read from top to bottom.

How a commit is built, started and compared is given to it, so that the loop itself is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchkit.comparison.ratio import Ratio
from benchkit.errors import BenchkitError
from benchkit.models.design import ALPHA_PER_LOOK
from benchkit.plugins.bisect.record import BisectionRecord, Judgement, Step
from benchkit.plugins.bisect.search import classify, halfway, is_shown_worse, next_commit, step_error_rate


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


Save = Callable[[BisectionRecord], None]
"""Function that stores the search, and reports its last step."""


def continue_search(record: BisectionRecord, compare: Compare, save: Save) -> BisectionRecord:
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


def _judge_end(record: BisectionRecord, compare: Compare) -> Step:
    """Compare the bad end, and judge it as bad if it is shown to be worse. Raises BenchkitError without a ratio."""
    bad = record.commits[-1]
    found = compare(bad.commit, threshold=None, judged=[record.good.commit])
    if found.same_as is not None:
        return Step(commit=bad.commit, judgement="good", reason=_same_build(found.same_as))
    ratio = found.ratio
    if ratio is None or ratio.ratio is None:
        why = found.reason if ratio is None else ratio.reason
        raise BenchkitError("the bad end cannot be compared with the good end", where=bad.commit[:12], why=why)
    judgement: Judgement = "bad" if is_shown_worse(ratio, ALPHA_PER_LOOK) else "good"
    return _step(bad.commit, found, ratio, ALPHA_PER_LOOK).model_copy(update={"judgement": judgement})


def _judge(commit: str, record: BisectionRecord, compare: Compare) -> Step:
    """Compare a commit, and judge on which side of the threshold it is; without a ratio it is skipped."""
    end = record.end
    if end is None or end.ratio is None:
        raise ValueError("a bad end that is shown to be worse has a ratio")
    known = {
        record.good.commit: Step(commit=record.good.commit, judgement="good"),
        **{step.commit: step for step in (end, *record.steps) if step.judgement != "skipped"},
    }
    threshold, error_rate = halfway(end.ratio), step_error_rate(len(record.commits))
    found = compare(commit, threshold=threshold, judged=list(known))
    if found.same_as is not None:
        equal = known[found.same_as]
        reason = _same_build(found.same_as)
        return Step(commit=commit, judgement=equal.judgement, is_decided=equal.is_decided, reason=reason)
    ratio = found.ratio
    judged = None if ratio is None else classify(ratio, threshold, error_rate)
    if ratio is None or judged is None:
        why = found.reason if ratio is None else ratio.reason
        return Step(commit=commit, judgement="skipped", run_id=found.run_id, reason=why)
    judgement, is_decided = judged
    step = _step(commit, found, ratio, error_rate)
    return step.model_copy(update={"judgement": judgement, "is_decided": is_decided})


def _step(commit: str, found: Compared, ratio: Ratio, error_rate: float) -> Step:
    """Return the step of a comparison, not yet judged."""
    low, high = ratio.interval(error_rate)
    has_interval = ratio.log_error is not None
    return Step(
        commit=commit,
        judgement="good",
        run_id=found.run_id,
        ratio=ratio.ratio,
        low=low if has_interval else None,
        high=high if has_interval else None,
        blocks=ratio.blocks,
        remarks=ratio.remarks,
    )


def _same_build(commit: str) -> str:
    return f"its build output is that of {commit[:12]}, byte for byte"
