"""The files that benchkit ships: scenarios, configs, backend sources and the agent.

In a checkout scenarios and configs stand at the top level; in a wheel they are inside the package.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
BACKENDS = PACKAGE / "backends"


def shipped(folder: str) -> Path:
    """The shipped folder of that name: `scenarios` or `configs`."""
    inside = PACKAGE / "_shipped" / folder
    return inside if inside.is_dir() else PACKAGE.parent / folder
