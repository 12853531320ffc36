"""The errors benchkit raises on purpose; the command line turns each into one message and an exit code.

A message says what failed, where, why and what to do. Exit codes are those of the contract:
1 failed, 2 bad input or usage, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class BenchkitError(Exception):
    """What failed, where, why, and what to do about it."""

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, why: str | None = None, hint: str | None = None) -> None:
        """Take the parts of the message; all but `what` may be absent."""
        super().__init__(what)
        self.what = what
        self.where = where
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        """One message: `where: what: why`, and the advice on a line of its own."""
        head = ": ".join(part for part in (self.where, self.what, self.why) if part)
        return harmless(f"{head}\n  → {self.hint}" if self.hint else head)


class InputError(BenchkitError):
    """A file, option or level that benchkit cannot take as it stands."""

    exit_code = 2


class FieldError(InputError):
    """An option that cannot be what it is, known only once its host is: whoever knows the file names the place in it."""

    def __init__(self, field: str, what: str, *, hint: str | None = None) -> None:
        """`field` is the name of the option."""
        super().__init__(what, hint=hint)
        self.field = field


class ParseError(InputError):
    """Text that is no output of the tool it was said to come from."""


class HostError(BenchkitError):
    """Something on a host, or on the way to it, failed."""


class LostError(HostError):
    """The connection to a host is gone: nothing more can be asked over it, and the host puts itself back."""


class UnsupportedError(BenchkitError):
    """A cell that these hosts cannot carry; it is left out and the reason reported."""


def harmless(text: str) -> str:
    """Text as a terminal may be shown it: what is no letter, sign or line is escaped, whoever wrote it."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode() for each in text
    )


def suggestion(wanted: str, allowed: Iterable[str]) -> str:
    """`did you mean 'x'? ` or nothing, and the allowed names."""
    names = list(allowed)
    near = get_close_matches(wanted, names, n=1)
    listed = ", ".join(names) or "none"
    return f"did you mean {near[0]!r}? allowed: {listed}" if near else f"allowed: {listed}"
