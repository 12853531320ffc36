"""Texts of a comparison that terminal, Markdown and JUnit output share."""

from __future__ import annotations

from benchkit import units
from benchkit.comparison.comparison import Comparison
from benchkit.comparison.ratio import Ratio
from benchkit.stats.samples import describe_exclusions

NOT_USABLE = "measured, not usable"
"""Mark of a ratio without usable trials."""


def headline(comparison: Comparison) -> str:
    """Return the result in one line: the gate's verdict, or the number of differences that are shown."""
    if comparison.gate is not None:
        return f"benchkit: {comparison.gate.verdict}"
    compared = [ratio for ratio in comparison.ratios if not ratio.control]
    shown = sum(ratio.outcome in {"higher", "lower"} for ratio in compared)
    return f"benchkit: {shown} of {units.counted(len(compared), 'comparison')} show a difference"


def value_titles(comparison: Comparison) -> tuple[str, str]:
    """Return the column titles of the two values of a ratio: the baseline's and the cell's."""
    return ("before", "after") if comparison.mode == "runs" else ("baseline", "value")


def interval(ratio: Ratio) -> str:
    """Return the interval as text."""
    return units.ABSENT if ratio.low is None or ratio.high is None else f"{ratio.low:.3f} to {ratio.high:.3f}"


def p_value(ratio: Ratio) -> str:
    """Return the adjusted p that decides, as text."""
    if ratio.p_holm is None:
        return units.ABSENT
    return "< 0.001" if ratio.p_holm < 0.001 else f"{ratio.p_holm:.3f}"  # noqa: PLR2004 - what is not printed as 0.000


def outcome(ratio: Ratio, *, brief: bool = False) -> str:
    """Return the difference that the ratio shows, or the reason why it shows none, unless brief."""
    if ratio.outcome == "undecided":
        mark = NOT_USABLE if ratio.is_unusable else "undecided"
        return mark if brief or not ratio.reason else f"{mark}: {ratio.reason}"
    shown = f"{ratio.outcome} ({ratio.worth})" if ratio.worth else ratio.outcome
    kind = "control" if ratio.control else ""
    out = describe_exclusions(ratio.exclusions)
    return "; ".join(part for part in (shown, kind, out.partition(":")[0] if brief else out) if part)


def describe_baseline(ratio: Ratio, comparison: Comparison) -> str:
    """Return the baseline of the ratio; between runs the first run."""
    if comparison.mode == "cells":
        return ratio.baseline
    before = comparison.runs[0].run_id
    return f"{before}, relative to {ratio.relative_to}" if ratio.relative_to else before


def describe_runs(comparison: Comparison) -> str:
    """Return scenario and runs of a comparison in one line."""
    first, last = comparison.runs[0], comparison.runs[-1]
    runs = last.run_id if comparison.mode == "cells" else f"{last.run_id} over {first.run_id}"
    return f"{last.scenario} at {last.scale} scale, {runs}"
