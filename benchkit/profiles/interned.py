"""Tables in which equal things stand once, as profiles are built from."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Thing = TypeVar("Thing", bound=Hashable)


class Interned(Generic[Thing]):
    """Things in the order in which they were met first, each once."""

    def __init__(self) -> None:
        self._places: dict[Thing, int] = {}

    def place(self, thing: Thing) -> int:
        """The place of a thing in the table; a new one gets the next."""
        return self._places.setdefault(thing, len(self._places))

    @property
    def things(self) -> tuple[Thing, ...]:
        """All of them, by place."""
        return tuple(self._places)
