"""The answer of a comparison in sentences that a person can repeat, and whether they can be believed.

The terminal, Markdown, JSON, the report and the notebooks all open with these sentences.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchkit import units
from benchkit.comparison.cell_labels import cell_views, factors, level_name
from benchkit.comparison.components import components_between_runs, components_of
from benchkit.comparison.diagnoses.causes import causes_between_runs, causes_of
from benchkit.comparison.load_curves import HeldRate, cell_curves, held_sentences, limit_clause
from benchkit.comparison.notes import describe_findings, with_findings
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.runs.run_data import RunData
from benchkit.comparison.waiting import waiting_clause
from benchkit.comparison.why import cause_clause, components_by_pair, cost_explanation, explanation
from benchkit.judge.load_curve import LoadCurve
from benchkit.judge.run_differences import FactDifference
from benchkit.models.base import Frozen, level_text
from benchkit.models.metrics import CAPACITY, CPU, PERCENTILES, RPS, metric_named
from benchkit.models.run import Manifest
from benchkit.safe_text import clean
from benchkit.stats.cell_pairs import ComparedCells, between_runs, cell_in_run
from benchkit.stats.inference import MIN_BLOCKS
from benchkit.stats.samples import Reals, geometric_mean, take_samples

Trust = Literal["yes", "with care", "undecided", "no"]
"""Degree of trust in an answer; `undecided`: nothing invalidates it, but its trials decide no ratio."""

_VERDICTS: Mapping[Trust, str] = {
    "with care": "It can be believed with care",
    "undecided": "It is not decided",
    "no": "It cannot be believed",
}

MAX_SENTENCES = 2
"""Ratios that get a sentence of their own; the others are counted."""
MAX_NAMED_CLASSES = 3
"""Classes of requests that a sentence names; the others are counted."""
EXPLAINED = (RPS, CAPACITY, CPU)
"""Metrics whose ratios have components."""
WHY_UNKNOWN = "The cause is unknown: the CPU time of the servers was not measured. `benchkit versus` with their command lines measures it."
MAX_WORDS = 20
"""Words of the one reason that an answer states; the report has all reasons."""
_NEARLY_SAME = 0.2
"""Largest difference within which two cells are called the same: the end of the interval that is farther from one."""
_SMALL, _LARGE = 0.1, 10.0
"""Ratios below which two decimals are too few, and above which they are too many."""


class Answer(Frozen):
    """Sentences that state the headline ratios, and the trust in them; `reasons` are the reasons against them."""

    sentences: tuple[str, ...]
    trust: Trust
    reasons: tuple[str, ...] = ()

    @property
    def trust_sentence(self) -> str:
        """Sentence that states the trust in the other sentences, with the reasons against them."""
        if self.trust == "yes":
            return "It can be believed: no check found a fault in the trials that it uses."
        first, *others = self.reasons
        more = f"; and {units.counted(len(others), 'more reason')}" if others else ""
        return f"{_VERDICTS[self.trust]}: {_in_brief(first)}{more}."

    @property
    def text(self) -> str:
        """All sentences as one text."""
        return " ".join((*self.sentences, self.trust_sentence))

    def _repr_html_(self) -> str:
        from markupsafe import escape  # noqa: PLC0415 - only notebooks need it

        return f"<p><strong>{escape(' '.join(self.sentences))}</strong></p><p>{escape(self.trust_sentence)}</p>"


def _in_brief(reason: str) -> str:
    """Return the first clauses of a reason, up to `MAX_WORDS` words, and at least one."""
    clauses = reason.split("; ")
    fits = [count for count in range(1, len(clauses) + 1) if len("; ".join(clauses[:count]).split()) <= MAX_WORDS]
    return "; ".join(clauses[: max(fits, default=1)])


def write_answer(
    ratios: Sequence[Ratio],
    runs: Sequence[RunData],
    changes: Sequence[FactDifference] = (),
    by_class: Sequence[Ratio] = (),
    held: HeldRate | None = None,
) -> Answer:
    """Return the answer of ratios within one run (cells relative to a baseline) or of two runs (second to first).

    The first metric among the ratios is the headline; the others are added to its sentences. `changes` are the
    differences between the hosts and settings of `runs`, `by_class` the ratios of classes of requests, and `held` the
    phase of a single run at a held rate.
    """
    names = {view.cell_id: view.label for run in runs for view in cell_views(run.manifest)}
    compared = [ratio for ratio in ratios if not ratio.control]
    if not compared:
        return _answer_without_ratios(runs, names)
    headline = compared[0].metric
    main = [ratio for ratio in compared if ratio.metric == headline]
    others = {(each.metric, each.cell_id, each.baseline): each for each in compared if each.metric != headline}
    metrics = list(dict.fromkeys(metric for metric, _, _ in others))
    curves = {each.cell_id: each.curve for each in cell_curves(runs[0])} if len(runs) == 1 else {}
    measured = runs[0].trials[runs[0].trials["kind"].eq("measure")].dropna(subset="connections")
    connections = {str(cell): int(rows["connections"].iloc[-1]) for cell, rows in measured.groupby("cell_id")}
    writer = _Writer(names, tuple(run.manifest for run in runs), curves, connections)
    chosen = choose_headlines(main)
    used: list[Ratio] = []
    sentences = []
    for ratio in chosen:
        added = [each for metric in metrics if (each := others.get((metric, ratio.cell_id, ratio.baseline)))]
        usable = [each for each in (ratio, *added) if each.ratio is not None and not each.is_unusable]
        # The CPU time per request is stated where it differs although the rates do not, as where servers wait.
        needed = {each.metric: each.is_shown and not ratio.is_shown for each in added if each.metric == CPU}
        added = [each for each in added if each in usable and needed.get(each.metric, ratio in usable)]
        sentences.append(writer.sentence(ratio, added))
        used += [ratio, *added]
    rest = [ratio for ratio in main if ratio not in chosen]
    if rest:
        sentences.append(_count_rest(rest))
    for ratio in chosen:
        of_pair = [each for each in by_class if (each.cell_id, each.baseline) == (ratio.cell_id, ratio.baseline)]
        sentences += _class_sentence(
            of_pair, f"For {names.get(ratio.cell_id, ratio.cell_id)}, " if len(chosen) > 1 else ""
        )
    if headline in EXPLAINED:
        decisive = [ratio for ratio in chosen if ratio.outcome != "not shown"]
        sentences += _explanations(decisive, runs, names, curves, is_alone=len(chosen) == 1)
    if held is not None:
        sentences += held_sentences(held, [(ratio.cell_id, ratio.baseline) for ratio in chosen], names)
    changed = [f"between the runs {each.text}" for each in changes]
    trust, reasons = _judge(chosen, used, [ratio for ratio in ratios if ratio.is_of_equals], runs, changed)
    return Answer(sentences=tuple(map(clean, sentences)), trust=trust, reasons=_cleaned(reasons, names))


def choose_headlines(ratios: Sequence[Ratio]) -> list[Ratio]:
    """Return the ratios that get a sentence: up to two all, of more the highest and the lowest candidate.

    Candidates are the shown differences, else the ratios not shown to differ, else the undecided ones.
    """
    if len(ratios) <= MAX_SENTENCES:
        return list(ratios)
    for candidates in (
        [ratio for ratio in ratios if ratio.is_shown],
        [ratio for ratio in ratios if ratio.outcome == "not shown"],
        [ratio for ratio in ratios if ratio.ratio is not None and not ratio.is_unusable],
    ):
        if candidates:
            ranked = sorted(candidates, key=lambda ratio: ratio.ratio or 0.0)
            return [ranked[-1], ranked[0]] if len(ranked) > 1 else ranked
    return [ratios[0]]


@dataclass(frozen=True)
class _Writer:
    names: Mapping[str, str]
    runs: tuple[Manifest, ...]
    curves: Mapping[str, LoadCurve]
    connections: Mapping[str, int]
    """Those of the last measured trial of each cell."""

    def sentence(self, ratio: Ratio, added: Sequence[Ratio]) -> str:
        """Return the sentence of a ratio, with clauses on other metrics of its two cells."""
        clauses = [self._main_clause(ratio), *(_added_clause(each, ratio) for each in added)]
        cells = [ratio.cell_id, ratio.baseline]
        is_usable = ratio.metric == RPS and ratio.ratio is not None and not ratio.is_unusable
        below = [self.curves[cell].limit.kind for cell in cells if self._is_below_limit(cell)]
        has_limits = is_usable and set(below) <= {"not reached"}
        limits = limit_clause(self.curves, cells, self.names) if has_limits else None
        return "; ".join(clauses) + (f": {limits}." if limits else ".")

    def _main_clause(self, ratio: Ratio) -> str:
        cell, base, common = self._sides(ratio)
        common += self._at_connections(ratio)
        title = metric_named(ratio.metric).title
        if ratio.ratio is None:
            return f"{cell} cannot be compared with {base} in {title}{common}"
        if ratio.same_server and ratio.low is not None and ratio.high is not None:
            reach = max(ratio.high, 1 / ratio.low) - 1
            return (
                f"Equal servers come out within ± {units.share(reach)} here: {cell} is the same server as {base}, and "
                f"{_predicate(ratio, base)}{common}{_interval(ratio)}"
            )
        if ratio.is_unusable:
            return f"{cell} cannot be compared with {base} in {title}{common}: the measured {times(ratio.ratio)} is not usable"
        if ratio.outcome == "not shown":
            found = "distinguished by this load tool from" if ratio.is_limited_alike else "shown to differ from"
            return f"{cell} is not {found} {base} in {title}{common}: {times_with_interval(ratio)}{_sameness(ratio)}"
        if ratio.outcome == "undecided":
            return f"Undecided: {cell} {_predicate(ratio, base)}{common}{_interval(ratio)}{_accuracy(ratio)}"
        return f"{cell} {_predicate(ratio, base)}{common}{_interval(ratio)}"

    def _sides(self, ratio: Ratio) -> tuple[str, str, str]:
        """Return the names of cell and baseline, by the levels in which they differ, and their common levels."""
        if len(self.runs) > 1:
            cell = self.names.get(ratio.cell_id, ratio.cell_id)
            relative = f" relative to {self.names.get(ratio.relative_to, '')}" if ratio.relative_to else ""
            return f"{cell}{relative} in run {self.runs[1].run_id}", f"run {self.runs[0].run_id}", ""
        levels = {cell.cell_id: cell.levels for cell in self.runs[0].cells}
        one, other = levels[ratio.cell_id], levels[ratio.baseline]
        varying = factors(self.runs[0])
        differing = [name for name in varying if level_text(one[name]) != level_text(other[name])]
        if not differing:
            return self.names[ratio.cell_id], self.names[ratio.baseline], ""
        cell, base = (", ".join(level_name(name, side[name]) for name in differing) for side in (one, other))
        common = ", ".join(level_name(name, one[name]) for name in varying if name not in differing)
        return cell, base, f" ({common})" if common else ""

    def _at_connections(self, ratio: Ratio) -> str:
        """Return the connections of two cells where a rate is below its limit, and so depends on them."""
        cells = (ratio.cell_id, ratio.baseline)
        numbers = list(dict.fromkeys(self.connections[cell] for cell in cells if cell in self.connections))
        if ratio.metric != RPS or not numbers or not any(map(self._is_below_limit, cells)):
            return ""
        *others, last = numbers
        return f" at {''.join(f'{number:,} and ' for number in others)}{units.counted(last, 'connection')}"

    def _is_below_limit(self, cell: str) -> bool:
        """Return True for a cell with fewer connections than at its knee, or without a limit within its curve."""
        curve = self.curves.get(cell)
        return curve is not None and (
            curve.limit.kind == "not reached" or self.connections.get(cell, curve.knee) < curve.knee
        )


def _class_sentence(ratios: Sequence[Ratio], start: str) -> Iterator[str]:
    """Yield a sentence on the classes of requests that differ in p99, else in p50, the largest difference first."""
    shown: dict[str | None, Ratio] = {}
    for ratio in ratios:
        if ratio.is_shown:
            shown.setdefault(ratio.request_class, ratio)
    decided = {ratio.request_class for ratio in ratios if ratio.outcome != "undecided"}
    others, undecided = len(decided) - len(shown), len({ratio.request_class for ratio in ratios} - decided)
    ranked = sorted(shown.values(), key=lambda ratio: -abs(math.log(ratio.ratio or 1.0)))
    clauses = [
        f"{ratio.request_class} had {times(ratio.ratio)} the {metric_named(ratio.metric).title}{_interval(ratio)}"
        for ratio in ranked[:MAX_NAMED_CLASSES]
    ]
    if more := len(ranked) - len(clauses):
        clauses.append(f"{units.counted(more, 'more class differs', 'more classes differ')}")
    if others:
        rest = units.counted(
            others,
            "other class is" if ranked else "class of requests is",
            "other classes are" if ranked else "classes of requests are",
        )
        clauses.append(f"{rest} not shown to differ in latency")
    if clauses and undecided:
        clauses.append(f"{units.counted(undecided, 'class is', 'classes are')} undecided")
    if clauses:
        yield f"{start}{'; '.join(clauses)}."


def _predicate(ratio: Ratio, base: str) -> str:
    """Return a ratio as a predicate: `handled 1.31× the requests of go`."""
    verb, what = _VERBS.get(ratio.metric, ("had", metric_named(ratio.metric).title))
    return f"{verb} {times(ratio.ratio)} the {what} of {base}"


_VERBS = {RPS: ("handled", "requests"), CPU: ("used", "CPU time per request")}


def _added_clause(ratio: Ratio, main: Ratio) -> str:
    """Return a clause about another metric of the same cells."""
    title, shown = metric_named(ratio.metric).title, times_with_interval(ratio)
    if ratio.metric == CPU:
        return f"it used {times(ratio.ratio)} the CPU time per request{_interval(ratio)}"
    if ratio.outcome == "not shown":
        return f"its {title} is not shown to differ: {shown}"
    is_latency = ratio.metric in PERCENTILES or ratio.metric.startswith("latency_")
    clause = f"its {title} was {times(ratio.ratio)} as {'long' if is_latency else 'large'}{_interval(ratio)}"
    is_undecided_alone = ratio.outcome == "undecided" and main.outcome != "undecided"
    return f"{clause}, which is undecided" if is_undecided_alone else clause


def times(value: float | None) -> str:
    """Return a ratio as a factor: `1.31×`."""
    return f"{_number(value or 0.0)}\N{MULTIPLICATION SIGN}"


def times_with_interval(ratio: Ratio) -> str:
    """Return a ratio as a factor with its interval: `1.31× (95 % CI 1.24 to 1.38)`."""
    return f"{times(ratio.ratio)}{_interval(ratio)}"


def _number(value: float) -> str:
    return f"{value:.2g}" if value < _SMALL else f"{value:.2f}" if value < _LARGE else f"{value:,.1f}"


def _interval(ratio: Ratio) -> str:
    """Return the interval of a ratio in brackets after a blank; empty without one."""
    if ratio.low is None or ratio.high is None:
        return ""
    low, high = _number(ratio.low), _number(ratio.high)
    if low == high and ratio.low >= _SMALL and ratio.high < _LARGE:
        low, high = (f"{end:.{units.decimals_apart(ratio.low, ratio.high)}f}" for end in (ratio.low, ratio.high))
    return f" ({100 * ratio.confidence:.3g} % CI {low} to {high})"


def _accuracy(ratio: Ratio) -> str:
    if ratio.ratio is None or ratio.low is None or ratio.high is None:
        return ""
    return f"; this run measures it to within {_percent(max(ratio.high / ratio.ratio, ratio.ratio / ratio.low) - 1)}"


def _sameness(ratio: Ratio) -> str:
    """Return how far apart cell and baseline can be: `, the same within 4 %`; empty for a wide interval."""
    if ratio.low is None or ratio.high is None or ratio.is_limited_alike:
        return ""
    reach = max(ratio.high, 1 / ratio.low) - 1
    return f", the same within {_percent(reach)}" if reach <= _NEARLY_SAME else ""


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 1 else f"{1 + share:.2g} times"


def _explanations(
    ratios: Sequence[Ratio],
    runs: Sequence[RunData],
    names: Mapping[str, str],
    curves: Mapping[str, LoadCurve],
    *,
    is_alone: bool,
) -> Iterator[str]:
    """Yield a sentence on the cause of each ratio that the runs can explain.

    It omits the cell if the answer has one ratio (`is_alone`). For an undecided ratio it names only a known cause.
    """
    if not ratios:
        return
    reference = ratios[0].relative_to if len(runs) > 1 else None
    if len(runs) == 1:
        pairs = [ComparedCells(ratio.cell_id, ratio.baseline) for ratio in ratios]
        causes, components = causes_of(runs[0], pairs), components_of(runs[0], pairs)
    else:
        before, after = runs
        cells, ids = [ratio.cell_id for ratio in ratios], [run.manifest.run_id for run in runs]
        pairs = [between_runs(cell_id, *ids) for cell_id in cells]
        causes = causes_between_runs(before, after, cells, reference)
        components = components_between_runs(before, after, cells, reference)
        in_runs = {cell_in_run(run_id, cell_id): f"run {run_id}" for run_id in ids for cell_id in cells}
        names = {**names, **in_runs}
    by_pair = components_by_pair(components)
    for ratio, pair in zip(ratios, pairs, strict=True):
        of_pair = [each for each in causes if each.is_of(pair)]
        parts = by_pair.get(pair, ()) if ratio.is_shown else ()
        waiting = waiting_clause(pair, runs[0], curves, parts, names) if len(runs) == 1 else None
        if waiting is not None:
            why = waiting if ratio.is_shown else None
        elif ratio.metric == CPU:
            why = cost_explanation(parts, names, of_pair)
        else:
            why = explanation(parts, names, of_pair, None if reference is None else names.get(reference, reference))
        if why is not None:
            yield f"{'That' if is_alone else f'For {names[ratio.cell_id]}, that'} is {why}."
        elif of_pair and waiting is None:
            yield f"A known cause: {cause_clause(of_pair[0], names)}."
    is_measured = all(run.table is not None for run in runs)
    if is_measured and any(ratio.is_shown for ratio in ratios) and not (components or causes):
        yield WHY_UNKNOWN


def _count_rest(rest: Sequence[Ratio]) -> str:
    """Return a sentence on the other ratios: `And 3 more: 2 differ, 1 is undecided`."""
    counts = Counter("shown" if ratio.is_shown else ratio.outcome for ratio in rest)
    texts = {
        "shown": ("differs", "differ"),
        "not shown": ("is not shown to differ", "are not shown to differ"),
        "undecided": ("is undecided", "are undecided"),
    }
    parts = [(counts[kind], one if counts[kind] == 1 else many) for kind, (one, many) in texts.items() if counts[kind]]
    if len(parts) == 1:
        return f"And {len(rest)} more {parts[0][1]}."
    return f"And {len(rest)} more: {', '.join(f'{count} {verb}' for count, verb in parts)}."


def _judge(
    chosen: Sequence[Ratio],
    used: Sequence[Ratio],
    of_equals: Sequence[Ratio],
    runs: Sequence[RunData],
    changed: Sequence[str],
) -> tuple[Trust, list[str]]:
    """Return the trust in the chosen ratios, and the reasons against them, the most serious first."""
    alarms = {
        f"{each.cell_id} differs from {'itself' if each.control else f'{each.baseline}, the same server,'} in "
        f"{each.metric}, so that the intervals are too narrow": each.metric == chosen[0].metric
        for each in of_equals
        if each.is_shown
    }
    fatal = [
        *(run.limitation for run in runs if run.limitation is not None),
        *(alarm for alarm, is_of_headline in alarms.items() if is_of_headline),
        *(reason for ratio in used if ratio.uses_invalid for reason in ratio.serious_notes),
    ]
    undecided = [_why_undecided(ratio) for ratio in chosen if ratio.outcome == "undecided"]
    if all(ratio.is_unusable or ratio.ratio is None for ratio in chosen):
        fatal += undecided
    reasons = [*fatal, *alarms, *undecided, *changed, *_serious_notes(used, runs)]
    if fatal:
        return "no", reasons
    if len(undecided) == len(chosen):
        return "undecided", reasons
    return ("with care" if reasons else "yes"), reasons


def _why_undecided(ratio: Ratio) -> str:
    """Return the reason of an undecided ratio, with findings that exclude trials in words instead of check codes."""
    reason = (ratio.reason or "it is undecided").removesuffix(ratio.with_exclusions(""))
    if not ratio.exclusions:
        return reason
    return f"{reason.removesuffix(f'; an interval needs {MIN_BLOCKS}')}: {describe_findings(ratio.exclusions)}"


def _serious_notes(ratios: Sequence[Ratio], runs: Sequence[RunData]) -> Iterator[str]:
    for run in runs:
        if run.manifest.status != "done":
            yield f"{run.manifest.run_id} is {run.manifest.status}, the results are partial"
        if run.trials["verdict"].isna().any():
            yield f"trials of {run.manifest.run_id} have no verdict, as no check examined them"
    for ratio in ratios:
        yield from ratio.serious_notes
    if len(runs) > 1 and not any(ratio.relative_to for ratio in ratios):
        yield "the ratio includes changes of the hosts between the two runs, and its interval does not"


def _answer_without_ratios(runs: Sequence[RunData], names: Mapping[str, str]) -> Answer:
    """Return the answer of a run without ratios: the result of its only cell, or why nothing is compared."""
    run = runs[-1]
    cells = [cell.cell_id for cell in run.manifest.cells if cell.unsupported is None and cell.cell_id in names]
    if len(cells) != 1:
        return Answer(
            sentences=("This run compares nothing.",),
            trust="no",
            reasons=("no cell has a baseline",) if cells else ("these hosts support no cell",),
        )
    (cell_id,) = cells
    samples = run.samples(RPS)
    values = samples.known(cell_id)
    excluded = samples.excluded_of(cell_id)
    if not len(values):
        reason = describe_findings(excluded) or "no trial of it ended"
        measured = take_samples(run.trials, RPS).known(cell_id)
        shown = f"; the measured rate was {_mean_rate(measured)}" if len(measured) else ""
        sentence = f"{clean(names[cell_id])} has no usable result{shown}."
        return Answer(sentences=(sentence,), trust="no", reasons=(clean(reason),))
    sentence = f"{clean(names[cell_id])} handled {_mean_rate(values)}; the run has no other cell to compare it with."
    alone = Ratio(metric=RPS, cell_id=cell_id, baseline=cell_id, blocks=len(values), exclusions=excluded)
    (only,) = with_findings([alone], [run])
    reasons = _cleaned(_serious_notes([only], [run]), names)
    trust: Trust = "no" if only.uses_invalid else "with care" if reasons else "yes"
    return Answer(sentences=(sentence,), trust=trust, reasons=reasons)


def _mean_rate(logs: Reals) -> str:
    rates = [math.exp(log) for log in logs]
    spread = f", {units.rate(min(rates))} to {units.rate(max(rates))}" if len(rates) > 1 else ""
    return f"{units.requests_per_s(geometric_mean(rates))} (mean of {units.counted(len(rates), 'block')}{spread})"


def _cleaned(texts: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
    """Return each text once, safe to print, with the names of cells for their ids."""
    return tuple(dict.fromkeys(clean(_with_names(text, names)) for text in texts))


def _with_names(text: str, names: Mapping[str, str]) -> str:
    for cell_id in sorted(names, key=len, reverse=True):  # the longest first, as one id may begin another
        text = text.replace(cell_id, names[cell_id])
    return text
