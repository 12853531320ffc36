"""The interface of a check; `benchkit.judge.checks.registry` lists all checks.

A check reads evidence and returns findings: none where it sees nothing wrong. Where evidence is missing it returns a
`SkippedCheck`: "not checked" differs from "nothing wrong".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from benchkit.judge.evidence import Evidence, RunEvidence, Severity
from benchkit.models.base import Frozen
from benchkit.models.metrics import LATENCIES, metric_named
from benchkit.models.thresholds import Thresholds

Verdict = Literal["valid", "suspect", "invalid"]

RATES = ("rps", "requests", "bytes_per_s", "bytes_total", "handshakes_per_s")
PARTS = ("connect_mean_s", "processing_mean_s", "first_byte_mean_s")
"""Parts of the mean latency, where the load tool states them."""
LOAD = (*RATES, *LATENCIES, *PARTS)
"""Metrics that the load tool measured; unusable where something other than the server was the limit."""
SERVER_CPU = (
    "server_cpu_s_per_request",
    "server_cpu_s_per_handshake",
    "main_process_cpu_s_per_request",
    "server_switches_per_request",
)
ALL = (*LOAD, *SERVER_CPU, "generator_cpu_s_per_request", "server_memory_bytes", "goroutine_wait_mean_s")
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "all figures": ALL,
        "rates and latencies": LOAD,
        "rates": RATES,
        "latencies": LATENCIES,
        "parts of the latency": PARTS,
        "CPU time of the servers": SERVER_CPU,
    }
)
"""Groups of metrics that findings affect together, by name, the largest first."""


def describe_metrics(metrics: Iterable[str]) -> str:
    """Return the titles of metrics; a complete group has one name."""
    rest, names = dict.fromkeys(metrics), []
    for name, group in GROUPS.items():
        if rest.keys() >= set(group):
            names.append(name)
            rest = {each: None for each in rest if each not in group}
    return ", ".join((*names, *(metric_named(each).title for each in rest)))


class Finding(Frozen):
    """A problem of a trial, and the metrics that it affects."""

    severity: Severity
    metrics: tuple[str, ...]
    """Columns of `trials` that are unusable (`invalid`) or doubtful (`suspect`)."""
    seen: str
    """The observation, with its figures: a clause."""
    threshold: str
    """The limit that it exceeds: a clause."""
    means: str
    """The consequence for the metrics: a sentence."""
    advice: str
    """The remedy: a sentence."""

    @property
    def text(self) -> str:
        """Observation, limit, consequence and remedy, as sentences."""
        return f"{self.seen[:1].upper()}{self.seen[1:]} ({self.threshold}). {self.means} {self.advice}"


class SkippedCheck(Frozen):
    """A check that could not be made; `why` is a clause that names the missing evidence."""

    why: str


CheckResult = Sequence[Finding] | SkippedCheck
"""Result of a check on one trial."""

RunCheckResult = Mapping[str, CheckResult]
"""Results of a check on a whole run, by trial_id; trials without findings may be absent."""


@dataclass(frozen=True)
class Check:
    """A way in which a measurement can be wrong, and the functions that detect it."""

    code: str
    because: str
    """Clause that completes "The number is wrong because …"."""
    of_trial: Callable[[Evidence, Thresholds], CheckResult] | None = field(default=None, repr=False)
    """Detection within a single trial; None: only trials compared with each other show it."""
    reads: Literal["load", "hosts", "servers"] = "load"
    """Evidence that it needs: of the load alone, of all hosts too, or of the servers' hosts too."""
    of_run: Callable[[RunEvidence, Thresholds], RunCheckResult] | None = field(default=None, repr=False)
    """Detection by comparing all trials of a run; None: a single trial shows it."""
