"""Files shipped with benchkit: scenarios, configs, backend sources and the agent.

Scenarios and configs are at the top level of a checkout, and inside the package in a wheel.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
BACKENDS = PACKAGE / "backends"


def shipped(folder: str) -> Path:
    """Return the shipped folder of that name: `scenarios` or `configs`."""
    inside = PACKAGE / "_shipped" / folder
    return inside if inside.is_dir() else PACKAGE.parent / folder
