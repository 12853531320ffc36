"""All checks, in the order in which their findings are shown."""

from __future__ import annotations

from benchkit.judge.check import Check
from benchkit.judge.checks import (
    capacity_found,
    changed_response,
    cold,
    conditions,
    drifted_host,
    load_tool,
    noisy_host,
    plateau,
    slices,
    throttled,
    unequal_responses,
    unstable,
)
from benchkit.judge.checks.limits import LIMIT_CHECKS
from benchkit.registry import Registry

_ALL = (
    conditions.OBSERVED,
    LIMIT_CHECKS["overran"],
    conditions.SERVICE_RESTARTED,
    conditions.ESCAPED_CHILDREN,
    LIMIT_CHECKS["errors"],
    LIMIT_CHECKS["other-sizes"],
    unequal_responses.CHECK,
    changed_response.CHECK,
    conditions.PROTOCOL_MISMATCH,
    LIMIT_CHECKS["handshake-share"],
    LIMIT_CHECKS["missing-connections"],
    LIMIT_CHECKS["missing-noise"],
    LIMIT_CHECKS["ports-exhausted"],
    LIMIT_CHECKS["accept-overflow"],
    LIMIT_CHECKS["udp-drops"],
    LIMIT_CHECKS["generator-saturated"],
    load_tool.UNEVEN_LOAD,
    LIMIT_CHECKS["link-saturated"],
    load_tool.RATE_HELD,
    capacity_found.CHECK,
    load_tool.TOOL_LIMIT,
    LIMIT_CHECKS["littles-law"],
    throttled.CHECK,
    noisy_host.CHECK,
    LIMIT_CHECKS["stalled"],
    conditions.SHARED_CPUS,
    LIMIT_CHECKS["server-idle"],
    slices.BUSY_NEIGHBOUR,
    slices.CARRY_OVER,
    LIMIT_CHECKS["few-requests-in-slice"],
    slices.DISTURBED_SLICE,
    cold.CHECK,
    load_tool.TOO_FEW_SAMPLES,
    plateau.CHECK,
    unstable.CHECK,
    drifted_host.CHECK,
)

CHECKS: Registry[Check] = Registry(
    "benchkit.checks", {check.code: check for check in _ALL}, Check, lambda check: check.code
)
"""All checks, those of plugins too, by code."""


def check_order(check: str) -> int:
    """Return the position of a check in lists of findings; checks of another version come last."""
    return list(CHECKS).index(check) if check in CHECKS else len(CHECKS)
