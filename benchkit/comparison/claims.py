"""Claims and published figures of a scenario, judged by intervals: holds, refuted, undecided, not testable here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd
from scipy import special

from benchkit.comparison.component_costs import component_trials
from benchkit.comparison.cpu_profiles import ServiceProfile
from benchkit.comparison.notes import with_run_notes
from benchkit.comparison.ratios import Ratio, block_ratios, double_ratios, with_outcomes
from benchkit.comparison.runs.run_data import RunData
from benchkit.errors import InputError
from benchkit.models.base import Frozen, cpu_places, level_texts
from benchkit.models.base import cell_id as cell_id_of
from benchkit.models.claims import CellPair, Claim, Need, asked_ratio_of, claims_of, published_of
from benchkit.models.metrics import GOROUTINES, RPS, component_metric
from benchkit.models.profile import PROFILE_METRICS
from benchkit.models.run import HostRecord, Manifest
from benchkit.stats.cell_pairs import ComparedCells, cells_with_levels, claim_pairs
from benchkit.stats.inference import holm, t_share
from benchkit.stats.samples import Exclusion, excluded_ids, take_samples, usable_rows

ClaimState = Literal["holds", "refuted", "undecided", "not testable here"]


class ClaimResult(Frozen):
    """Result of a claim; `ratios` are the measured ones, each with its own interval."""

    text: str
    whose: Literal["author", "ours"] = "ours"
    expectation: str
    expected: tuple[float | None, float | None] = (None, None)
    """Smallest and largest ratio that the claim allows; None: no limit on that side."""
    metric: str
    published: float | None
    state: ClaimState
    reason: str
    ratios: tuple[Ratio, ...] = ()
    alone: tuple[ClaimState, ...] = ()
    """State of each ratio by its own interval, in their order; empty for a single ratio."""
    p: float | None = None
    """Smallest significance level at which its intervals decide it; None: no interval, or not testable here."""
    p_holm: float | None = None
    """`p` adjusted for the number of testable claims of the scenario (Holm); it decides the state."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on its ratios, each once."""
        return tuple(dict.fromkeys(note for ratio in self.ratios for note in ratio.notes))

    @property
    def sentence(self) -> str:
        """State and figures: `holds: 0.91 [0.88, 0.94] (n=6): at least 0.9, published 0.95`."""
        published = "" if self.published is None else f", published {self.published:g}"
        return f"{self.state}: {self.reason}{published}"


def judge_claims(data: RunData) -> tuple[ClaimResult, ...]:
    """Evaluate every claim of the scenario that was run, in the order of its file.

    Intervals are of each ratio alone. States are adjusted for the number of testable claims (Holm): the probability
    that chance makes any of them wrong is at most `data.alpha`.
    """
    return _judge(claims_of(data.manifest.scenario), data)


def judge_claim(claim: Claim, data: RunData) -> ClaimResult:
    """Evaluate one claim by itself; the scenario need not contain it."""
    (result,) = _judge([claim], data)
    return result


def asked_ratios(data: RunData) -> list[Ratio]:
    """Return the ratios that the scenario asks for, as one family.

    There are none if the run lacks the cells, or its design allows no ratio within blocks.
    """
    asked = asked_ratio_of(data.manifest.scenario)
    if asked is None or data.limitation is not None:
        return []
    pair = CellPair(of=asked.of, to=asked.to)
    result = judge_claim(Claim(text="the answer", ratio=pair, metric=asked.metric, at_least=1), data)
    if all(ratio.ratio is None for ratio in result.ratios):
        return []
    return with_outcomes(result.ratios, data.alpha)


def _judge(claims: Sequence[Claim], data: RunData) -> tuple[ClaimResult, ...]:
    results = [_measure_claim(claim, data) for claim in claims]
    p_values = [result.p for result, _ in results if result.p is not None]
    adjusted = iter(holm(p_values))
    return tuple(
        result if result.p is None else _with_state(result, decision, next(adjusted), len(p_values), data.alpha)
        for result, decision in results
    )


@dataclass(frozen=True)
class _Decision:
    """Decision on a claim by its intervals alone: `shown` has its ratios, `without` the missing cells, as texts."""

    state: ClaimState = "not testable here"
    shown: str = ""
    alone: tuple[ClaimState, ...] = ()
    without: str = ""


