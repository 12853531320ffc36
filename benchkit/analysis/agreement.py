"""How far load tools disagree about the same cell, against how far trials of one tool lie apart.

Tools measure one server under one load, each in its own way: what they say differs because they differ, and because
trials differ. The two are told apart within blocks. If tools were alike, the names of the tools of a block could be
exchanged among its trials; the p-value is the share of such exchanges that set the tools at least as far apart
(R. A. Fisher, The Design of Experiments, section 21; by random draws as B. Phipson and G. K. Smyth, Permutation p-values
should never be zero, 2010). How far is the sum of squares of the tools' means of the logarithm, taken from their
block's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pydantic import Field

from benchkit import units
from benchkit.models.base import Frozen
from benchkit.models.levels import level_text
from benchkit.models.metrics import P50, P99, metric_named

if TYPE_CHECKING:
    from benchkit.analysis.caveats import Caveat

METRICS = ("rps", "latency_mean_s", P50, P99, "server_cpu_s_per_request")
"""Columns of `trials` in which tools can disagree."""

STEPPED = frozenset({"latency_mean_s", P50, P99})
STEPS = 10
"""A time of fewer steps than this is the tool's rounding more than a time; a mean of times that were cut is one too."""

ALPHA = 0.05
DRAWS = 9_999
LEAST_BLOCKS = 2
"""Below, there is nothing to tell noise by."""

TOOL_CHECKS = frozenset({"generator-saturated", "server-idle", "littles-law", "tool-limit"})
"""Checks that void a trial for what its load tool could not do: that is how tools disagree, and is left in and said."""

_FACTOR = "factor_"


class ToolFigures(Frozen):
    """What the trials of one tool say of a metric."""

    tool: str
    trials: int
    median: float
    lowest: float
    highest: float


class Agreement(Frozen, serialize_by_alias=True):
    """How far tools disagree about a metric of one cell."""

    levels: Mapping[str, str]
    """What the compared cells have in common: factor → level."""
    metric: str
    tools: tuple[ToolFigures, ...]
    left_out: Mapping[str, str]
    """Tools that do not take part, and why."""
    invalid_trials: Mapping[str, str] = Field(serialization_alias="void")
    """Tools that do, of whose trials verdicts void some, and what became of those."""
    blocks: int
    """Those in which every tool has a trial."""
    between: float
    """The highest of the tools' medians over the lowest."""
    within: float
    """The highest trial of one tool over its lowest, of the tool for which that is most."""
    p: float | None
    """How likely it is that tools which are alike come out as far apart, corrected for all metrics and cells (Holm);
    None where too few blocks tell nothing of noise."""

    @property
    def beyond_noise(self) -> bool | None:
        """Whether they disagree by more than noise explains; None where that cannot be told."""
        return None if self.p is None else self.p < ALPHA


def title_and_format(metric: str) -> tuple[str, Callable[[float | None], str]]:
    """What a metric is called where a sentence begins, and how its values read."""
    known = metric_named(metric)
    first, rest = known.title[:1], known.title[1:]
    return (first if rest[:1].isdigit() else first.upper()) + rest, known.format  # p50 stays p50


def sentence(agreement: Agreement) -> str:
    """What can be said of it, and what cannot."""
    title, shown = title_and_format(agreement.metric)
    low, high = (pick(agreement.tools, key=lambda each: each.median) for pick in (min, max))
    span = (
        f"medians from {shown(low.median)} ({low.tool}) to {shown(high.median)} ({high.tool}), "
        f"a factor of {units.ratio(agreement.between)} apart; trials of one tool up to {units.ratio(agreement.within)}"
    )
    if agreement.beyond_noise is None:
        return f"{title}: {span}. Of {units.counted(agreement.blocks, 'block')} nothing can be said of noise."
    chance = f"p = {agreement.p:.2g}, {units.counted(agreement.blocks, 'block')}"
    if agreement.beyond_noise:
        return f"{title}: the tools disagree beyond noise: {span} ({chance})."
    return f"{title}: no disagreement beyond noise is shown: {span} ({chance}). That is no proof that they agree."


def agreements(trials: pd.DataFrame, caveats: Iterable[Caveat] = ()) -> tuple[Agreement, ...]:
    """All that the trials of a run say of the agreement of its tools; empty where no cells differ in their tool alone.

    `trials` is the table of that name with its `factor_<name>` columns, `caveats` what verdicts have against them: void
    trials do not count, but for those in which the tool itself was the limit, and where they leave no two tools.
    """
    measured = trials[trials["kind"] == "measure"]
    by_tool = _tool_factor(measured)
    if by_tool is None:
        return ()
    others = [name for name in measured.columns if name.startswith(_FACTOR) and name != by_tool]
    invalid = [caveat for caveat in caveats if caveat.severity == "invalid"]
    against = {metric: _against(metric, invalid) for metric in METRICS}
    found = [
        agreement
        for levels, rows in _groups(measured, others)
        for metric in METRICS
        if (agreement := _agreement(levels, metric, rows, against[metric])) is not None
    ]
    return tuple(_corrected(found))


def agreement_trials(agreement: Agreement, trials: pd.DataFrame) -> pd.DataFrame:
    """The measured trials of the cells that it is about, whichever their tools are."""
    rows = trials[trials["kind"] == "measure"]
    for name, level in agreement.levels.items():
        rows = rows[rows[f"{_FACTOR}{name}"].map(_text) == level]
    return rows


