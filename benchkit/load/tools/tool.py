"""The shape that every load tool has; `benchkit.load.tools.registry` lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from benchkit.errors import InputError
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult

if TYPE_CHECKING:
    from benchkit.load.measurement import Measurement  # its numpy is slow to import, and no parser needs it

ALWAYS: Final = frozenset({"tool", "connections", "processes", "pin", "warmup_s", "path", "histogram"})
"""Fields of `Load` that every tool honours, or that benchkit honours for it."""


@dataclass(frozen=True)
class ToolOutput:
    """What one generator left behind."""

    stdout: str
    """Without the rows that the reducer took."""
    stderr: str = ""
    reduction: bytes | None = None
    """The reducer's file, where its rows went there."""


@dataclass(frozen=True)
class ParsedOutput:
    """What one generator said, or many together: in the words that all tools share, and request by request."""

    result: LoadResult
    """Its latency is that of the raw histogram where there is one."""
    measurement: Measurement | None
    """None where only the tool's own summary was asked for."""


@dataclass(frozen=True)
class Objection:
    """Why a tool cannot carry a load: the field of `Load` that asks for it, and a sentence."""

    field: str
    why: str


def no_objections(_load: Load) -> Iterable[Objection]:
    """The check of a tool that takes any value of the options it has."""
    return ()


def no_files(_load: Load, _url: str) -> Mapping[str, str]:
    """The files of a tool that needs none."""
    return {}


@dataclass(frozen=True)
class GoProgram:
    """A program that benchkit builds for load hosts from a Go module."""

    module: Path
    package: str
    """What of the module is built, as `go build` takes it."""
    version: str


@dataclass(frozen=True)
class Tool:
    """One load tool: what it needs on the host, how it is called, how its output reads.

    `options` are the fields of `Load` beyond `ALWAYS` that the tool honours; a load that sets any other is refused
    (`objections`), never carried out without it.
    """

    name: str
    binary: str
    """What is called on the load host."""
    argv: Callable[[Load, str], list[str]] = field(repr=False)
    """(load of one generator, URL) → argument list, for a load without objections; pure."""
    parse: Callable[[str], LoadResult] = field(repr=False)
    """What the tool printed → LoadResult; pure. Raises ParseError for text that is no output of the tool."""
    read: Callable[[ToolOutput], ParsedOutput] = field(repr=False)
    """What a generator left whose load has `histogram` → Reading; pure. Raises ParseError."""
    rows: str | None = None
    """The name by which the reducer knows what the tool prints on stdout for each request; None: no such rows."""
    summary: Literal["stdout", "stderr"] = "stdout"
    """Where the tool prints what `parse` reads."""
    program: GoProgram | None = None
    """What it is built from; None where hosts have it from a package."""
    options: frozenset[str] = frozenset()
    files: Callable[[Load, str], Mapping[str, str]] = field(default=no_files, repr=False)
    """(load, URL) → files that the command names: name → content, to stand in its working directory; pure."""
    check: Callable[[Load], Iterable[Objection]] = field(default=no_objections, repr=False)
    """Objections to values of the options that the tool has; pure."""
    single_threaded: bool = False
    thread_per_connection: bool = False

    def threads(self, load: Load) -> int | None:
        """How many threads put the load of one generator on, at most; None where the tool sets no such limit."""
        if self.single_threaded:
            return 1
        if self.thread_per_connection:
            return load.connections
        return load.threads if "threads" in self.options else None

    def objections(self, load: Load) -> tuple[Objection, ...]:
        """Everything in `load` (of one generator) that this tool cannot honour; empty where it can carry it."""
        refused = [
            Objection(name, f"{self.name} cannot honour it (it takes: {', '.join(sorted(self.options))})")
            for name, spec in Load.model_fields.items()
            if name not in ALWAYS | self.options and getattr(load, name) != spec.get_default(call_default_factory=True)
        ]
        return (*refused, *self.check(load))

    def command(self, load: Load, url: str) -> list[str]:
        """The argument list of one generator. Raises InputError where the tool cannot honour `load`."""
        objections = self.objections(load)
        if objections:
            raise InputError(
                f"{self.name} cannot carry this load",
                why="; ".join(f"{o.field}: {o.why}" for o in objections),
                hint="change the load, or choose another tool",
            )
        return self.argv(load, url)


def either_time_or_count(load: Load) -> Iterable[Objection]:
    """The objection to a load that ends after nothing, or after a time and a count both."""
    if (load.duration_s is None) == (load.requests is None):
        yield Objection("duration_s", "set either duration_s or requests")


def whole_seconds(value: float | None, name: str, tool: str) -> Iterable[Objection]:
    """The objection to a time that a tool can only take in whole seconds."""
    if value is not None and value != int(value):
        yield Objection(name, f"{tool} takes whole seconds, not {value:g}")


def own_arguments(load: Load, tool: str, *flags: str) -> Iterable[Objection]:
    """The objection to further arguments that benchkit sets by itself, to have every request recorded."""
    taken = [argument for argument in load.extra_args if any(argument.startswith(flag) for flag in flags)]
    if taken and load.histogram:
        why = f"{taken[0]}: with histogram: true, benchkit gives {tool} a {flags[0]} of its own"
        yield Objection("extra_args", why)


def own_headers(load: Load, tool: str, *names: str) -> Iterable[Objection]:
    """The objection to headers that a tool sets itself, whatever it is told."""
    for name in load.headers:
        if name.lower() in names:
            yield Objection("headers", f"{tool} sends a {name} of its own, whatever it is given")


def header_lines(load: Load) -> list[str]:
    """`Name: value` of every header, in the scenario's order."""
    return [f"{name}: {value}" for name, value in load.headers.items()]
