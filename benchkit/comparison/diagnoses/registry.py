"""All diagnoses, in the order in which a cell is examined: the most specific first."""

from __future__ import annotations

from benchkit.comparison.diagnoses import (
    answer_sizes,
    cached_answers,
    clock_rate,
    context_switches,
    crowded_cpus,
    file_writes,
    garbage_collection,
    lock_waits,
    log_lines,
    nagle,
    one_busy,
    quota_periods,
    shared_cores,
    softirq,
    syn_retransmits,
    turbo,
    upstream_connections,
    waits,
)
from benchkit.comparison.diagnoses.diagnosis import Diagnosis
from benchkit.registry import Registry

_ALL = (
    upstream_connections.DIAGNOSIS,
    cached_answers.DIAGNOSIS,
    nagle.DIAGNOSIS,
    syn_retransmits.DIAGNOSIS,
    quota_periods.DIAGNOSIS,
    lock_waits.DIAGNOSIS,
    one_busy.DIAGNOSIS,
    crowded_cpus.DIAGNOSIS,
    softirq.DIAGNOSIS,
    log_lines.DIAGNOSIS,
    garbage_collection.DIAGNOSIS,
    file_writes.DIAGNOSIS,
    answer_sizes.DIAGNOSIS,
    shared_cores.DIAGNOSIS,
    turbo.DIAGNOSIS,
    clock_rate.DIAGNOSIS,
    waits.DIAGNOSIS,
    context_switches.DIAGNOSIS,
)

DIAGNOSES: Registry[Diagnosis] = Registry(
    "benchkit.diagnoses", {each.code: each for each in _ALL}, Diagnosis, lambda each: each.code
)
"""All diagnoses, including plugins' diagnoses, by code."""
