"""All checks, in the order in which their findings are shown."""

from __future__ import annotations

from benchkit.judge.check import Check
from benchkit.judge.checks import between_trials, conditions, disturbances, load_tool, responses, slices
from benchkit.judge.checks.limits import LIMIT_CHECKS
from benchkit.registry import Registry

_ALL = (
    conditions.OBSERVED,
    conditions.SERVICE_RESTARTED,
    LIMIT_CHECKS["errors"],
    responses.UNEQUAL_RESPONSES,
    responses.CHANGED_RESPONSE,
    conditions.PROTOCOL_MISMATCH,
    LIMIT_CHECKS["handshake-share"],
    LIMIT_CHECKS["missing-connections"],
    LIMIT_CHECKS["ports-exhausted"],
    LIMIT_CHECKS["accept-overflow"],
    LIMIT_CHECKS["generator-saturated"],
    LIMIT_CHECKS["link-saturated"],
    load_tool.RATE_HELD,
    load_tool.CAPACITY_FOUND,
    load_tool.TOOL_LIMIT,
    LIMIT_CHECKS["littles-law"],
    disturbances.THROTTLED,
    disturbances.NOISY_HOST,
    LIMIT_CHECKS["stalled"],
    conditions.SHARED_CPUS,
    disturbances.BUSY_NEIGHBOUR,
    slices.CARRY_OVER,
    LIMIT_CHECKS["few-requests-in-slice"],
    between_trials.COLD,
    load_tool.TOO_FEW_SAMPLES,
    between_trials.PLATEAU,
    between_trials.UNSTABLE,
    between_trials.DRIFTED_HOST,
)

CHECKS: Registry[Check] = Registry(
    "benchkit.checks", {check.code: check for check in _ALL}, Check, lambda check: check.code
)
"""All checks by code, including those of plugins."""


def check_order(check: str) -> int:
    """Return the position of a check in lists of findings; checks of another version come last."""
    return list(CHECKS).index(check) if check in CHECKS else len(CHECKS)
