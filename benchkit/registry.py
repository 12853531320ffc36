"""Commands, backends, load tools, checks, figures and other parts that plugins declare as entry points.

A package declares them in its `pyproject.toml`; an entry point has the name of its object:

    [project.entry-points."benchkit.load_tools"]
    oha = "my_package.oha:TOOL"

Entry points are read when a registry is listed, or asked for a name that benchkit does not ship. The log and
`benchkit plugins` name an entry point that cannot be used, with its error; all others work.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from benchkit.errors import suggestion

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints  # slow to import

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class Plugin:
    """An entry point of another package."""

    group: str
    name: str
    package: str
    version: str
    target: str
    """Module and attribute: `my_package.oha:TOOL`."""
    error: str | None = None
    """Reason why it cannot be used; None: it is in the registry."""


class Registry(Mapping[str, T], Generic[T]):
    """Objects of one kind by name: the shipped ones, then those of plugins."""

    def __init__(
        self, group: str, shipped: Mapping[str, T], kind: object, name_of: Callable[[T], str] | None = None
    ) -> None:
        """Take the group of the entry points, the class of the objects, and a function that returns their names.

        Without a function, an object is named after its entry point.
        """
        self.group = group
        self._shipped = dict(shipped)
        self._kind = cast("type[Any]", kind)
        self._name_of = name_of

    def __getitem__(self, name: str) -> T:
        """Return the object of that name; plugins are loaded only if no object of that name is shipped."""
        return self._shipped[name] if name in self._shipped else self._loaded[0][name]

    def __iter__(self) -> Iterator[str]:
        yield from self._shipped
        yield from self._loaded[0]

    def __len__(self) -> int:
        return len(self._shipped) + len(self._loaded[0])

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """All entry points of the group, including those that cannot be used."""
        return self._loaded[1]

    def plugin(self, name: str) -> Plugin | None:
        """Return the plugin that the object of this name comes from; None for a shipped one."""
        if name in self._shipped:
            return None
        return next((plugin for plugin in self.plugins if plugin.name == name and plugin.error is None), None)

    def why_unknown(self, name: str, known: Iterable[str] | None = None) -> str:
        """Return the reason for a message about an unknown name: a broken plugin of that name, or the nearest name.

        `known` are the allowed names if there are more than those of the registry.
        """
        broken = next((plugin for plugin in self.plugins if plugin.name == name), None)
        if broken is not None:
            return f"the plugin {broken.package} {broken.version} ({broken.target}) cannot be used: {broken.error}"
        return suggestion(name, self if known is None else known)

    @cached_property
    def _loaded(self) -> tuple[Mapping[str, T], tuple[Plugin, ...]]:
        objects: dict[str, T] = {}
        plugins: list[Plugin] = []
        for entry in sorted(
            _entry_points(tuple(sys.path)).select(group=self.group), key=lambda each: (each.name, each.value)
        ):
            taken = next((each.package for each in plugins if each.name == entry.name and each.error is None), None)
            package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("unknown", "unknown")
            loaded: object = None
            try:
                loaded = entry.load()
                why = self._why_unusable(entry, loaded, "benchkit" if entry.name in self._shipped else taken)
            except Exception as error:  # noqa: BLE001 - the code of others fails in any way
                why = describe_failure(error)
            if why is None:
                objects[entry.name] = cast("T", loaded)
            else:
                about = entry.name, package, version, self.group, why
                logger.warning("plugin %s of %s %s (%s) cannot be used: %s", *about)
            plugins.append(Plugin(self.group, entry.name, package, version, entry.value, why))
        return objects, tuple(plugins)

    def _why_unusable(self, entry: EntryPoint, loaded: object, taken_by: str | None) -> str | None:
        if taken_by is not None:
            return f"{taken_by} already has an object of this name"
        if not isinstance(loaded, self._kind):
            return f"{entry.value} is a {type(loaded).__name__}, not a {self._kind.__name__}"
        if self._name_of is not None and self._name_of(cast("T", loaded)) != entry.name:
            return f"{entry.value} is named {self._name_of(cast('T', loaded))!r}"
        return None


@lru_cache(maxsize=1)
def _entry_points(_path: tuple[str, ...]) -> EntryPoints:
    from importlib.metadata import entry_points  # noqa: PLC0415 - most commands need no plugin

    return cast("EntryPoints", entry_points())


def describe_failure(error: Exception) -> str:
    """Return an exception of a plugin's code on one line, with its type: `ImportError: no module named x`."""
    return " ".join(f"{type(error).__name__}: {error}".split())
