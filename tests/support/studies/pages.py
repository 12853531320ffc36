"""The pages of the studies, made from the recorded runs: `python -m tests.support.studies.pages` writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchkit import units
from benchkit.comparison.claims import ClaimResult
from benchkit.comparison.ratios import Ratio
from benchkit.files import shipped
from benchkit.models.base import Level
from benchkit.models.claims import Published, published_of
from benchkit.models.metrics import metric_named
from tests.support.paths import ROOT
from tests.support.studies.study import CHINESE, FOLDER, RecordedStudy, Sentence, Study, read_studies, with_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS_PAGE = ROOT / "scenarios" / "RESULTS.md"
BEGIN, END = "<!-- studies: written by a command -->", "<!-- end of studies -->"
OWN = "our-own-questions"
"""Name of the page of the scenarios that repeat no study."""

RESULTS = {
    "holds": "**holds**",
    "refuted": "**refuted**",
    "undecided": "undecided",
    "not testable here": "not testable here",
}
_OWN = {"holds": "holds", "refuted": "refuted", "undecided": "undecided"}
"""Of several ratios: what the interval of each says by itself."""
_ALONE = re.compile(r"(?:within|outside) [^:;]+ by itself, not as one of \d+ claims \(p [^)]+\)")
_BLANK = re.compile(r"(?<=[。；，：、）（])\s+|\s+(?=[（，。；：%])")
"""Blanks that the folding of YAML leaves beside Chinese punctuation, and that of a percentage."""
MADE = "<!-- Made from the recorded runs: `make studies` writes this page again, after runs are recorded or words changed. -->"


def page(recorded: RecordedStudy) -> str:
    """Return the page of a study in Markdown."""
    return "\n".join(
        (
            *_head(recorded),
            *_sentences(recorded),
            *_impossible(recorded),
            *_profiles(recorded),
            *_rows(recorded),
            *_foot(recorded),
        )
    )


def _head(recorded: RecordedStudy) -> Iterator[str]:
    study = recorded.study
    yield from (MADE, "", f"# {study.title}", "", study.source, "")
    yield f"**Answer.** {recorded.filled(study.answer)}"
    yield ""
    yield from (f"- {line}" for line in study.setup)
    yield from ("", f"![Published and measured ratios]({recorded.name}.png)", "")
    yield from (recorded.filled(study.found), "")
    if study.table:
        yield from (recorded.filled(study.table, as_lines=True), "")
    yield from ("| run | trials | suspect | invalid | most frequent findings |", "|---|---|---|---|---|")
    yield from (*recorded.quality(), "")


def _sentences(recorded: RecordedStudy) -> Iterator[str]:
    if not recorded.study.sentences:
        return
    yield from ("## What the author says, and what was found", "", "| the author | found | result |", "|---|---|---|")
    for sentence in recorded.study.sentences:
        claims = recorded.claims_named(sentence.claims)
        tested = [claim for claim in claims if claim.state != "not testable here"]
        differ = len({claim.state for claim in tested}) > 1
        found = [recorded.filled(sentence.found)] if sentence.found else []
        found += [
            f"{_metric(claim)} {_measured(claim)}".lstrip()
            + (f", {claim.expectation}: {RESULTS[claim.state]}" if differ else "")
            for claim in tested
        ]
        says = sentence.says + (f" ({sentence.kind})" if sentence.kind else "")
        yield f"| {says} | {'; '.join(filter(None, found))} | {_state(sentence, claims)} |"
    yield ""


def _state(sentence: Sentence, claims: Sequence[ClaimResult]) -> str:
    states = _states(sentence, claims)
    if states == ["not testable here"] and claims and len(claims[0].reason) < 60 and sentence.result is None:
        return claims[0].reason
    return " · ".join(RESULTS[state] for state in states)


def _states(sentence: Sentence, claims: Sequence[ClaimResult]) -> list[str]:
    """Return the results of a sentence: its own, or those of its claims, of which tested ones count first."""
    if sentence.result is not None:
        return [sentence.result]
    states: list[str] = [claim.state for claim in claims]
    return list(dict.fromkeys([state for state in states if state != "not testable here"] or states))


def _impossible(recorded: RecordedStudy) -> Iterator[str]:
    found = list(recorded.impossible())
    if found:
        yield from ("## Published figures that contradict each other", "")
        yield from (*(f"- {text}" for text in found), "")
        yield from (recorded.study.contradictions, "")


def _profiles(recorded: RecordedStudy) -> Iterator[str]:
    """Yield the published profiles beside ours: a row for each function, a column for each number of connections."""
    for name, run in recorded.runs.items():
        published = [entry for entry in published_of(run.manifest.scenario) if entry.shares]
        measured = {each.cell_id: each.cumulative for each in run.service_profiles}
        if not published or not measured:
            continue
        kinds = {factor: level for factor, level in published[0].cell.items() if isinstance(level, str)}
        cells = [
            cell for cell in run.manifest.cells if kinds.items() <= cell.levels.items() and cell.cell_id in measured
        ]
        yield f"## Profiles of {', '.join(kinds.values())}, as published and here"
        yield ""
        yield (
            "Cumulative shares of the CPU samples below each function. Shares here are means over the profiles of a cell "
            f"of `{name}`, on one core."
        )
        varied = [factor for factor in published[0].cell if factor not in kinds]
        heads = [f"the study, {_published_levels(entry, varied)}" for entry in published]
        heads += [f"here, {_levels(cell.levels, varied)}" for cell in cells]
        yield from ("", f"| function | {' | '.join(heads)} |", "|---|" + "---|" * len(heads))
        for function in dict.fromkeys(each for entry in published for each in entry.shares):
            shares = [entry.shares.get(function) for entry in published]
            shares += [measured[cell.cell_id].get(function) for cell in cells]
            shown = " | ".join("" if share is None else units.share(share) for share in shares)
            yield f"| {function} | {shown} |"
        yield ""


def _published_levels(entry: Published, factors: Sequence[str]) -> str:
    """Return the levels that the study states, which the scale of a run may replace by its own."""
    return (entry.note or "").partition(";")[0].removeprefix("published for ") or _levels(entry.cell, factors)


def _levels(levels: Mapping[str, Level], factors: Sequence[str]) -> str:
    return ", ".join(f"{levels[factor]} {factor}" for factor in factors)


def _rows(recorded: RecordedStudy) -> Iterator[str]:
    yield from ("## Every claim", "")
    yield (
        "Ratios are of requests per second unless another figure is named, within blocks, with 95 % intervals and the number "
        "of blocks used (n). Results are adjusted for the number of claims of their scenario (Holm), and intervals are not. Where "
        "the ratios of a claim differ in what they say, each has its own result, by its interval alone."
    )
    yield from ("", "| scenario | whose | claim | published | measured | result |", "|---|---|---|---|---|---|")
    last = ""
    for scenario, claim in recorded.claims:
        name = f"`{scenario}`" if scenario != last else ""
        last = scenario
        metric = f" ({_metric(claim)})" if _metric(claim) else ""
        published = "" if claim.published is None else f"{claim.published:g}"
        text = " ".join(claim.text.split())
        measured = _measured(claim) or claim.reason
        yield f"| {name} | {claim.whose} | {text}{metric} | {published} | {measured} | {_result(claim)} |"
    yield ""
    widened = [each for _, claim in recorded.claims for each in claim.ratios if each.bias and each.low is not None]
    if widened:
        yield (
            "Some intervals are wider than Student's t, by an allowance for disturbances that left one cell more CPU time than "
            f"the other: {'; '.join(dict.fromkeys(map(_narrower, widened)))}."
        )
        yield ""


def _narrower(ratio: Ratio) -> str:
    """Return a ratio with its interval, and with that of Student's t alone."""
    ends = {"low": (ratio.low or 0) * math.exp(ratio.bias), "high": (ratio.high or 0) * math.exp(-ratio.bias)}
    return f"{with_interval(ratio)} for {with_interval(ratio.model_copy(update=ends)).partition(' ')[2]}"


