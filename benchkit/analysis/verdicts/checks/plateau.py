"""Several servers at one rate: something that they share was the limit."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import pandas as pd

from benchkit import units
from benchkit.analysis.verdicts.check import RATES, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.analysis.verdicts.evidence import RunEvidence
from benchkit.models.levels import STACK
from benchkit.models.thresholds import Thresholds

LEAST_SERVERS = 3
"""Two may be as fast as each other."""

_FACTOR = re.compile(r"\$([A-Za-z_][A-Za-z0-9_-]*)\Z")


@dataclass(frozen=True)
class _Cell:
    """What the trials of a cell come to."""

    rps: float
    """Their median."""
    cores: float
    """CPU seconds a second that the server took, their median; NaN: not known."""
    trial_ids: Sequence[str]


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Cells that differ in their servers alone, by their median rates and the CPU that those took."""
    cells = _cells(evidence.trials)
    found: dict[str, CheckResult] = {}
    for group in _same_load(evidence):
        known = [cells[cell_id] for cell_id in group if cell_id in cells]
        for cell in known:
            if isnan(cell.cores):
                found |= dict.fromkeys(cell.trial_ids, SkippedCheck(why="the server's CPU time is not known"))
        for plateau in _plateaus([cell for cell in known if not isnan(cell.cores)], thresholds):
            reason = _reason(plateau, thresholds)
            found |= {trial_id: [reason] for cell in plateau for trial_id in cell.trial_ids}
    return found


CHECK = Check("plateau", "several servers came to one rate, which something that they share held", of_run=of_run)


def _cells(trials: pd.DataFrame) -> dict[str, _Cell]:
    """The cells by their measured trials at full speed."""
    trials = trials[(trials["kind"] == "measure") & trials["rate_requested"].isna()]
    rps = pd.to_numeric(trials["rps"])
    cores = pd.to_numeric(trials["server_cpu_s_per_request"]) * rps
    cells = trials["cell_id"].to_numpy()
    medians = pd.DataFrame({"rps": rps, "cores": cores}).groupby(cells).median()
    trial_ids: dict[str, list[str]] = {}
    for cell_id, trial_id in zip(cells, trials["trial_id"].to_list(), strict=True):
        trial_ids.setdefault(str(cell_id), []).append(str(trial_id))
    return {
        str(cell_id): _Cell(rps, cores, trial_ids[str(cell_id)])
        for cell_id, rps, cores in zip(medians.index, *(medians[name].to_list() for name in medians), strict=True)
    }


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


def _plateaus(cells: Sequence[_Cell], thresholds: Thresholds) -> Iterator[Sequence[_Cell]]:
    """Runs of three and more cells, by rate, that lie within the threshold of each other while their CPU use does not."""
    ranked = sorted((cell for cell in cells if not isnan(cell.rps)), key=lambda cell: cell.rps)
    rates = [cell.rps for cell in ranked]
    end = 0
    for start, rate in enumerate(rates):
        reach = bisect_right(rates, rate * (1 + thresholds.plateau_rps))
        if reach - start >= LEAST_SERVERS and reach > end:
            plateau = ranked[start:reach]
            least, most = _range(cell.cores for cell in plateau)
            if most > least * (1 + thresholds.plateau_cpu):
                end = reach
                yield plateau


def _reason(plateau: Sequence[_Cell], thresholds: Thresholds) -> Finding:
    low, high = _range(cell.rps for cell in plateau)
    least, most = _range(cell.cores for cell in plateau)
    return Finding(
        severity="suspect",
        metrics=RATES,
        seen=f"{len(plateau)} servers answer {units.rate(low)} to {units.requests_per_s(high)} on {least:.2f} to "
        f"{most:.2f} cores",
        threshold=f"{LEAST_SERVERS} and more within {units.share(thresholds.plateau_rps)}, their CPU use more than "
        f"{units.share(thresholds.plateau_cpu)} apart",
        means="What they share was probably the limit: the network, the generator or the load.",
        advice="Compare CPU per request, or find what holds them and widen it.",
    )


def _range(values: Iterable[float]) -> tuple[float, float]:
    known = list(values)
    return min(known), max(known)
