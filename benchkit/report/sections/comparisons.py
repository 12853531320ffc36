"""Sections on comparisons: claims, and ratios to the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from benchkit import units
from benchkit.comparison.claims import ClaimResult
from benchkit.comparison.compare import RunComparison
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.texts import outcome, p_value
from benchkit.models.metrics import metric_named
from benchkit.report.sections.blocks import Block, Bullets, ReportInput, Section, TableBlock, Text, heading, note
from benchkit.report.summary import cell_names
from benchkit.report.tables import Entry, Table, named, number, prose, table
from benchkit.safe_text import clean
from benchkit.stats.samples import describe_exclusions


def _claims(report: ReportInput) -> Iterator[Block]:
    claims = report.run.claims
    if claims:
        counts = Counter(claim.state for claim in claims)
        states = ", ".join(f"{n} {state}" for state, n in counts.items())
        yield Text(f"Of {units.counted(len(claims), 'claim')}: {states}.")
        rows = [_claim_row(place, claim) for place, claim in enumerate(claims, start=1)]
        yield TableBlock(table("claims", "Every claim with its expectation and result", rows))
        notes = dict.fromkeys(clean(each) for claim in claims for ratio in claim.ratios for each in ratio.notes)
        if notes:
            yield Bullets([*notes])
        yield note(
            "A claim is a ratio of two cells. It holds if the whole interval of the ratio lies in the expected range, and "
            "is refuted if the whole interval lies outside. Results are adjusted for the number of claims (Holm). The "
            "study used other hosts: a refuted claim may have been true on them."
        )


CLAIMS = Section("claims", "Claims: published and measured", _claims)


def _claim_row(place: int, claim: ClaimResult) -> dict[str, Entry]:
    (measured,) = [ratio.ratio for ratio in claim.ratios] if len(claim.ratios) == 1 else [None]
    return {
        "No.": named(str(place), float(place)),
        "Claim": prose(clean(claim.text)),
        "Whose": Entry(claim.whose),
        "Figure": Entry(metric_named(claim.metric).title),
        "Expected": Entry(claim.expectation),
        "Published": number(claim.published, "{:g}".format),
        "Measured": number(measured, "{:.3g}".format),
        "Result": Entry(claim.state),
        "Reason": prose(clean(claim.reason)),
    }


def _ratios(report: ReportInput) -> Iterator[Block]:
    """Yield a table for each metric; its rows refer by number to the notes in a common list below."""
    comparisons = report.run.comparisons
    if not comparisons:
        return
    comparison_notes = dict.fromkeys(clean(text) for each in comparisons for text in each.notes)
    if comparison_notes:
        yield Bullets([*comparison_notes])
    names = cell_names(report.run)
    notes = list(dict.fromkeys(text for each in comparisons for ratio in each.ratios for text in _ratio_notes(ratio)))
    for each in comparisons:
        yield heading(metric_named(each.metrics[0]).title)
        yield TableBlock(_ratio_table(each, names, notes))
    if notes:
        yield heading("Notes of these tables")
        yield Bullets(notes, "numbered")
    yield note(
        "Ratios are geometric means over the blocks that have both cells. The "
        f"{comparisons[0].ratios[0].confidence:.0%} intervals are Student's t on their logarithms, for each ratio alone. In "
        f"each table {comparisons[0].decides}. With enough blocks p is that of the sign-flip test, adjusted for the number "
        "of comparisons."
    )


RATIOS = Section("ratios", "Ratios to the baseline", _ratios)


def _ratio_table(comparison: RunComparison, names: Mapping[str, str], notes: Sequence[str]) -> Table:
    (name,) = comparison.metrics
    metric = metric_named(name)
    return table(
        f"ratios-{name}",
        f"{metric.title}: cells relative to their baseline",
        [_ratio_row(ratio, names, notes) for ratio in comparison.ratios],
        units={"Baseline value": metric.unit, "Value": metric.unit},
    )


def _ratio_notes(ratio: Ratio) -> list[str]:
    texts = [ratio.reason or describe_exclusions(ratio.exclusions), *ratio.notes]
    return [clean(text) for text in texts if text]


def _ratio_row(ratio: Ratio, names: Mapping[str, str], notes: Sequence[str]) -> dict[str, Entry]:
    shown = metric_named(ratio.metric).format
    return {
        "Cell": named(names[ratio.cell_id]),
        "Relative to": Entry(names[ratio.baseline]),
        "Baseline value": number(ratio.baseline_value, shown),
        "Value": number(ratio.value, shown),
        "Ratio": number(ratio.ratio, "{:.3f}".format),
        "Interval from": number(ratio.low, "{:.3f}".format),
        "Interval to": number(ratio.high, "{:.3f}".format),
        "p": Entry(p_value(ratio), ratio.p_holm, "number"),
        "Blocks": number(ratio.blocks, units.count),
        "Difference": Entry(outcome(ratio, brief=True)),
        "Notes": Entry(", ".join(str(notes.index(text) + 1) for text in _ratio_notes(ratio))),
    }
