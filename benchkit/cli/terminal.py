"""Rich's output on the streams of this process: styles and cursor movements are rich's own, texts are cleaned."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, Any, Literal, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from benchkit.safe_text import legible


class Terminal(Console):
    """A console whose texts cannot control the terminal."""

    def __init__(self, stream: Literal["stdout", "stderr"], width: int | None = None) -> None:
        """Write to stdout or stderr; `width` is the terminal's unless given."""
        super().__init__(file=cast("IO[str]", _Styled(getattr(sys, stream))), width=width)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the parts of what is printed, with their texts cleaned."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=legible(segment.text))


class _Styled:
    """A stream of this process that keeps rich's control sequences; `benchkit.cli.console` replaces all others."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 - the stream of a command, or a substitute in a test
        self._stream = stream
        self.write = getattr(stream, "write_styled", stream.write)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._stream, name)
