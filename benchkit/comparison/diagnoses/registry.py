"""All diagnoses, in the order in which a cell is examined: the most specific first."""

from __future__ import annotations

from benchkit.comparison.diagnoses import connections, cpus, waiting, work
from benchkit.comparison.diagnoses.diagnosis import Diagnosis
from benchkit.registry import Registry

_ALL = (
    connections.UPSTREAM_CONNECTIONS,
    work.CACHED_ANSWERS,
    connections.NAGLE,
    connections.SYN_RETRANSMITS,
    cpus.QUOTA_PERIODS,
    waiting.LOCK_WAITS,
    cpus.ONE_BUSY,
    cpus.CROWDED_CPUS,
    cpus.SOFTIRQ,
    work.LOG_LINES,
    work.GARBAGE_COLLECTION,
    work.FILE_WRITES,
    work.ANSWER_SIZES,
    cpus.SHARED_CORES,
    cpus.TURBO,
    cpus.CLOCK_RATE,
    waiting.WAITS,
    waiting.CONTEXT_SWITCHES,
)

DIAGNOSES: Registry[Diagnosis] = Registry(
    "benchkit.diagnoses", {each.code: each for each in _ALL}, Diagnosis, lambda each: each.code
)
"""All diagnoses, including plugins' diagnoses, by code."""
