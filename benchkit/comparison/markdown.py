"""Comparison as Markdown, for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from benchkit import units
from benchkit.comparison.claim_result import ClaimResult
from benchkit.comparison.comparison import Comparison
from benchkit.comparison.ratio import Ratio
from benchkit.comparison.wording import headline, interval, outcome, p_value, value_titles
from benchkit.models.metrics import metric_named

_SPECIAL = re.compile(r"([\\`*_\[\]|~]|^[-+#>]|(?<=^[0-9])[.)])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


def markdown(comparison: Comparison) -> str:
    """Return the comparison in GitHub's Markdown: a heading with the result, the answer, the notices, one table."""
    lines = [f"### {text(headline(comparison))}", ""]
    if comparison.answer is not None:
        lines += [f"**{text(' '.join(comparison.answer.sentences))}**", ""]
        lines += [text(comparison.answer.trust_sentence), ""]
    lines += [f"{_runs(comparison)}.", ""]
    for notice in comparison.notices:
        lines += [f"> {text(notice)}", ""]
    if comparison.ratios:
        lines += [*_table(comparison), ""]
        lines.append(f"Intervals are of {comparison.ratios[0].confidence:.0%}; {comparison.decides}.")
    if comparison.claims:
        lines += ["", *_claims(comparison.claims)]
    return "\n".join(lines).rstrip() + "\n"


def text(plain: str) -> str:
    """Escape text so that Markdown, and HTML within it, shows it unchanged: no markup, no link, no mention."""
    one_line = _CONTROL.sub(" ", plain)
    escaped = _SPECIAL.sub(r"\\\1", one_line).replace("&", "&amp;").replace("<", "&lt;")
    return escaped.replace("@", "@<!-- -->").replace("://", ":<!-- -->//")


def code(plain: str) -> str:
    """Return a name as code within a table.

    A code span has no escapes but that of a table's bar, which a backslash before it would take away: then it is HTML.
    """
    if "\\|" in plain:
        return f"<code>{text(plain)}</code>"
    one_line = _CONTROL.sub(" ", plain).replace("|", "\\|")
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", one_line)), default=0))
    pad = " " if one_line.startswith("`") or one_line.endswith("`") else ""
    return f"{ticks}{pad}{one_line}{pad}{ticks}"


def _runs(comparison: Comparison) -> str:
    names = " → ".join(code(side.run_id) for side in comparison.runs)
    last = comparison.runs[-1]
    return f"{text(last.scenario)} at {last.scale} scale, {names}"


def _table(comparison: Comparison) -> Iterator[str]:
    one, other = value_titles(comparison)
    heads = ["cell", "metric", one, other, "ratio", "interval", "p", "difference"]
    right = [False, False, True, True, True, True, True, False]
    verdicts: Sequence[str] = ()
    if comparison.gate is not None:
        heads.append("gate")
        right.append(False)
        by_ratio = {(line.metric, line.cell_id, line.baseline): line.verdict for line in comparison.gate.lines}
        verdicts = [by_ratio.get((r.metric, r.cell_id, r.baseline), "") for r in comparison.ratios]
    yield _row(heads)
    yield _row(["---:" if number else "---" for number in right])
    for i, ratio in enumerate(comparison.ratios):
        cells = [
            *_cells(ratio),
            *(["**regressed**" if verdicts[i] == "regressed" else verdicts[i]] if verdicts else []),
        ]
        yield _row(cells)


def _claims(claims: Sequence[ClaimResult]) -> Iterator[str]:
    yield _row(["claim", "published", "measured here", ""])
    yield _row(["---", "---:", "---", "---"])
    for claim in claims:
        published = "" if claim.published is None else f"{claim.published:g}"
        measured = "; ".join((claim.reason, *claim.remarks))
        yield _row([text(claim.text), published, text(measured), f"**{claim.state}**"])


def _cells(ratio: Ratio) -> list[str]:
    metric = metric_named(ratio.metric)
    shown = units.ratio if ratio.relative_to else metric.format
    return [
        code(ratio.cell_id),
        text(metric.title),
        shown(ratio.baseline_value),
        shown(ratio.value),
        units.ABSENT if ratio.ratio is None else f"{ratio.ratio:.3f}",
        interval(ratio),
        p_value(ratio),
        text("; ".join((outcome(ratio), *ratio.remarks))),
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
