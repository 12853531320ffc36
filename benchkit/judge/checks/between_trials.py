"""Checks that compare the trials of a run: cold, plateau, unstable, drifted-host."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import special

from benchkit import units
from benchkit.judge.check import ALL, RATES, Check, CheckResult, Finding, RunCheckResult, SkippedCheck
from benchkit.judge.evidence import Evidence, RunEvidence
from benchkit.judge.run_differences import BLOCK_STAGE, RELEVANT_FACTS
from benchkit.judge.sliced_blocks import balances, relative_to_block
from benchkit.models.base import STACK
from benchkit.models.rows import SliceRow
from benchkit.models.thresholds import Thresholds
from benchkit.stats.inference import ALPHA, MIN_BLOCKS, holm, t_quantile
from benchkit.stats.samples import Reals, is_comparable

MIN_THIRD_S = 1.0
"""In shorter thirds rates vary by more than 10 % even on a server in steady state."""
MIN_SAMPLES = 4
"""Samples needed to bound three thirds."""
MIN_SLICES = 9
"""Slices of a trial, for three in each third."""
MIN_SPAN = 0.6
"""Share of the window between the first and the last sample in it."""


def first_over_last(evidence: Evidence) -> float | None:
    """Return the rate in the first third of the window over that in the last; None where the evidence is missing."""
    thirds = _thirds(evidence)
    if isinstance(thirds, SkippedCheck) or thirds[1] <= 0:
        return None
    return max(thirds[0], 1.0) / thirds[1]  # a third without an answer counts as one with a single answer


def _cold_evidence(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Skip a trial without the evidence that `_cold_cells` compares."""
    thirds = _thirds(evidence)
    return thirds if isinstance(thirds, SkippedCheck) else ()


def _thirds(evidence: Evidence) -> tuple[float, float] | SkippedCheck:
    """Return the requests in the first and the last third of the window.

    The entry server counts its requests. Counts of several processes (Node's workers) are interpolated at the sample
    times of the first, and added. In a sliced block the load tool counts the requests of each slice.
    """
    if evidence.record.slices:
        return _thirds_of_slices(evidence.slices)
    series, window_s = evidence.telemetry.series("requests_total", service=evidence.entry), evidence.window_s
    if not series:
        return SkippedCheck(why="the server does not count its requests")
    if window_s < 3 * MIN_THIRD_S:
        return SkippedCheck(why=f"the window is shorter than {3 * MIN_THIRD_S:g} s: too short to compare start and end")
    samples = [(each.aligned_times(window_s), each.values) for each in series]  # noqa: PD011 - no frame
    t_s = samples[0][0]
    inside = t_s[bisect_left(t_s, 0) : bisect_right(t_s, window_s)]
    if len(inside) < MIN_SAMPLES or inside[-1] - inside[0] < MIN_SPAN * window_s:
        return SkippedCheck(why="the server's request count was sampled too seldom to compare start and end")
    served = np.sum([np.interp(inside, *each) for each in samples], axis=0)
    third_s = (inside[-1] - inside[0]) / 3
    first = float(np.interp(inside[0] + third_s, inside, served)) - float(served[0])
    return first, float(served[-1]) - float(np.interp(inside[-1] - third_s, inside, served))


def _thirds_of_slices(slices: Sequence[SliceRow]) -> tuple[float, float] | SkippedCheck:
    if len(slices) < MIN_SLICES:
        return SkippedCheck(why=f"{units.counted(len(slices), 'slice')}: needs at least {MIN_SLICES}")
    requests = [each.requests for each in slices]
    if None in requests:
        return SkippedCheck(why="the requests of a slice are unknown")
    third = len(slices) // 3
    first, last = (float(sum(each or 0 for each in part)) for part in (requests[:third], requests[-third:]))
    return first, last