def _result(claim: ClaimResult) -> str:
    """Return the result of a claim, and what it is by itself where the number of claims alone leaves it undecided."""
    alone = _ALONE.search(claim.reason) if claim.state == "undecided" else None
    return f"{RESULTS[claim.state]}: {alone[0]}" if alone else RESULTS[claim.state]


def _metric(claim: ClaimResult) -> str:
    """Return the name of the metric of a claim; empty: requests per second."""
    return "" if claim.metric == "rps" else metric_named(claim.metric).title


def _measured(claim: ClaimResult) -> str:
    """Return the ratios of a claim: `0.43 [0.41, 0.45], n 6`; of several in a row, each with its own state."""
    differ = len(set(claim.alone)) > 1
    own = [f" *{_OWN[state]}*" if differ else "" for state in claim.alone] or [""] * len(claim.ratios)
    parts = zip(labels(claim), claim.ratios, own, strict=True)
    return ", ".join(f"{name}{_ratio(ratio)}{state}" for name, ratio, state in parts)


def labels(claim: ClaimResult) -> list[str]:
    """Return for each ratio the levels in which it differs from the others, with a colon; of a single one nothing."""
    cells = [dict(part.partition("=")[::2] for part in ratio.cell_id.split(",")) for ratio in claim.ratios]
    differing = [name for name in (cells[0] if cells else {}) if len({cell.get(name) for cell in cells}) > 1]
    return ["".join(f"{name} {cell[name]}: " for name in differing) for cell in cells]


