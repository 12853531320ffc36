"""Which HTTP server set-up is faster, why, and whether the number can be believed."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from benchkit.version import __version__

if TYPE_CHECKING:
    from benchkit.analysis.compare import compare
    from benchkit.analysis.trend import trends
    from benchkit.explore import claims, figure, figures, find, runs
    from benchkit.results.tables import load

__all__ = ["__version__", "claims", "compare", "figure", "figures", "find", "load", "runs", "trends"]

_HOMES = {
    "claims": "benchkit.explore",
    "compare": "benchkit.analysis.compare",
    "figure": "benchkit.explore",
    "figures": "benchkit.explore",
    "find": "benchkit.explore",
    "runs": "benchkit.explore",
    "trends": "benchkit.analysis.trend",
}
"""Where what notebooks use is at home: imported when it is first used, so that `import benchkit` is instant."""


class _Package(ModuleType):
    """This package, whose `load` is a function though a subpackage has that name."""

    @property
    def load(self) -> object:
        """Read a stored table: `benchkit.load("trials")`."""
        from benchkit.results.tables import load  # noqa: PLC0415 - pandas and pyarrow take half a second

        return load

    @load.setter
    def load(self, subpackage: ModuleType) -> None:
        """Keep the function where importing the load tools (`benchkit.load.…`) would put their package."""

    def __getattr__(self, name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name]), name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
