"""Evaluation of claims by intervals, not by point estimates: holds, refuted, undecided or not testable here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from benchkit.comparison.notes import with_cell_notes, with_findings, with_response_notes
from benchkit.comparison.ratios import Ratio, block_ratios
from benchkit.comparison.run_data import RunData
from benchkit.errors import InputError
from benchkit.models.base import Frozen, cpu_places
from benchkit.models.claims import Claim, Need, claims_of
from benchkit.models.profile import PROFILE_METRICS
from benchkit.models.run import HostRecord, Manifest
from benchkit.stats.cell_pairs import claim_pairs
from benchkit.stats.samples import take_samples

ClaimState = Literal["holds", "refuted", "undecided", "not testable here"]


class ClaimResult(Frozen):
    """Result of a claim; `ratios` are the measured ones, each with its interval."""

    text: str
    expectation: str
    expected: tuple[float | None, float | None] = (None, None)
    """Smallest and largest ratio that the claim allows; None: no limit on that side."""
    metric: str
    published: float | None
    state: ClaimState
    reason: str
    ratios: tuple[Ratio, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on its ratios, each once."""
        return tuple(dict.fromkeys(note for ratio in self.ratios for note in ratio.notes))

    @property
    def sentence(self) -> str:
        """State and figures: `holds: 0.91 [0.88, 0.94]: at least 0.9, published 0.95`."""
        published = "" if self.published is None else f", published {self.published:g}"
        return f"{self.state}: {self.reason}{published}"


def judge_claims(data: RunData) -> tuple[ClaimResult, ...]:
    """Evaluate every claim of the scenario that was run, in the order of its file.

    The confidence of each is that of its interval: claims are independent statements, not a family.
    """
    return tuple(judge_claim(claim, data) for claim in claims_of(data.manifest.scenario))


def judge_claim(claim: Claim, data: RunData) -> ClaimResult:
    """Evaluate one claim: it holds if every interval lies in what it allows, and is refuted if one lies outside.

    Only cells that the hosts support are used; without any the claim is not testable. Any one of several ratios can
    refute: for that their intervals are widened for their number (Bonferroni).
    """
    result = ClaimResult(
        text=claim.text,
        expectation=claim.expectation,
        expected=claim.expected,
        metric=claim.metric,
        published=claim.published,
        state="not testable here",
        reason="",
    )
    unmet = "; ".join(_unmet_needs(claim, data.manifest))
    if unmet:
        return result.model_copy(update={"reason": unmet})
    try:
        pairs = claim_pairs(claim.ratio, data.manifest.cells)
    except InputError as error:
        return result.model_copy(update={"reason": f"{error.what} in this run"})
    unsupported = {cell.cell_id: cell.unsupported for cell in data.manifest.cells if cell.unsupported}
    missing = [cell_id for pair in pairs for cell_id in (pair.cell_id, pair.baseline) if cell_id in unsupported]
    pairs = [pair for pair in pairs if not {pair.cell_id, pair.baseline} & unsupported.keys()]
    # These hosts may not support some levels: then the claim is about the others, and says so.
    if not pairs:
        return result.model_copy(update={"reason": f"{missing[0]} was skipped: {unsupported[missing[0]]}"})
    trials, excluded = data.trials, data.exclusions
    if claim.metric in PROFILE_METRICS:
        if data.profiled is None:
            return result.model_copy(update={"reason": "no trial was profiled"})
        trials, excluded = data.profiled.trials, data.profiled.exclusions
    samples = take_samples(trials, claim.metric, excluded)
    ratios = with_response_notes(block_ratios(samples, pairs, data.alpha), data.trials, data.manifest)
    ratios = with_cell_notes(with_findings(ratios, {data.manifest.run_id: data.basis}), data.manifest.cells)
    state, reason = _judge_intervals(claim, ratios, data.alpha)
    if data.limitation:
        state, reason = "undecided", data.limitation
    if missing:
        reason += f" (without {_describe_unsupported(missing, unsupported)})"
    return result.model_copy(update={"state": state, "reason": reason, "ratios": tuple(ratios)})