def _cold_cells(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare the first third of the window with the last, over all trials of a cell.

    Each trial starts its servers afresh. A server that has to warm up does so in every trial. A host whose speed drifts
    makes one trial faster and the next slower. The geometric mean of the ratios must be below the threshold. From three
    trials up it must also be below one by a one-sided t test, by Holm over the cells. All trials of a cell are cold, or
    none: excluding only those in which the rate rose would select trials by value. In a sliced block a ratio is
    relative to the ratios of the block's other cells.
    """
    trials = evidence.trials[is_comparable(evidence.trials)]
    ratios = relative_to_block(trials, "rate_first_over_last")
    known = [rows[~np.isnan(ratios[rows])] for rows in map(np.asarray, trials.groupby("cell_id").indices.values())]
    cells = [rows for rows in known if len(rows)]
    p_values = holm([_p_of_a_rise(np.log(ratios[rows])) for rows in cells])
    trial_ids = trials["trial_id"].to_list()
    return {
        str(trial_ids[row]): [_cold_finding(ratios[rows], thresholds.cold)]
        for rows, p in zip(cells, p_values, strict=True)
        if math.exp(np.log(ratios[rows]).mean()) < 1 - thresholds.cold and (len(rows) < MIN_BLOCKS or p <= ALPHA)
        for row in rows
    }


COLD = Check("cold", "the server was still warming up", of_trial=_cold_evidence, reads="hosts", of_run=_cold_cells)


def _p_of_a_rise(logs: Reals) -> float:
    """Return the p of Student's one-sided t test that rates rose; 1 where there are too few for it."""
    if len(logs) < MIN_BLOCKS:
        return 1.0
    error, mean = float(logs.std(ddof=1)) / math.sqrt(len(logs)), float(logs.mean())
    return float(special.stdtr(len(logs) - 1, mean / error)) if error else float(mean >= 0)


def _cold_finding(ratios: Reals, threshold: float) -> Finding:
    decrease = 1 - math.exp(float(np.log(ratios).mean()))
    trials = f"over {len(ratios)} trials of the cell" if len(ratios) > 1 else "in the only trial of the cell"
    return Finding(
        severity="invalid",
        metrics=ALL,
        seen=f"{trials} the server answered {units.share(decrease)} fewer requests in the first third of the window than "
        "in the last",
        threshold=f"limit: {units.share(threshold)}",
        means="It was still warming up: its rate depends on when the window begins.",
        advice="Warm up longer (load: warmup_s) or measure longer.",
    )


MIN_SERVERS = 3
"""Two servers may be equally fast."""


def _plateaus(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Look for at least three cells that differ only in their stack, with equal median rates and other CPU use."""
    trials = evidence.trials[(evidence.trials["kind"] == "measure") & evidence.trials["rate_requested"].isna()]
    rps = pd.to_numeric(trials["rps"])
    values = pd.DataFrame({"rps": rps, "cores": rps * pd.to_numeric(trials["server_cpu_s_per_request"])})
    medians = values.groupby(trials["cell_id"]).median().dropna()
    cells_by_load: dict[tuple[tuple[str, object], ...], list[str]] = {}
    for cell in evidence.manifest.cells:
        if cell.cell_id in medians.index:
            load = tuple(sorted((name, level) for name, level in cell.levels.items() if name != STACK))
            cells_by_load.setdefault(load, []).append(cell.cell_id)
    results: dict[str, CheckResult] = {}
    for cells in cells_by_load.values():
        ranked = medians.loc[cells].sort_values("rps")
        for slowest in ranked["rps"]:
            alike = ranked[ranked["rps"].between(slowest, slowest * (1 + thresholds.plateau_rps))]
            cores = alike["cores"]
            if len(alike) >= MIN_SERVERS and cores.max() > cores.min() * (1 + thresholds.plateau_cpu):
                rates = alike["rps"]
                finding = Finding(
                    severity="suspect",
                    metrics=RATES,
                    seen=f"{len(alike)} servers answer {units.rate(rates.min())} to {units.requests_per_s(rates.max())} using "
                    f"{cores.min():.2f} to {cores.max():.2f} cores",
                    threshold=f"limit: {MIN_SERVERS} servers within {units.share(thresholds.plateau_rps)} whose CPU use differs "
                    f"by more than {units.share(thresholds.plateau_cpu)}",
                    means="Something that they share was probably the limit: the network, the generator or the load.",
                    advice="Compare CPU per request, or find the shared limit and raise it.",
                )
                of_cells = trials.loc[trials["cell_id"].isin(alike.index), "trial_id"]
                results = {trial_id: [finding] for trial_id in map(str, of_cells)} | results
    return results


PLATEAU = Check("plateau", "several servers have the same rate, limited by something that they share", of_run=_plateaus)


REFERENCE_BLOCKS = 6
"""Number of trials for which the threshold `spread` holds."""


def _unstable_cells(evidence: RunEvidence, thresholds: Thresholds) -> RunCheckResult:
    """Compare the spread of each cell's rates, the standard deviation of their logarithms, with the threshold.

    At the limit for n trials, the interval of a ratio is as wide as at the threshold for six. In sliced blocks, the
    spread is of the log-ratio of a cell's rate to the other cells' rates, in blocks that have all cells. It includes
    the noise of two cells.
    """
    results: dict[str, CheckResult] = {}
    trials = evidence.trials[is_comparable(evidence.trials)]
    in_blocks = {each.trial_id: each.log_ratio for each in balances(trials, "rps", np.log) if each.is_complete}
    for _, of_cell in trials.groupby("cell_id"):
        ids = list(map(str, of_cell["trial_id"]))
        usable = of_cell[pd.to_numeric(of_cell["rps"]) > 0]
        rates = usable["rps"].to_numpy(dtype=np.float64)
        is_sliced = bool(usable["slices"].notna().all())
        logs: Reals = np.log(rates)
        if is_sliced:
            logs = np.array(
                [in_blocks[each] for each in map(str, usable["trial_id"]) if each in in_blocks]
            ) / math.sqrt(2)
        if len(logs) < MIN_BLOCKS:
            why = f"{units.counted(len(logs), 'trial')} of the cell: needs at least {MIN_BLOCKS} trials"
            results |= dict.fromkeys(ids, SkippedCheck(why=why))
            continue
        spread = float(np.std(logs, ddof=1))
        limit = thresholds.spread * _half_width(REFERENCE_BLOCKS) / _half_width(len(logs))
        if spread > limit:
            finding = _unstable_finding(spread, limit, rates, is_sliced=is_sliced)
            results |= {trial_id: [finding] for trial_id in ids}
    return results


UNSTABLE = Check("unstable", "its rate varies a lot between repetitions", of_run=_unstable_cells)


def _half_width(blocks: int) -> float:
    """Return the half-width of a mean's interval in standard deviations of a block."""
    return t_quantile(1 - ALPHA, blocks - 1) / math.sqrt(blocks)


def _unstable_finding(spread: float, limit: float, rates: Reals, *, is_sliced: bool) -> Finding:
    ratio_half_width = math.expm1(math.sqrt(2) * spread * _half_width(len(rates)))  # a ratio has the noise of two cells
    return Finding(
        severity="suspect",
        metrics=RATES,
        seen=f"{units.counted(len(rates), 'trial')} of the cell range from {units.rate(rates.min())} to "
        f"{units.requests_per_s(rates.max())}, with a standard deviation of {units.share(math.expm1(spread))}"
        + (" relative to the others of their blocks" if is_sliced else ""),
        threshold=f"limit: {units.share(math.expm1(limit))} for {len(rates)} trials",
        means=f"Ratio of two such cells \N{PLUS-MINUS SIGN} {units.share(ratio_half_width)}: smaller differences cannot be "
        "shown.",
        advice="Find what varies from trial to trial; more blocks help only with the square root of their number.",
    )


_PROGRAM = re.compile(r"executables\.(.+)")
"""Sizes and times of program files: comparable within one host, not between hosts."""
_END = math.inf
"""Block of the reading after the last block, before settings are restored: its changes happened in the last block."""
_SHOWN_CHANGES = 3

Facts = dict[tuple[str, str], str | None]
"""Values by host and fact."""


def _drifted_blocks(evidence: RunEvidence, _thresholds: Thresholds) -> RunCheckResult:
    """Compare the facts of each host before every block, and after the last, with those before the first."""
    facts_at = _facts_by_block(evidence.hosts)
    trials = evidence.trials
    if all(block == _END for block in facts_at):
        skipped = SkippedCheck(why="host facts were not read between blocks")
        return dict.fromkeys(map(str, trials["trial_id"]), skipped)
    first, last = min(facts_at), max(block for block in facts_at if block != _END)
    results: dict[str, CheckResult] = {}
    for read_at in sorted(facts_at):
        changes = _changes(facts_at[first], facts_at[read_at])
        if changes:
            block = last if read_at == _END else read_at
            of_block = map(str, trials.loc[trials["block"] == block, "trial_id"])
            finding = Finding(
                severity="suspect",
                metrics=ALL,
                seen=units.first_of(changes, _SHOWN_CHANGES, "; "),
                threshold=f"limit: unchanged since block {first:.0f}",
                means="Blocks before and after the change ran under different conditions; ratios within a block stay valid.",
                advice="Find out who changed it, and run again when nobody else uses the host.",
            )
            results = {trial_id: [finding] for trial_id in of_block} | results
    return results


DRIFTED_HOST = Check(
    "drifted-host", "compared trials ran under different conditions", of_run=_drifted_blocks, reads="hosts"
)


def _facts_by_block(hosts: pd.DataFrame) -> dict[float, Facts]:
    """Return the relevant facts of all hosts by the block before which they were read."""
    by_block: dict[float, Facts] = {}
    for host, at, fact, value in zip(hosts["host"], hosts["at"], hosts["fact"], hosts["value"], strict=True):
        block = BLOCK_STAGE.fullmatch(str(at))
        if (block or at == "end") and (RELEVANT_FACTS.fullmatch(str(fact)) or _PROGRAM.fullmatch(str(fact))):
            when = float(block[1]) if block else _END
            by_block.setdefault(when, {})[str(host), str(fact)] = None if pd.isna(value) else str(value)
    return by_block


def _changes(before: Facts, after: Facts) -> list[str]:
    """Return the differences of hosts that both readings have; a fact may be absent from one."""
    common = {host for host, _ in before} & {host for host, _ in after}
    return [
        f"the fact {fact} of host {host} was {before.get((host, fact)) or 'absent'}, "
        f"is {after.get((host, fact)) or 'absent'}"
        for host, fact in sorted(before.keys() | after.keys())
        if host in common and before.get((host, fact)) != after.get((host, fact))
    ]
