"""Benchmarks of HTTP servers, with checks that tell whether a result can be believed.

This is the interface for notebooks and scripts; `benchkit/results/README.md` describes it. Its functions are imported
when they are first used, so that `import benchkit` is fast:

- `load(table)`: a stored table as a DataFrame; `load("trials", run="latest", valid_for="rps")` for figures
- `runs()`, `find(run)`: the stored runs, and the id of one
- `compare(run)`, `claims(run)`, `trends(run, factor)`: ratios, results of claims, trends over a factor
- `scalability(run)`: the Universal Scalability Law over connections
- `rate_curves(run)`: latency against the target rate, with the capacity and the knee
- `percentiles(run)`, `published(run)`: latency by cell from histograms, and figures of the study beside those measured
- `history(scenario)`, `history_figure(scenario)`: its series over its runs, with the shifts of its level
- `figures(run)`, `figure(name, run)`: the figures of the report
- `BenchkitError`, `InputError`: the errors that they raise
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from benchkit.errors import BenchkitError, InputError
from benchkit.version import __version__

if TYPE_CHECKING:
    from benchkit.analysis.compare import compare
    from benchkit.analysis.history.series import history
    from benchkit.analysis.rate_curves import rate_curves
    from benchkit.analysis.scalability import scalability
    from benchkit.analysis.stored_tables import load
    from benchkit.analysis.trend import trends
    from benchkit.explore import claims, figure, figures, find, history_figure, percentiles, published, runs

__all__ = [
    "BenchkitError",
    "InputError",
    "__version__",
    "claims",
    "compare",
    "figure",
    "figures",
    "find",
    "history",
    "history_figure",
    "load",
    "percentiles",
    "published",
    "rate_curves",
    "runs",
    "scalability",
    "trends",
]

_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "claims": "benchkit.explore",
        "compare": "benchkit.analysis.compare",
        "figure": "benchkit.explore",
        "figures": "benchkit.explore",
        "find": "benchkit.explore",
        "history": "benchkit.analysis.history.series",
        "history_figure": "benchkit.explore",
        "percentiles": "benchkit.explore",
        "published": "benchkit.explore",
        "rate_curves": "benchkit.analysis.rate_curves",
        "runs": "benchkit.explore",
        "scalability": "benchkit.analysis.scalability",
        "trends": "benchkit.analysis.trend",
    }
)
"""The module of each function, by name."""


class _Package(ModuleType):
    """The type of this package: functions are imported on first use, and `load` stays one beside the subpackage."""

    @property
    def load(self) -> object:
        """The function that reads a stored table: `benchkit.load("trials", run="latest", valid_for="rps")`."""
        from benchkit.analysis.stored_tables import load  # noqa: PLC0415 - pandas and pyarrow take half a second

        return load

    @load.setter
    def load(self, subpackage: ModuleType) -> None:
        """Ignore the subpackage `benchkit.load`, which the import system would store under this name."""

    def __getattr__(self, name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_MODULES[name]), name)

    def __dir__(self) -> list[str]:
        return sorted(__all__)


sys.modules[__name__].__class__ = _Package