def _ratio(ratio: Ratio) -> str:
    if ratio.ratio is None:
        return "no usable block"
    return f"{with_interval(ratio)} (n={ratio.blocks})"


def _foot(recorded: RecordedStudy) -> Iterator[str]:
    yield from ("## Again", "", "```sh", *commands(recorded.study), "```", "")
    names = ", ".join(f"`{run.manifest.run_id}` ({name})" for name, run in recorded.runs.items())
    yield f"Recorded runs: {names}; `benchkit report RUN --store notebooks/recorded` shows one."
    yield from ("", "## 摘要", "", _BLANK.sub("", recorded.filled(recorded.study.chinese)), "")
    states = [_states(each, recorded.claims_named(each.claims)) for each in recorded.study.sentences]
    counted = {name: sum(state == [name] for state in states) for name in CHINESE}
    counted["mixed"] = sum(len(state) > 1 for state in states)
    shown = "，".join(f"{(CHINESE | _MIXED)[state]} {number} 条" for state, number in counted.items() if number)
    if shown:
        yield f"作者的话：{shown}（检验按论断数目以 Holm 法校正，95 % 区间未校正）。"
        yield ""


_MIXED = {"mixed": "部分成立"}


def commands(study: Study) -> tuple[str, ...]:
    """Return the commands that run the scenarios of a study again, in a fresh checkout."""
    return (study.lab, *(f"benchkit run {name} {study.options.get(name, '')}".strip() for name in study.scenarios))


def summary_table(studies: Sequence[RecordedStudy]) -> str:
    """Return the table that opens the results of the scenarios: a line for each source."""
    rows = [
        f"| [{each.study.title}](studies/{each.name}.md) | {each.filled(each.study.answer)} |"
        for each in studies
        if each.name != OWN
    ]
    return "\n".join(("| source, with its page | answer |", "|---|---|", *rows))


def not_recorded(studies: Sequence[RecordedStudy]) -> str:
    """Return the sentence on shipped scenarios of which the store has no run."""
    stored = {run.manifest().scenario_name for run in studies[0].store.runs()}
    names = sorted({path.stem for path in shipped("scenarios").glob("*.yaml")} - stored)
    shown = ", ".join(f"`{name}`" for name in names)
    return f"No run of these ships, so that their claims have no result here; some have figures below: {shown}."


def draw(recorded: RecordedStudy) -> Figure:
    """Draw the ratios of the answer beside the published ones, from the top down."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow, and the pages alone need it

    rows = [
        (f"{drawn.label} {label}".rstrip(": "), claim.metric, ratio, drawn.published)
        for drawn in recorded.study.drawn
        for claim in [recorded.figure(drawn.figure)]
        for ratio, label in zip(claim.ratios, labels(claim), strict=True)
        if ratio.ratio is not None
    ]
    figure = Figure(figsize=(10, 1 + 0.42 * len(rows)), layout="constrained", dpi=150)
    axes = figure.subplots()
    blue, red = "#2b5d8a", "#b3402e"
    for y, (_, _, ratio, published) in enumerate(rows):
        if ratio.low is not None and ratio.high is not None:
            axes.plot([ratio.low, ratio.high], [y, y], linewidth=2.5, color=blue, solid_capstyle="butt")
        axes.plot([ratio.ratio or 1.0], [y], "o", color=blue, label="" if y else "measured, with its 95 % interval")
        text = with_interval(ratio)
        if published is not None:
            axes.plot([published], [y], "D", color=red, fillstyle="none")
            text += f"; published {published:g}"
        axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), verticalalignment="center", fontsize=9)
    if any(published is not None for *_, published in rows):
        axes.plot([], [], "D", color=red, fillstyle="none", label="published")
    axes.axvline(1, color="0.7", linewidth=0.8, zorder=0)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    ticks = [tick for tick in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 20, 50) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=9)
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.spines[["left", "top", "right"]].set_visible(False)
    metrics = {metric for _, metric, *_ in rows}
    axes.set_xlabel(
        f"ratio of {metric_named(*metrics).title if len(metrics) == 1 else 'the figure named'} (log scale)", fontsize=9
    )
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return figure


def write(folder: Path = FOLDER, results_page: Path = RESULTS_PAGE) -> None:
    """Write all pages with their figures, and the table of the results."""
    studies = read_studies()
    for name, recorded in studies.items():
        (folder / f"{name}.md").write_text(page(recorded) + "\n", encoding="utf-8")
        draw(recorded).savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})
    text = results_page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    made = f"{summary_table(list(studies.values()))}\n\n{not_recorded(list(studies.values()))}"
    results_page.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    write()
