"""Texts of a comparison: those that all outputs share, and Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from benchkit import units
from benchkit.comparison.claims import ClaimResult
from benchkit.comparison.compare import RunComparison
from benchkit.comparison.ratios import Ratio
from benchkit.models.metrics import metric_named
from benchkit.stats.samples import describe_exclusions

NOT_USABLE = "measured, not usable"
"""Mark of a ratio without usable trials."""

_SPECIAL = re.compile(r"([\\`*_\[\]|~]|^[-+#>]|(?<=^[0-9])[.)])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def headline(comparison: RunComparison) -> str:
    """Return the result in one line: the gate's verdict, or the number of differences that are shown."""
    if comparison.gate is not None:
        return f"benchkit: {comparison.gate.verdict}"
    compared = [ratio for ratio in comparison.ratios if not ratio.control]
    shown = sum(ratio.is_shown for ratio in compared)
    return f"benchkit: {shown} of {units.counted(len(compared), 'comparison')} show a difference"


def value_titles(comparison: RunComparison) -> tuple[str, str]:
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
    """Return the outcome of a ratio, such as `lower (worse)`, with excluded trials; unless `brief`, with reasons."""
    if ratio.outcome == "undecided":
        mark = NOT_USABLE if ratio.is_unusable else "undecided"
        return mark if brief or not ratio.reason else f"{mark}: {ratio.reason}"
    shown = f"{ratio.outcome} ({ratio.worth})" if ratio.worth else ratio.outcome
    kind = "control" if ratio.control else ""
    exclusions = describe_exclusions(ratio.exclusions)
    return "; ".join(part for part in (shown, kind, exclusions.partition(":")[0] if brief else exclusions) if part)


def describe_baseline(ratio: Ratio, comparison: RunComparison) -> str:
    """Return the baseline of the ratio; between runs the first run."""
    if comparison.mode == "cells":
        return ratio.baseline
    before = comparison.runs[0].run_id
    return f"{before}, relative to {ratio.relative_to}" if ratio.relative_to else before


def describe_runs(comparison: RunComparison) -> str:
    """Return scenario and runs of a comparison in one line."""
    first, last = comparison.runs[0], comparison.runs[-1]
    runs = last.run_id if comparison.mode == "cells" else f"{last.run_id} over {first.run_id}"
    return f"{last.scenario} at {last.scale} scale, {runs}"


def markdown(comparison: RunComparison) -> str:
    """Return the comparison in GitHub's Markdown: a heading with the result, the answer, notes, and tables."""
    lines = [f"### {markdown_text(headline(comparison))}", ""]
    if comparison.answer is not None:
        lines += [f"**{markdown_text(' '.join(comparison.answer.sentences))}**", ""]
        lines += [markdown_text(comparison.answer.trust_sentence), ""]
    lines += [f"{markdown_text(describe_runs(comparison))}.", ""]
    for note in comparison.notes:
        lines += [f"> {markdown_text(note)}", ""]
    if comparison.ratios:
        lines += [*_table(comparison), ""]
        lines.append(f"Intervals are at {comparison.ratios[0].confidence:.0%}; {comparison.decides}.")
    if comparison.claims:
        lines += ["", *_claims(comparison.claims)]
    return "\n".join(lines).rstrip() + "\n"


def markdown_text(plain: str) -> str:
    """Escape text so that Markdown, and HTML within it, shows it unchanged: no markup, no link, no mention."""
    one_line = _CONTROL.sub(" ", plain)
    escaped = _SPECIAL.sub(r"\\\1", one_line).replace("&", "&amp;").replace("<", "&lt;")
    return escaped.replace("@", "@<!-- -->").replace("://", ":<!-- -->//")


def markdown_code(plain: str) -> str:
    """Return a name as code within a table, with escaped bars."""
    one_line = _CONTROL.sub(" ", plain).replace("|", "\\|")
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", one_line)), default=0))
    pad = " " if one_line.startswith("`") or one_line.endswith("`") else ""
    return f"{ticks}{pad}{one_line}{pad}{ticks}"


def _table(comparison: RunComparison) -> Iterator[str]:
    one, other = value_titles(comparison)
    heads = ["cell", "metric", one, other, "ratio", "interval", "p", "difference"]
    rules = [*["---"] * 2, *["---:"] * 5, "---"]
    gate = comparison.gate
    if gate is None:
        yield from map(_row, (heads, rules, *map(_cells, comparison.ratios)))
        return
    yield from map(_row, ([*heads, "gate"], [*rules, "---"]))
    verdicts = {(line.metric, line.cell_id, line.baseline): line.verdict for line in gate.lines}
    for ratio in comparison.ratios:
        verdict = verdicts.get((ratio.metric, ratio.cell_id, ratio.baseline), "")
        yield _row([*_cells(ratio), "**regressed**" if verdict == "regressed" else verdict])


def _claims(claims: Sequence[ClaimResult]) -> Iterator[str]:
    yield _row(["claim", "published", "measured here", ""])
    yield _row(["---", "---:", "---", "---"])
    for claim in claims:
        published = "" if claim.published is None else f"{claim.published:g}"
        measured = "; ".join((claim.reason, *claim.notes))
        yield _row([markdown_text(claim.text), published, markdown_text(measured), f"**{claim.state}**"])


def _cells(ratio: Ratio) -> list[str]:
    metric = metric_named(ratio.metric)
    shown = units.ratio if ratio.relative_to else metric.format
    return [
        markdown_code(ratio.cell_id),
        markdown_text(metric.title),
        shown(ratio.baseline_value),
        shown(ratio.value),
        units.ABSENT if ratio.ratio is None else f"{ratio.ratio:.3f}",
        interval(ratio),
        p_value(ratio),
        markdown_text("; ".join((outcome(ratio), *ratio.notes))),
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