def _measure_claim(claim: Claim, data: RunData) -> tuple[ClaimResult, _Decision]:
    """Measure the ratios of a claim. It holds if all lie in the expected range, and is refuted if one lies outside.

    Only cells that the hosts support are used; without any the claim is not testable. As any of several ratios can
    refute the claim, the p of that test is multiplied by their number (Bonferroni).
    """
    untestable = _Decision()
    result = ClaimResult(
        text=claim.text,
        whose=claim.whose,
        expectation=claim.expectation,
        expected=claim.expected,
        metric=claim.metric,
        published=claim.published,
        state="not testable here",
        reason="",
    )
    unmet = "; ".join(_unmet_needs(claim, data.manifest))
    if unmet:
        return result.model_copy(update={"reason": unmet}), untestable
    try:
        pairs = claim_pairs(claim.ratio, data.manifest.cells)
        reference = None if claim.relative_to is None else _reference(claim.relative_to, data.manifest)
    except InputError as error:
        return result.model_copy(update={"reason": f"{error.what} in this run"}), untestable
    unsupported = {cell.cell_id: cell.unsupported for cell in data.manifest.cells if cell.unsupported}
    involved = () if reference is None else (reference.cell_id, reference.baseline)
    missing = [cell for pair in pairs for cell in (pair.cell_id, pair.baseline, *involved) if cell in unsupported]
    pairs = [pair for pair in pairs if not {pair.cell_id, pair.baseline, *involved} & unsupported.keys()]
    if not pairs:
        return result.model_copy(update={"reason": f"{missing[0]} was skipped: {unsupported[missing[0]]}"}), untestable
    if claim.held and data.held is None:
        return result.model_copy(update={"reason": "the run has no trials at a held rate"}), untestable
    found = _claim_trials(claim.metric, data.held if claim.held and data.held is not None else data)
    if isinstance(found, str):
        return result.model_copy(update={"reason": found}), untestable
    trials, excluded = found
    samples = take_samples(trials, claim.metric, excluded)
    measured = (
        block_ratios(samples, pairs, data.alpha)
        if reference is None
        else double_ratios(samples, pairs, reference, data.alpha)
    )
    ratios = with_run_notes(measured, [data])
    without = f" (without {_describe_unsupported(missing, unsupported)})" if missing else ""
    decision, p = _decide(claim, ratios, data.alpha)
    decided = {
        "ratios": tuple(ratios),
        "alone": decision.alone,
        "p": None if data.limitation else p,
        "state": "undecided",
        "reason": (data.limitation or decision.shown) + without,
    }
    return result.model_copy(update=decided), replace(decision, without=without)


def _claim_trials(metric: str, data: RunData) -> tuple[pd.DataFrame, Sequence[Exclusion]] | str:
    """Return the trials with the metric of a claim and their exclusions, or the reason why there are no trials."""
    component = component_metric(metric)
    if component is not None:
        trials = component_trials(data, component, metric)
        return f"no usable trial states {metric}" if trials.empty else (trials, ())
    if metric in PROFILE_METRICS:
        return data.profiled or "no trial was profiled"
    if metric == GOROUTINES:
        counted = _with_goroutines(data)
        excluded = tuple(replace(each, metrics=None) for each in data.exclusions if each.covers(RPS))
        return "no server reported its goroutines" if counted is None else (counted, excluded)
    return data.trials, data.exclusions


def _reference(pair: CellPair, manifest: Manifest) -> ComparedCells:
    """Return the one pair of cells whose ratio others are divided by. Raises InputError if there are several."""
    found = claim_pairs(pair, manifest.cells)
    if len(found) != 1:
        raise InputError(f"{len(found)} pairs of cells to divide by, instead of one,")
    return found[0]


def _with_goroutines(data: RunData) -> pd.DataFrame | None:
    """Return the trials with the sum over services of their median goroutines in the window; None without any."""
    telemetry = data.rows("telemetry")
    if telemetry.empty:
        return None
    rows = telemetry[telemetry["metric"] == GOROUTINES].merge(data.trials[["trial_id", "duration_s"]], on="trial_id")
    rows = rows[(rows["t_s"] >= 0) & (rows["t_s"] <= rows["duration_s"])]
    counts = rows.groupby(["trial_id", "service"])["value"].median().groupby("trial_id").sum()
    if counts.empty:
        return None
    return data.trials.assign(**{GOROUTINES: data.trials["trial_id"].map(counts).astype("float64")})


