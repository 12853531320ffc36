"""Benchmarks of HTTP servers, with checks that tell whether a result can be believed.

This is the interface for notebooks and scripts; `benchkit/store/README.md` describes it. Its functions are imported
when they are first used, so that `import benchkit` is fast:

- `load(table)`: a stored table as a DataFrame; `load("trials", run="latest", valid_for="rps")` for figures
- `runs()`, `find(run)`: the stored runs, and the id of one
- `compare(run)`, `claims(run)`: ratios, results of claims
- `found(run)`: its answer and claims in prose
- `why(run)`: what each difference consists of: cores used, CPU time per request by service and category
- `percentiles(run)`, `published(run)`: latency by cell from histograms, and figures of the study beside those measured
- `history(scenario)`, `history_figure(scenario)`: its series over its runs, with the shifts of its level
- `figures(run)`, `figure(name, run)`, `labels(run)`: the figures of the report, and the label of each cell in them
- `BenchkitError`, `InputError`: the errors that they raise
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
