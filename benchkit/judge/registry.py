"""All checks, in the order in which their findings are shown."""

from __future__ import annotations

from benchkit.judge.check import Check
from benchkit.judge.checks import (
    accept_overflow,
    busy_neighbour,
    capacity_found,
    carry_over,
    changed_response,
    cold,
    disturbed_slice,
    drifted_host,
    errors,
    few_requests_in_slice,
    generator_saturated,
    handshake_share,
    link_saturated,
    littles_law,
    missing_connections,
    noisy_host,
    observed,
    overran,
    plateau,
    ports_exhausted,
    protocol_mismatch,
    rate_held,
    server_idle,
    service_restarted,
    shared_cpus,
    stalled,
    throttled,
    too_few_samples,
    tool_limit,
    unequal_responses,
    uneven_load,
    unstable,
)
from benchkit.registry import Registry

_ALL = (
    observed,
    overran,
    service_restarted,
    errors,
    unequal_responses,
    changed_response,
    protocol_mismatch,
    handshake_share,
    missing_connections,
    ports_exhausted,
    accept_overflow,
    generator_saturated,
    uneven_load,
    link_saturated,
    rate_held,
    capacity_found,
    tool_limit,
    littles_law,
    throttled,
    noisy_host,
    stalled,
    shared_cpus,
    server_idle,
    busy_neighbour,
    carry_over,
    few_requests_in_slice,
    disturbed_slice,
    cold,
    too_few_samples,
    plateau,
    unstable,
    drifted_host,
)

CHECKS: Registry[Check] = Registry(
    "benchkit.checks", {module.CHECK.code: module.CHECK for module in _ALL}, Check, lambda check: check.code
)
"""All checks, those of plugins too, by code."""