def _with_state(result: ClaimResult, decision: _Decision, p_holm: float, family: int, alpha: float) -> ClaimResult:
    """Return the result with the state that its adjusted p decides."""
    state: ClaimState = decision.state if p_holm <= alpha else "undecided"
    reason = decision.shown
    if state == "refuted":
        reason += f": outside {result.expectation}"
    elif state == "holds":
        reason += f": {result.expectation}"
    elif decision.state != "undecided":
        alone = {"holds": "within", "refuted": "outside"}[decision.state]
        reason += f": {alone} {result.expectation} by itself, not as one of {family} claims (p {p_holm:.2g})"
    elif all(ratio.low is not None for ratio in result.ratios):
        reason += f": includes the limit of {result.expectation}"
    return result.model_copy(update={"state": state, "reason": reason + decision.without, "p_holm": p_holm})


def _describe_unsupported(missing: Iterable[str], unsupported: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for cell_id in dict.fromkeys(missing):
        by_reason.setdefault(unsupported[cell_id], []).append(cell_id)
    return "; ".join(f"{' and '.join(cells)}: {why}" for why, cells in by_reason.items())


def _decide(claim: Claim, ratios: Sequence[Ratio], alpha: float) -> tuple[_Decision, float | None]:
    """Return the decision by a claim's intervals, and the smallest level at which they decide; None without any."""
    known = [ratio for ratio in ratios if ratio.low is not None]
    inside = [_p_inside(ratio, *claim.expected, alpha) for ratio in known]
    outside = [min(1.0, len(ratios) * _p_outside(ratio, *claim.expected, alpha)) for ratio in known]
    states: dict[int, ClaimState] = {
        id(ratio): "refuted" if out <= alpha else "holds" if within <= alpha else "undecided"
        for ratio, within, out in zip(known, inside, outside, strict=True)
    }
    alone = tuple(states.get(id(ratio), "undecided") for ratio in ratios) if len(ratios) > 1 else ()
    shown = "; ".join(map(_interval, ratios, alone or (None,)))
    if not known:
        return _Decision("undecided", shown, alone), None
    holds = max(inside) if len(known) == len(ratios) else 1.0
    p = min(holds, *outside)
    state: ClaimState = "undecided" if p > alpha else "holds" if holds < min(outside) else "refuted"
    return _Decision(state, shown, alone), p


def _p_inside(ratio: Ratio, low: float | None, high: float | None, alpha: float) -> float:
    """Return the smallest level at which the whole interval of a ratio lies within limits (two one-sided tests)."""
    return max(_p_beyond(ratio, limit, sign, alpha) for limit, sign in ((low, 1), (high, -1)) if limit is not None)


def _p_outside(ratio: Ratio, low: float | None, high: float | None, alpha: float) -> float:
    """Return the smallest level at which the whole interval of a ratio lies below or above the limits."""
    return min(_p_beyond(ratio, limit, sign, alpha) for limit, sign in ((low, -1), (high, 1)) if limit is not None)


def _p_beyond(ratio: Ratio, limit: float, sign: int, alpha: float) -> float:
    """Return the smallest level at which the interval of a ratio lies above a limit (`sign` 1) or below it (-1).

    With few blocks the level is stricter, as in comparisons (`benchkit.stats.inference.t_share`).
    """
    distance = sign * (math.log(ratio.ratio or 1.0) - math.log(limit)) - ratio.bias
    error, df = ratio.log_error or 0.0, ratio.df or 1.0
    if error == 0.0:
        return 0.0 if distance >= 0 else 1.0
    return min(1.0, 2 * float(special.stdtr(df, -distance / error)) / t_share(ratio.blocks, alpha))


def _interval(ratio: Ratio, state: ClaimState | None) -> str:
    """Return a ratio with its interval and blocks; one of several (`state`) also has its cells and its state."""
    name = "" if state is None else f"{ratio.cell_id} relative to {ratio.baseline}: "
    if ratio.low is None:
        return name + (ratio.reason or "no interval")
    own = "" if state is None else f" {state}"
    return f"{name}{ratio.ratio:.3g} [{ratio.low:.3g}, {ratio.high:.3g}] (n={ratio.blocks}){own}"


def _unmet_needs(claim: Claim, manifest: Manifest) -> Iterator[str]:
    for role, need in claim.needs.items():
        for host in manifest.hosts:
            if role in host.roles:
                yield from _unmet_need(need, host, _role_cpus(manifest, role))


def _unmet_need(need: Need, host: HostRecord, most_cpus: float) -> Iterator[str]:
    cpus = min(len(host.facts.cpus), most_cpus)
    if need.cpus is not None and cpus < need.cpus:
        yield f"needs {need.cpus} CPUs on {host.name}, which has {cpus:g}"
    link = _link(host)
    known = "whose link speed is unknown; set link_bps" if link is None else f"which has {link:g}"
    if need.link_bps is not None and (link is None or link < need.link_bps):
        yield f"needs a link of {need.link_bps:g} bit/s on {host.name}, {known}"
    if need.link_at_most_bps is not None and (link is None or link > need.link_at_most_bps):
        yield f"needs a link of at most {need.link_at_most_bps:g} bit/s on {host.name}, {known}"


def _role_cpus(manifest: Manifest, role: str) -> float:
    """Return the number of CPUs that the scenario lets the role use, by placement and quota; infinite: no limit."""
    asked = (manifest.scenario.get("roles") or {}).get(role) or {}
    cpus, quota = asked.get("cpus"), asked.get("quota")
    if isinstance(cpus, str) and cpus != "all":
        cpus = len(cpu_places(cpus))
    return min((each for each in (cpus, quota) if isinstance(each, int | float)), default=math.inf)


def _link(host: HostRecord) -> float | None:
    """Return the rate of a host's link: the cap by lab or inventory, else the rate of its fastest interface."""
    if host.facts.link_bps is not None:
        return host.facts.link_bps
    return max((interface.speed_bps for interface in host.facts.interfaces if interface.speed_bps), default=None)


class PublishedFigure(Frozen):
    """A figure of a study and the same figure of a run.

    `measured` is the median over the usable measured trials of the cell, for shares the mean over its profiles. If none
    is usable, it is over the invalid trials, and `only_invalid` is true. If the run has no such figure, `measured` is
    absent, and `note` has the reason.
    """

    cell: str
    service: str | None = None
    figure: str
    """Column of `trials`, or function whose cumulative share of the CPU this is."""
    published: float
    measured: float | None = None
    only_invalid: bool = False
    note: str = ""


def published_figures(data: RunData, profiles: Sequence[ServiceProfile]) -> Iterator[PublishedFigure]:
    """Yield every published figure of the scenario, in the order of its file; `profiles` are the run's."""
    for entry in published_of(data.manifest.scenario):
        for cell in cells_with_levels(level_texts(entry.cell), data.manifest.cells) or (None,):
            unknown = "no such cell in this run" if cell is None else cell.unsupported
            cell_id = cell_id_of(level_texts(entry.cell)) if cell is None else cell.cell_id
            of_cell = [each for each in profiles if each.cell_id == cell_id]
            for name, published in {**entry.figures, **entry.shares}.items():
                row = PublishedFigure(cell=cell_id, figure=name, published=published, note=entry.note or "")
                if unknown is not None:
                    yield _without_figure(row, unknown)
                elif name in entry.figures:
                    yield _published_figure(row, data)
                elif not of_cell:
                    yield _without_figure(row, "it was not profiled")
                else:
                    for each in of_cell:
                        measured = {"measured": each.cumulative[name], "only_invalid": each.only_invalid}
                        service = each.service if len(of_cell) > 1 else None
                        yield row.model_copy(update={"service": service, **measured})


def _without_figure(row: PublishedFigure, why: str) -> PublishedFigure:
    return row.model_copy(update={"note": "; ".join(filter(None, (row.note, why)))})


def _published_figure(row: PublishedFigure, data: RunData) -> PublishedFigure:
    trials = data.trials[(data.trials["kind"] == "measure") & (data.trials["cell_id"] == row.cell)]
    trials = trials[pd.to_numeric(trials[row.figure]).notna()]
    if trials.empty:
        return _without_figure(row, "no trial reports it")
    used, only_invalid = usable_rows(trials, excluded_ids(data.exclusions, row.figure))
    measured = float(pd.to_numeric(used[row.figure]).median())
    return row.model_copy(update={"measured": measured, "only_invalid": only_invalid})
