"""Tables that store equal values once, for building profiles."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)


class Interned(Generic[Value]):
    """Distinct values, in the order in which they were added."""

    def __init__(self) -> None:
        self._indexes: dict[Value, int] = {}

    def index(self, value: Value) -> int:
        """Return the index of a value; a new value is appended."""
        return self._indexes.setdefault(value, len(self._indexes))

    @property
    def values(self) -> tuple[Value, ...]:
        """All values, by index."""
        return tuple(self._indexes)
