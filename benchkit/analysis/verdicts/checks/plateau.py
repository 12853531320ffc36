"""Several servers at one rate: something that they share was the limit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pandas as pd

from benchkit import units
from benchkit.analysis.verdicts.check import RATES, Check, Found, FoundInRun, Reason, Unchecked
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.scenario.model import STACK
from benchkit.scenario.thresholds import Thresholds

LEAST_SERVERS = 3
"""Two may be as fast as each other."""

_FACTOR = re.compile(r"\$([A-Za-z_][A-Za-z0-9_-]*)\Z")


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> FoundInRun:
    """Cells that differ in their servers alone, by their median rates and the CPU that those took."""
    trials = evidence.trials[evidence.trials["kind"] == "measure"]
    trials = trials[trials["rate_requested"].isna()]
    cpu = pd.to_numeric(trials["server_cpu_s_per_request"]) * pd.to_numeric(trials["rps"])
    cells = trials.assign(cores=cpu).groupby("cell_id").agg({"rps": "median", "cores": "median"})
    found: dict[str, Found] = {}
    for group in _same_load(evidence):
        known = cells.loc[cells.index.intersection(group)]
        if known["cores"].isna().any():
            lacking = trials.loc[trials["cell_id"].isin(known.index[known["cores"].isna()]), "trial_id"]
            found |= {str(trial): Unchecked(why="the server's CPU time is not known") for trial in lacking}
        for plateau in _plateaus(known.dropna(), thresholds):
            reason = _reason(plateau, thresholds)
            for trial in trials.loc[trials["cell_id"].isin(plateau.index), "trial_id"]:
                found[str(trial)] = [reason]
    return found


CHECK = Check("plateau", "several servers came to one rate, which something that they share held", of_run=of_run)


def _same_load(evidence: RunEvidence) -> list[list[str]]:
    """The cells under the same load: those that differ only in factors that their servers refer to."""
    servers = {STACK, *_referred(evidence.manifest.scenario.get("stacks"))}
    groups: dict[tuple[tuple[str, object], ...], list[str]] = {}
    for cell in evidence.manifest.cells:
        load = tuple(sorted((name, level) for name, level in cell.levels.items() if name not in servers))
        groups.setdefault(load, []).append(cell.cell_id)
    return list(groups.values())


def _referred(data: object) -> Iterator[str]:
    """The factors that a part of a scenario refers to."""
    if isinstance(data, Mapping):
        for inner in data.values():
            yield from _referred(inner)
    elif isinstance(data, list | tuple):
        for inner in data:
            yield from _referred(inner)
    elif isinstance(data, str) and (match := _FACTOR.match(data)):
        yield match[1]


def _plateaus(cells: pd.DataFrame, thresholds: Thresholds) -> Iterator[pd.DataFrame]:
    """Runs of three and more cells, by rate, that lie within the threshold of each other while their CPU use does not."""
    ranked = cells.sort_values("rps")
    rates = ranked["rps"].to_numpy()
    end = 0
    for start in range(len(ranked)):
        reach = int((rates <= rates[start] * (1 + thresholds.plateau_rps)).sum())
        if reach - start >= LEAST_SERVERS and reach > end:
            plateau = ranked.iloc[start:reach]
            if plateau["cores"].max() > plateau["cores"].min() * (1 + thresholds.plateau_cpu):
                end = reach
                yield plateau


def _reason(plateau: pd.DataFrame, thresholds: Thresholds) -> Reason:
    low, high = plateau["rps"].min(), plateau["rps"].max()
    least, most = plateau["cores"].min(), plateau["cores"].max()
    return Reason(
        severity="suspect",
        metrics=RATES,
        seen=f"{len(plateau)} servers answer {units.rate(low)} to {units.requests_per_s(high)} on {least:.2f} to "
        f"{most:.2f} cores",
        threshold=f"{LEAST_SERVERS} and more within {units.share(thresholds.plateau_rps)}, their CPU use more than "
        f"{units.share(thresholds.plateau_cpu)} apart",
        means="What they share was probably the limit: the network, the generator or the load.",
        advice="Compare CPU per request, or find what holds them and widen it.",
    )
