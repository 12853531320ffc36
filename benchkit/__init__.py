"""Which HTTP server set-up is faster, why, and whether the number can be believed."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchkit.results.tables import load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


class _Package(ModuleType):
    """This package: what notebooks use is imported when it is first used, so that `import benchkit` is instant."""

    @property
    def load(self) -> object:
        """Read a stored table: `benchkit.load("trials")`."""
        from benchkit.results.tables import load  # noqa: PLC0415 - pandas and pyarrow take half a second

        return load

    @load.setter
    def load(self, subpackage: ModuleType) -> None:
        """Keep the function where importing the load tools (`benchkit.load.…`) would put their package."""


sys.modules[__name__].__class__ = _Package
