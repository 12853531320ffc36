"""Check plateau: several servers have the same rate, so something that they share was the limit."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import pandas as pd

from benchkit import units
from benchkit.judge.check import RATES, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import RunEvidence
from benchkit.models.base import STACK
from benchkit.models.thresholds import Thresholds

MIN_SERVERS = 3
"""Two servers may be equally fast."""

_FACTOR = re.compile(r"\$([A-Za-z_][A-Za-z0-9_-]*)\Z")


@dataclass(frozen=True)
class _Cell:
    """Medians over the trials of a cell."""

    rps: float
    cores: float
    """CPU seconds per second that the server used; NaN: unknown."""
    trial_ids: Sequence[str]


def of_run(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare cells that differ only in their servers by their median rates and CPU use."""
    cells = _cells(evidence.trials)
    results: dict[str, CheckResult] = {}
    for group in _cells_by_load(evidence):
        measured = [cells[cell_id] for cell_id in group if cell_id in cells]
        for cell in measured:
            if isnan(cell.cores):
                results |= dict.fromkeys(cell.trial_ids, SkippedCheck(why="the server's CPU time is unknown"))
        for plateau in _plateaus([cell for cell in measured if not isnan(cell.cores)], thresholds):
            finding = _finding(plateau, thresholds)
            results |= {trial_id: [finding] for cell in plateau for trial_id in cell.trial_ids}
    return results


CHECK = Check("plateau", "several servers have the same rate, limited by something that they share", of_run=of_run)


def _cells(trials: pd.DataFrame) -> dict[str, _Cell]:
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


def _cells_by_load(evidence: RunEvidence) -> list[list[str]]:
    """Group the cells under the same load: those that differ only in factors that their servers refer to."""
    server_factors = {STACK, *_referenced_factors(evidence.manifest.scenario.get("stacks"))}
    groups: dict[tuple[tuple[str, object], ...], list[str]] = {}
    for cell in evidence.manifest.cells:
        load = tuple(sorted((name, level) for name, level in cell.levels.items() if name not in server_factors))
        groups.setdefault(load, []).append(cell.cell_id)
    return list(groups.values())


def _referenced_factors(data: object) -> Iterator[str]:
    if isinstance(data, Mapping):
        for inner in data.values():
            yield from _referenced_factors(inner)
    elif isinstance(data, list | tuple):
        for inner in data:
            yield from _referenced_factors(inner)
    elif isinstance(data, str) and (match := _FACTOR.match(data)):
        yield match[1]


def _plateaus(cells: Sequence[_Cell], thresholds: Thresholds) -> Iterator[Sequence[_Cell]]:
    """Yield groups of at least three cells whose rates agree within the threshold while their CPU use does not."""
    ranked = sorted((cell for cell in cells if not isnan(cell.rps)), key=lambda cell: cell.rps)
    rates = [cell.rps for cell in ranked]
    end = 0
    for start, rate in enumerate(rates):
        reach = bisect_right(rates, rate * (1 + thresholds.plateau_rps))
        if reach - start >= MIN_SERVERS and reach > end:
            plateau = ranked[start:reach]
            cores = [cell.cores for cell in plateau]
            if max(cores) > min(cores) * (1 + thresholds.plateau_cpu):
                end = reach
                yield plateau


def _finding(plateau: Sequence[_Cell], thresholds: Thresholds) -> Finding:
    rates, cores = [cell.rps for cell in plateau], [cell.cores for cell in plateau]
    return Finding(
        severity="suspect",
        metrics=RATES,
        seen=f"{len(plateau)} servers answer {units.rate(min(rates))} to {units.requests_per_s(max(rates))} using "
        f"{min(cores):.2f} to {max(cores):.2f} cores",
        threshold=f"limit: {MIN_SERVERS} servers within {units.share(thresholds.plateau_rps)} whose CPU use differs by more "
        f"than {units.share(thresholds.plateau_cpu)}",
        means="Something that they share was probably the limit: the network, the generator or the load.",
        advice="Compare CPU per request, or find the shared limit and raise it.",
    )
