"""Disagreement of load tools about the same cell, compared with the spread among trials of one tool.

Tools measure one server under one load, each in its own way: their figures differ because the tools differ, and because
trials differ. A permutation test within blocks separates the two (R. A. Fisher, The Design of Experiments, section 21).
If tools were equal, their names could be exchanged among the trials of a block. The p-value is the share of such
exchanges that give at least the observed distance between tools. Exchanges are drawn at random, and the observed order
is one of them (B. Phipson and G. K. Smyth, Permutation p-values should never be zero, 2010). The distance is the sum of
squares of the tools' mean logarithms, relative to the mean of their block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.comparison.runs.run_data import StoredFinding
from benchkit.models.base import Frozen, level_text
from benchkit.models.metrics import P50, P99, metric_named
from benchkit.stats.samples import STEPS

COMPARED = ("rps", "latency_mean_s", P50, P99, "server_cpu_s_per_request", "generator_cpu_s_per_request")
"""Columns of `trials` in which tools can disagree."""
STEPPED = frozenset({"latency_mean_s", P50, P99})
ALPHA = 0.05
DRAWS = 9_999
LEAST_BLOCKS = 2
"""Smallest number of blocks that can separate noise from differences."""
TOOL_CHECKS = frozenset({"generator-saturated", "server-idle", "littles-law", "tool-limit"})
"""Checks that invalidate a trial because of a limit of its load tool. These trials are used: the limit is a reason why
tools disagree."""
_FACTOR = "factor_"


class ToolFigures(Frozen):
    """One metric over the trials of one tool."""

    tool: str
    trials: int
    median: float
    lowest: float
    highest: float


class Agreement(Frozen):
    """Disagreement of tools about a metric of one cell."""

    levels: Mapping[str, str]
    """Levels that the compared cells have in common, by factor."""
    metric: str
    tools: tuple[ToolFigures, ...]
    excluded_tools: Mapping[str, str]
    """Tools that are not compared, and why."""
    blocks: int
    """Number of blocks in which every tool has a trial."""
    between: float
    """Highest of the tools' medians over the lowest."""
    within: float
    """Highest trial over the lowest of one tool, for the tool with the largest spread."""
    p: float | None
    """Probability that equal tools differ at least as much, adjusted for all metrics and cells (Holm);
    None with too few blocks.
    """

    @property
    def beyond_noise(self) -> bool | None:
        """True if the tools disagree by more than noise explains; None if that is unknown."""
        return None if self.p is None else self.p < ALPHA


def title_and_format(metric: str) -> tuple[str, Callable[[float | None], str]]:
    """Return the title of a metric for the start of a sentence, and the function that formats its values."""
    known = metric_named(metric)
    first, rest = known.title[:1], known.title[1:]
    return (first if rest[:1].isdigit() else first.upper()) + rest, known.format  # p50 stays p50


def sentence(agreement: Agreement) -> str:
    """Return the result as a sentence, including what it does not prove."""
    title, shown = title_and_format(agreement.metric)
    low, high = (pick(agreement.tools, key=lambda each: each.median) for pick in (min, max))
    span = (
        f"medians from {shown(low.median)} ({low.tool}) to {shown(high.median)} ({high.tool}), "
        f"a factor of {units.ratio(agreement.between)}; trials of one tool differ by up to {units.ratio(agreement.within)}"
    )
    if agreement.beyond_noise is None:
        return f"{title}: {span}. {units.counted(agreement.blocks, 'block').capitalize()} cannot show whether that is noise."
    p_value = f"p = {agreement.p:.2g}, {units.counted(agreement.blocks, 'block')}"
    if agreement.beyond_noise:
        return f"{title}: the tools disagree beyond noise: {span} ({p_value})."
    return (
        f"{title}: no disagreement beyond noise is shown: {span} ({p_value}). This does not prove that the tools agree."
    )