def _describe_unsupported(missing: Iterable[str], unsupported: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for cell_id in dict.fromkeys(missing):
        by_reason.setdefault(unsupported[cell_id], []).append(cell_id)
    return "; ".join(f"{' and '.join(cells)}: {why}" for why, cells in by_reason.items())


def _judge_intervals(claim: Claim, ratios: Sequence[Ratio], level: float) -> tuple[ClaimState, str]:
    low, high = claim.expected
    states: list[ClaimState] = []
    for ratio in ratios:
        if ratio.low is None or ratio.high is None:
            states.append("undecided")
            continue
        inside = (low is None or ratio.low >= low) and (high is None or ratio.high <= high)
        least, most = ratio.interval(level / len(ratios))
        outside = (low is not None and most < low) or (high is not None and least > high)
        states.append("refuted" if outside else "holds" if inside else "undecided")
    shown = "; ".join(_interval(ratio, named=len(ratios) > 1) for ratio in ratios)
    if "refuted" in states:
        return "refuted", f"{shown}: outside {claim.expectation}"
    if any(ratio.low is None for ratio in ratios):
        return "undecided", shown
    if "undecided" in states:
        return "undecided", f"{shown}: includes the limit of {claim.expectation}"
    return "holds", f"{shown}: {claim.expectation}"


def _interval(ratio: Ratio, *, named: bool) -> str:
    name = f"{ratio.cell_id} relative to {ratio.baseline}: " if named else ""
    if ratio.low is None:
        return name + (ratio.reason or "no interval")
    return f"{name}{ratio.ratio:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]"


def _unmet_needs(claim: Claim, manifest: Manifest) -> Iterator[str]:
    for role, need in claim.needs.items():
        for host in manifest.hosts:
            if role in host.roles:
                yield from _unmet_need(need, host, _role_cpus(manifest, role))


def _unmet_need(need: Need, host: HostRecord, most_cpus: float) -> Iterator[str]:
    cpus = min(len(host.facts.cpus), most_cpus)
    if need.cpus is not None and cpus < need.cpus:
        yield f"needs {need.cpus} CPUs on {host.name}, which has {cpus:g}"
    memory = host.facts.memory_bytes
    if need.memory_bytes is not None and (memory is None or memory < need.memory_bytes):
        yield f"needs {need.memory_bytes:g} bytes of memory on {host.name}, which has {memory or 'unknown'}"
    link = _link(host)
    known = "whose link speed is unknown; set link_bps" if link is None else f"which has {link:g}"
    if need.link_bps is not None and (link is None or link < need.link_bps):
        yield f"needs a link of {need.link_bps:g} bit/s on {host.name}, {known}"
    if need.link_at_most_bps is not None and (link is None or link > need.link_at_most_bps):
        yield f"needs a link of at most {need.link_at_most_bps:g} bit/s on {host.name}, {known}"


def _role_cpus(manifest: Manifest, role: str) -> float:
    """Return the number of CPUs that the scenario lets the role use, by placement and quota; infinite: all of them."""
    asked = (manifest.scenario.get("roles") or {}).get(role) or {}
    cpus, quota = asked.get("cpus"), asked.get("quota")
    if isinstance(cpus, str) and cpus != "all":
        cpus = len(cpu_places(cpus))
    return min((each for each in (cpus, quota) if isinstance(each, int | float)), default=math.inf)


def _link(host: HostRecord) -> float | None:
    """Return the rate of a host's link: the recorded cap of a lab or inventory, else that of its fastest interface."""
    if host.facts.link_bps is not None:
        return host.facts.link_bps
    return max((interface.speed_bps for interface in host.facts.interfaces if interface.speed_bps), default=None)