def _tool_factor(trials: pd.DataFrame) -> str | None:
    """The column of the factor whose levels are the names of the tools."""
    for name in trials.columns:
        if name.startswith(_FACTOR) and len(trials) and (trials[name].astype(str) == trials["tool"]).all():
            return str(name)
    return None


def _groups(trials: pd.DataFrame, factors: Sequence[str]) -> Iterator[tuple[Mapping[str, str], pd.DataFrame]]:
    if not factors:
        yield {}, trials
        return
    for key, rows in trials.groupby(list(factors), sort=False, dropna=False):
        yield {name.removeprefix(_FACTOR): _text(level) for name, level in zip(factors, key, strict=True)}, rows


def _text(level: Any) -> str:  # noqa: ANN401 - what a column of levels holds
    """A level as the scenario writes it: pandas has whole numbers as floats."""
    return level_text(int(level) if isinstance(level, float) and level.is_integer() else level)


def _against(metric: str, invalid: Iterable[Caveat]) -> dict[str, list[str]]:
    """The checks that void the metric, by trial."""
    found: dict[str, list[str]] = {}
    for caveat in invalid:
        if metric in caveat.metrics:
            found.setdefault(caveat.trial_id, []).append(caveat.check)
    return found


def _agreement(
    levels: Mapping[str, str], metric: str, every: pd.DataFrame, against: Mapping[str, Sequence[str]]
) -> Agreement | None:
    left_out: dict[str, str] = {}
    invalid_trials: dict[str, str] = {}
    figures: list[ToolFigures] = []
    counts = [TOOL_CHECKS.issuperset(against.get(trial_id, ())) for trial_id in every["trial_id"]]
    enough = every.loc[counts, "tool"].nunique() >= 2  # noqa: PLR2004 - two to compare
    rows = every[counts] if enough else every
    for tool in dict.fromkeys(map(str, every["tool"])):
        said = _void(every.loc[every["tool"] == tool, "trial_id"], against, counted=not enough)
        values = pd.to_numeric(rows.loc[rows["tool"] == tool, metric]).astype("float64")
        if values.empty:
            left_out[tool] = said
            continue
        steps = pd.to_numeric(rows.loc[rows["tool"] == tool, "latency_resolution_s"]).fillna(0.0).max()
        least = STEPS * steps if metric in STEPPED else 0.0
        if bool(values.isna().any()):
            above = f" above its steps of {units.seconds(float(steps))}" if least else ""
            left_out[tool] = f"not every trial of it states this{above}"
        elif not bool((values > least).all()):
            left_out[tool] = f"it tells times in steps of {units.seconds(float(steps))}"
        else:
            spread = float(values.min()), float(values.max())
            figures.append(
                ToolFigures(
                    tool=tool, trials=len(values), median=float(values.median()), lowest=spread[0], highest=spread[1]
                )
            )
            invalid_trials |= {tool: said} if said else {}
    if len(figures) < 2:  # noqa: PLR2004 - two to compare
        return None
    taking_part = [each.tool for each in figures]
    table = rows[rows["tool"].isin(taking_part)].pivot_table(index="block", columns="tool", values=metric).dropna()
    medians = [each.median for each in figures]
    return Agreement(
        levels=levels,
        metric=metric,
        tools=tuple(figures),
        left_out=left_out,
        invalid_trials=invalid_trials,
        blocks=len(table),
        between=max(medians) / min(medians),
        within=max(each.highest / each.lowest for each in figures),
        p=_permutation_p(np.log(table.to_numpy())) if len(table) >= LEAST_BLOCKS else None,
    )


def _void(trial_ids: Iterable[str], against: Mapping[str, Sequence[str]], *, counted: bool) -> str:
    """What became of the trials of a tool that verdicts void: left out, or counted all the same, and why."""
    ids = list(trial_ids)
    of_tool = [each for each in ids if each in against and TOOL_CHECKS.issuperset(against[each])]
    others = [each for each in ids if each in against and each not in of_tool]
    return "; ".join(
        f"{len(those)} of {units.counted(len(ids), 'trial')} {'is' if len(those) == 1 else 'are'} void and {how} "
        f"({', '.join(dict.fromkeys(check for each in those for check in against[each]))})"
        for those, how in (
            (others, "counted, as too few others are left" if counted else "left out"),
            (of_tool, "counted, as the tool was the limit"),
        )
        if those
    )


def _permutation_p(logs: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The p-value of blocks (rows) by tools (columns), drawn from a fixed seed."""
    centred = logs - logs.mean(axis=1, keepdims=True)
    observed = float((centred.mean(axis=0) ** 2).sum())
    drawn = np.random.default_rng(0).permuted(np.broadcast_to(centred, (DRAWS, *centred.shape)), axis=2)
    far = (drawn.mean(axis=1) ** 2).sum(axis=1)
    return float((1 + np.count_nonzero(far >= observed * (1 - 1e-12))) / (1 + DRAWS))


def _corrected(found: Sequence[Agreement]) -> Iterator[Agreement]:
    """With p-values that hold for all of them together."""
    told = [each.p for each in found if each.p is not None]
    if not told:
        yield from found
        return
    from benchkit.analysis.multiple_tests import holm  # noqa: PLC0415 - SciPy beside it is slow to import, and most runs have one tool

    corrected = iter(holm(told))
    for each in found:
        yield each if each.p is None else each.model_copy(update={"p": next(corrected)})
