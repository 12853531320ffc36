"""Errors that benchkit raises deliberately; the command line turns each into one message and an exit code.

A message says what failed, where, why and what to do next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from enum import IntEnum

from benchkit.safe_text import legible, redacted


class ExitCode(IntEnum):
    """Exit codes of the command line, the same for every command."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    REGRESSED = 3
    INCONCLUSIVE = 4
    INTERRUPTED = 130
    """128 + SIGINT, as shells report it."""

    @property
    def meaning(self) -> str:
        """Meaning in a word or two, as help texts and README have it: `bad input`."""
        return self.name.lower().replace("_", " ")


EXIT_CODES_HELP = f"Exit codes: {', '.join(f'{code:d} {code.meaning}' for code in ExitCode)}."
"""All exit codes in a sentence, for help texts."""


MANY_NAMES, MOST_SUGGESTED = 30, 8
"""Most names that a message lists in full; the number of similar names that it lists of more."""


class BenchkitError(Exception):
    """Base of all errors: what failed, where, why, and a hint at what to do next."""

    exit_code = ExitCode.FAILED

    def __init__(self, what: str, *, where: str | None = None, why: str | None = None, hint: str | None = None) -> None:
        """Store the parts of the message; secrets in `what` and `why`, which may quote other programs, are redacted."""
        super().__init__(redacted(what))
        self.what = redacted(what)
        self.where = where
        self.why = None if why is None else redacted(why)
        self.hint = hint

    @property
    def summary(self) -> str:
        """Message without the hint, `where: what: why`, for quotation in another message."""
        return ": ".join(part for part in (self.where, self.what, self.why) if part)

    def __str__(self) -> str:
        """Return one message, `where: what: why`, with the hint on a line of its own."""
        return legible(f"{self.summary}\n  → {self.hint}" if self.hint else self.summary)


class InputError(BenchkitError):
    """A file, option or value that benchkit does not accept."""

    exit_code = ExitCode.BAD_INPUT


class FieldError(InputError):
    """An option of a service that its host does not allow.

    It names only the option; callers that know the scenario add file and line.
    """

    def __init__(self, field: str, what: str, *, hint: str | None = None) -> None:
        super().__init__(what, hint=hint)
        self.field = field


class ParseError(InputError):
    """A text that is not an output of the tool whose parser read it."""


class HostError(BenchkitError):
    """A failure on a host or on the connection to it."""


class LostError(HostError):
    """A lost connection to a host, whose watchdog restores it."""


class HostStateError(HostError):
    """A state of a host that may pass by itself: no free space, memory or process, or a port in use by others."""


class ServiceError(HostError):
    """A failure of a service under test: it did not start, it ended, or it answered wrongly."""


class UnreachedError(HostError):
    """A server does not run, and its log says that it did not reach another one."""


class LoadToolError(HostError):
    """A server that this load tool cannot measure, although another one can."""


class LoadToolHangError(HostError):
    """A load tool that had to be terminated before it printed a result."""


class UnsupportedError(BenchkitError):
    """A cell that these hosts cannot run, and that is therefore skipped."""


def collect_errors(actions: Iterable[Callable[[], object]]) -> list[HostError]:
    """Run all actions, even if some raise a HostError; return these errors."""
    errors = []
    for action in actions:
        try:
            action()
        except HostError as error:
            errors.append(error)
    return errors


def raise_first(errors: Sequence[BenchkitError]) -> None:
    """Raise the first of these errors with the others as its notes; do nothing without errors."""
    if errors:
        first, *others = errors
        for other in others:
            first.add_note(str(other))
        raise first


def raise_faults(faults: Iterable[str]) -> None:
    """Raise InputError with these messages, each once and on a line of its own; do nothing without messages."""
    if messages := dict.fromkeys(faults):
        raise InputError("\n".join(messages))


def suggestion(wanted: str, allowed: Iterable[str]) -> str:
    """Return the allowed names, preceded by `did you mean 'x'?` if one is similar to `wanted`.

    Of many names it returns the most similar, with the number of the others.
    """
    names = list(allowed)
    near = get_close_matches(wanted, names, n=1) or [name for name in names if wanted and f"_{wanted}_" in f"_{name}_"]
    listed = ", ".join(names) or "none"
    if len(names) > MANY_NAMES:
        nearest = get_close_matches(wanted, names, n=MOST_SUGGESTED, cutoff=0) or names[:MOST_SUGGESTED]
        listed = f"{', '.join(nearest)} and {len(names) - MOST_SUGGESTED} others"
    return f"did you mean {near[0]!r}? allowed: {listed}" if near else f"allowed: {listed}"
