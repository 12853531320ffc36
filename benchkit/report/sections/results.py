"""Sections with the results: the answer, the cells, the claims, the published figures and the ratios."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from benchkit import units
from benchkit.comparison.answer import Answer
from benchkit.comparison.cell_labels import factors, level_name
from benchkit.comparison.claims import ClaimResult
from benchkit.comparison.classes import ClassResult, class_results
from benchkit.comparison.compare import RunComparison
from benchkit.comparison.published_figures import PublishedComparison, published_figures
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.texts import interval, outcome, p_value
from benchkit.models.metrics import P50, P99, metric_named
from benchkit.report.metric_values import known
from benchkit.report.rendering import Drawing
from benchkit.report.sections.section import ANSWER_FIGURE, ReportInput, Section, TableContent
from benchkit.report.stored_run import StoredRun
from benchkit.report.summary import CellSummary, cell_names, describe_cell, summarise
from benchkit.report.tables import Entry, Table, named, number, prose, table
from benchkit.report.theme import SERIES
from benchkit.safe_text import clean
from benchkit.stats.samples import describe_exclusions
from benchkit.units import ABSENT


@dataclass(frozen=True)
class AnswerContent:
    """The answer, and the forest plot of ratios; None where no ratio has an interval."""

    answer: Answer
    figure: Drawing | None


def build_answer(report: ReportInput) -> AnswerContent:
    """Return the answer of the run."""
    figure = next((drawing for drawing in report.drawings if drawing.figure.name == ANSWER_FIGURE), None)
    return AnswerContent(report.run.answer, figure)


ANSWER = Section("answer", "Answer", "answer.html.j2", build_answer)


_MAX_LISTED = 12
"""Cells up to which all are listed; more are folded behind the highest and the lowest."""


@dataclass(frozen=True)
class CellResult:
    """Result of a cell: label, number of its colour, leading figure and the sentence below it."""

    label: str
    tone: int
    figure: str
    detail: str


@dataclass(frozen=True)
class ResultsContent:
    """The design in a sentence, and the result of each cell; `extremes` are shown if the cells are folded."""

    design: str
    results: tuple[CellResult, ...]
    extremes: tuple[CellResult, ...]
    confidence: str | None


def build_results(report: ReportInput) -> ResultsContent:
    """Return the design and the results."""
    run, cells = report.run, summarise(report.run)
    is_folded = len(cells) > _MAX_LISTED
    return ResultsContent(
        design=_design(run),
        results=tuple(_cell_result(cell, run) for cell in cells),
        extremes=tuple(_cell_result(cell, run) for cell in _extremes(cells)) if is_folded else (),
        confidence=next((f"{cell.ratio.confidence:.0%}" for cell in cells if cell.ratio is not None), None),
    )


RESULTS = Section("results", "Compared cells and results", "results.html.j2", build_results)


def _design(run: StoredRun) -> str:
    """Describe cells, factors, repetitions and load: `2 cells (stack: go, nginx-go) in 5 blocks; 10 trials ended`."""
    levels = "; ".join(f"{name}: {', '.join(values)}" for name, values in factors(run.manifest).items())
    cells = units.counted(len(run.cells), "cell") + (f" ({levels})" if levels else "")
    trials = units.counted(len(run.measured), "trial")
    blocks = units.counted(run.manifest.blocks, "sliced block" if run.measured["slices"].notna().any() else "block")
    return "; ".join(filter(None, (f"{cells} in {blocks}", f"{trials} ended", _load(run.measured)))) + "."


def _load(trials: pd.DataFrame) -> str:
    """Describe the tool and its load, as far as all trials share them."""
    parts = []
    tools = list(dict.fromkeys(map(str, trials["tool"].dropna())))
    if tools:
        parts.append(" and ".join(tools))
    connections = sorted(set(known(trials["connections"])))
    if len(connections) == 1:
        parts.append(units.counted(int(connections[0]), "connection"))
    windows = known(trials["duration_s"])
    if windows:
        parts.append(f"measured for {units.seconds(float(pd.Series(windows).median()))} a trial")
    slices = known(trials["slices"])
    if slices:
        parts.append(
            f"in {units.counted(round(float(pd.Series(slices).median())), 'slice')} in turn with the other cells"
        )
    return ", ".join(parts)


def _cell_result(cell: CellSummary, run: StoredRun) -> CellResult:
    figure, detail = describe_cell(cell, run.labels, run.manifest.blocks)
    return CellResult(cell.cell.label, cell.cell.hue % len(SERIES), figure, detail)


def _extremes(cells: Sequence[CellSummary]) -> list[CellSummary]:
    ranked = sorted(
        (cell for cell in cells if cell.mean_rps is not None and cell.is_usable),
        key=lambda cell: cell.mean_rps or 0,
    )
    return [ranked[-1], ranked[0]] if ranked else []


@dataclass(frozen=True)
class ClaimsContent:
    """Number of claims in each state, the claims, and the notes on their ratios."""

    summary: str
    table: Table
    notes: tuple[str, ...]


def build_claims(report: ReportInput) -> ClaimsContent | None:
    """Return a row for each claim; None if the scenario claims nothing."""
    claims = report.run.claims
    if not claims:
        return None
    counts = Counter(claim.state for claim in claims)
    return ClaimsContent(
        summary=f"Of {units.counted(len(claims), 'claim')}: {', '.join(f'{n} {state}' for state, n in counts.items())}.",
        table=table(
            "claims",
            "Every claim with its expectation and result",
            [_claim_row(number, claim) for number, claim in enumerate(claims, start=1)],
        ),
        notes=tuple(dict.fromkeys(clean(each) for claim in claims for ratio in claim.ratios for each in ratio.notes)),
    )


CLAIMS = Section("claims", "Claims: published and measured", "claims.html.j2", build_claims)


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


@dataclass(frozen=True)
class PublishedContent:
    """The study, the figures, and whether shares of profiles are among them."""

    source: str
    table: Table
    has_shares: bool


def build_published(report: ReportInput) -> PublishedContent | None:
    """Return a row for each published figure; None if the scenario has none."""
    run = report.run
    comparisons = published_figures(run.data, run.service_profiles)
    if not comparisons:
        return None
    return PublishedContent(
        source=clean(str(run.manifest.scenario.get("source") or "")),
        table=table(
            "published",
            "Figures of the study and of this run",
            [_published_row(each, run.labels) for each in comparisons],
        ),
        has_shares=any(each.share for each in comparisons),
    )


PUBLISHED = Section("published", "Published and measured figures", "published.html.j2", build_published)


def _published_row(each: PublishedComparison, labels: Mapping[str, str]) -> dict[str, Entry]:
    shown = units.share if each.share else metric_named(each.name).format
    return {
        "Cell": named(_published_cell(each, labels)),
        "Figure": Entry(f"{each.name}, cumulative share of the CPU" if each.share else metric_named(each.name).title),
        "Published": number(each.published, shown),
        "Measured": number(each.measured, shown, ", invalid" if each.only_invalid else ""),
        "Verdicts on the trials": Entry(_verdicts(each)),
        "Notes": prose("; ".join(clean(note) for note in (each.note, each.why) if note) or ABSENT),
    }


def _published_cell(each: PublishedComparison, labels: Mapping[str, str]) -> str:
    name = labels.get(each.cell_id or "") or clean(
        ", ".join(level_name(factor, level) for factor, level in each.levels.items())
    )
    return f"{name}: {clean(each.service)}" if each.service else name


def _verdicts(each: PublishedComparison) -> str:
    """Return the verdicts of the trials behind a figure: `8 valid, 2 suspect (cold)`."""
    if each.profiles is not None:
        return units.counted(each.profiles, "profile")
    if not each.verdicts:
        return ABSENT
    checks = f" ({', '.join(each.checks)})" if each.checks else ""
    return f"{', '.join(f'{times} {verdict}' for verdict, times in each.verdicts.items())}{checks}"


@dataclass(frozen=True)
class RatiosContent:
    """Notes on the comparisons, a table for each metric by its title, and how the results are decided.

    Rows name their notes by number: the place in `notes`, which all tables share.
    """

    comparison_notes: tuple[str, ...]
    tables: Mapping[str, Table]
    notes: tuple[str, ...]
    confidence: str
    decides: str


def build_ratios(report: ReportInput) -> RatiosContent | None:
    """Return a table for each metric; None if no two cells are compared."""
    comparisons = report.run.comparisons
    if not comparisons:
        return None
    names = cell_names(report.run)
    notes = tuple(dict.fromkeys(note for each in comparisons for ratio in each.ratios for note in _ratio_notes(ratio)))
    return RatiosContent(
        comparison_notes=tuple(dict.fromkeys(clean(note) for each in comparisons for note in each.notes)),
        tables={metric_named(each.metrics[0]).title: _ratio_table(each, names, notes) for each in comparisons},
        notes=notes,
        confidence=f"{comparisons[0].ratios[0].confidence:.0%}",
        decides=comparisons[0].decides,
    )


RATIOS = Section("ratios", "Ratios to the baseline", "ratios.html.j2", build_ratios)


def _ratio_table(comparison: RunComparison, names: Mapping[str, str], notes: Sequence[str]) -> Table:
    (name,) = comparison.metrics
    metric = metric_named(name)
    return table(
        f"ratios-{name}",
        f"{metric.title}: cells relative to their baseline",
        [_ratio_row(ratio, names, notes) for ratio in comparison.ratios],
        groups={"From": "Interval", "To": "Interval"},
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
        "From": number(ratio.low, "{:.3f}".format),
        "To": number(ratio.high, "{:.3f}".format),
        "p": Entry(p_value(ratio), ratio.p_holm, "number"),
        "Blocks": number(ratio.blocks, units.count),
        "Difference": Entry(outcome(ratio, brief=True)),
        "Notes": Entry(", ".join(str(notes.index(note) + 1) for note in _ratio_notes(ratio))),
    }


CLASSES_NOTE = (
    "Each class has the times of its own requests. Its ratios are decided at their level over all classes and cells of the "
    "table, for each percentile."
)


def build_classes(report: ReportInput) -> TableContent | None:
    """Return a row for each class of requests of each cell; None for loads without classes."""
    results = class_results(report.run.data, report.run.class_ratios)
    if not results:
        return None
    return TableContent(
        table("classes", "Every class of requests", [_class_row(each) for each in results]), CLASSES_NOTE
    )


CLASSES = Section("classes", "Classes of requests", "table.html.j2", build_classes)


def _class_row(result: ClassResult) -> dict[str, Entry]:
    row = {
        "Class": named(clean(result.request_class)),
        "Cell": Entry(result.label),
        "Share": number(result.share, units.share),
    }
    ratios = {ratio.metric: ratio for ratio in result.ratios}
    for metric, seconds in ((P50, result.latency_p50_s), (P99, result.latency_p99_s)):
        name, ratio = metric_named(metric).title.removesuffix(" latency"), ratios.get(metric)
        row |= {
            name: number(seconds, metric_named(metric).format, ", not usable" if result.is_unusable else ""),
            f"Ratio of {name}": number(None if ratio is None else ratio.ratio, "{:.3f}".format),
            f"Interval of {name}": Entry(ABSENT if ratio is None else interval(ratio)),
            f"Difference in {name}": Entry(ABSENT if ratio is None else outcome(ratio, brief=True)),
        }
    return row