def agreements(trials: pd.DataFrame, findings: Iterable[StoredFinding] = ()) -> tuple[Agreement, ...]:
    """Compare the tools of a run; empty if no cells differ only in their tool.

    `trials` is the stored table with its `factor_<name>` columns, `findings` the findings about its trials. Trials are
    excluded that other checks than `TOOL_CHECKS` invalidate.
    """
    measured = trials[trials["kind"] == "measure"]
    factors = [str(name) for name in measured.columns if name.startswith(_FACTOR)]
    by_tool = next((name for name in factors if (measured[name].astype(str) == measured["tool"]).all()), None)
    if by_tool is None or measured.empty:
        return ()
    invalid = [each for each in findings if each.severity == "invalid" and each.check not in TOOL_CHECKS]
    others = [name for name in factors if name != by_tool]
    groups = measured.groupby(others, sort=False, dropna=False) if others else [((), measured)]
    found = [
        agreement
        for key, rows in groups
        for metric in COMPARED
        if metric in measured
        and (
            agreement := _agreement(
                {name.removeprefix(_FACTOR): _text(level) for name, level in zip(others, key, strict=True)},
                metric,
                rows,
                {each.trial_id for each in invalid if metric in each.metrics},
            )
        )
        is not None
    ]
    return tuple(_with_adjusted_p(found))


def _text(level: Any) -> str:  # noqa: ANN401 - what a column of levels holds
    """Return a level as the scenario writes it; pandas stores whole numbers as floats."""
    return level_text(int(level) if isinstance(level, float) and level.is_integer() else level)


def _agreement(levels: Mapping[str, str], metric: str, every: pd.DataFrame, invalid: set[str]) -> Agreement | None:
    excluded_tools: dict[str, str] = {}
    figures: list[ToolFigures] = []
    rows = every[~every["trial_id"].isin(invalid)]
    for tool in dict.fromkeys(map(str, every["tool"])):
        of_tool = rows[rows["tool"] == tool]
        values = pd.to_numeric(of_tool[metric]).astype("float64")
        step_s = float(pd.to_numeric(of_tool["latency_resolution_s"]).fillna(0.0).max()) if metric in STEPPED else 0.0
        if values.empty:
            excluded_tools[tool] = "all of its trials are invalid"
        elif bool(values.isna().any()):
            excluded_tools[tool] = "not every trial reports this metric"
        elif not bool((values > STEPS * step_s).all()):
            excluded_tools[tool] = f"a trial has a value of at most {STEPS} times its resolution"
        else:
            spread = {"lowest": float(values.min()), "highest": float(values.max())}
            figures.append(ToolFigures(tool=tool, trials=len(values), median=float(values.median()), **spread))
    if len(figures) < 2:  # noqa: PLR2004 - two to compare
        return None
    compared = rows[rows["tool"].isin([each.tool for each in figures])]
    table = compared.pivot_table(index="block", columns="tool", values=metric).dropna()
    medians = [each.median for each in figures]
    return Agreement(
        levels=levels,
        metric=metric,
        tools=tuple(figures),
        excluded_tools=excluded_tools,
        blocks=len(table),
        between=max(medians) / min(medians),
        within=max(each.highest / each.lowest for each in figures),
        p=_permutation_p(np.log(table.to_numpy())) if len(table) >= LEAST_BLOCKS else None,
    )


def _permutation_p(logs: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the p-value of a table of blocks (rows) by tools (columns), by draws from a fixed seed."""
    centred = logs - logs.mean(axis=1, keepdims=True)
    observed = float((centred.mean(axis=0) ** 2).sum())
    drawn = np.random.default_rng(0).permuted(np.broadcast_to(centred, (DRAWS, *centred.shape)), axis=2)
    far = (drawn.mean(axis=1) ** 2).sum(axis=1)
    return float((1 + np.count_nonzero(far >= observed * (1 - 1e-12))) / (1 + DRAWS))


def _with_adjusted_p(found: Sequence[Agreement]) -> Iterator[Agreement]:
    p_values = [each.p for each in found if each.p is not None]
    if not p_values:
        yield from found
        return
    from benchkit.stats.inference import holm  # noqa: PLC0415 - it imports SciPy, which is slow, and most runs have one tool

    corrected = iter(holm(p_values))
    for each in found:
        yield each if each.p is None else each.model_copy(update={"p": next(corrected)})
