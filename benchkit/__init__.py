"""Benchmarks of HTTP servers, with checks of every result.

This is the interface for notebooks and scripts; `benchkit/store/README.md` describes it. Its functions are imported
when they are first used, so that `import benchkit` is fast:

- `load(table)`: a stored table as a DataFrame; `load("trials", run="latest", valid_for="rps")` for figures
- `runs()`, `find(run)`: the stored runs, and the id of one
- `compare(run)`, `claims(run)`: ratios, and results of claims
- `found(run)`: the answer and the claims of a run in prose
- `why(run)`: the components of each difference: cores used, CPU time per request by service and category
- `percentiles(run)`: latency percentiles by cell, from histograms
- `published(run)`: published figures of the study beside the measured ones
- `history(scenario)`, `history_figure(scenario)`: a scenario over its runs, with change points
- `figures(run)`, `figure(name, run)`, `labels(run)`: the figures of the report, and the labels of cells in them
- `BenchkitError`, `InputError`: the errors that these functions raise
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from benchkit.errors import BenchkitError, InputError
from benchkit.version import __version__

if TYPE_CHECKING:
    from benchkit.comparison.compare import compare
    from benchkit.comparison.stored_tables import load
    from benchkit.explore import (
        claims,
        figure,
        figures,
        find,
        found,
        history_figure,
        labels,
        percentiles,
        published,
        runs,
        why,
    )
    from benchkit.run_history.series import history

__all__ = [
    "BenchkitError",
    "InputError",
    "__version__",
    "claims",
    "compare",
    "figure",
    "figures",
    "find",
    "found",
    "history",
    "history_figure",
    "labels",
    "load",
    "percentiles",
    "published",
    "runs",
    "why",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module("benchkit.explore"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
