"""The registry of output formats: what benchkit reads, of its own load tools and, by `benchkit.plugins`, of others.

The marks in a text decide which parser reads it. Output of the tools in `UNSUPPORTED` is recognised only to be refused
by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from benchkit.errors import InputError, ParseError
from benchkit.loadtools.ab import output as ab
from benchkit.loadtools.bombardier import output as bombardier
from benchkit.loadtools.h2load import output as h2load
from benchkit.loadtools.hey import output as hey
from benchkit.loadtools.k6 import output as k6
from benchkit.loadtools.oha import output as oha
from benchkit.loadtools.openloop import output as openloop
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.preparation import PreparedText, lines_of_strings, prepare, prepare_further, tables_within
from benchkit.loadtools.registry import TOOLS
from benchkit.loadtools.siege import output as siege
from benchkit.loadtools.text import SeveralRunsError, excerpt, has_line, line_with
from benchkit.loadtools.vegeta import output as vegeta
from benchkit.loadtools.wrk import output as wrk
from benchkit.models.load_result import LoadResult, Note
from benchkit.registry import Registry

AUTO = "auto"
"""In place of a tool's name: the tool whose marks the text has."""

FORMATS: Registry[OutputFormat] = Registry(
    "benchkit.output_formats",
    {
        each.tool: each
        for each in (
            wrk.FORMAT,
            wrk.WRK2_FORMAT,
            ab.FORMAT,
            hey.FORMAT,
            siege.FORMAT,
            vegeta.FORMAT,
            h2load.FORMAT,
            openloop.FORMAT,
            oha.FORMAT,
            bombardier.FORMAT,
            k6.FORMAT,
        )
    },
    OutputFormat,
    lambda each: each.tool,
)
"""Every output format, also of plugins, by the name of its tool."""

UNSUPPORTED: Mapping[str, Callable[[str], bool]] = {
    "nighthawk in its forms dotted, prometheus or yaml": has_line(
        r"(?:global|worker_[0-9]+)\.\S+\.(?:samples|pstdev): ", "# TYPE nighthawk_", "termination_predicates:"
    ),
    "artillery": has_line(
        r"http\.(?:response_time|codes\.[0-9]+|request_rate|requests):? ?\.{2,}", "Summary report @ "
    ),
    "cassowary": has_line(r"Starting Load Test with [0-9]+ requests", r"TCP Connect\.{3,}: Avg/mean="),
    "drill": has_line(r"Time taken for tests +[0-9.]+ seconds", r"Sample standard deviation +[0-9.]+ms"),
    "ghz": has_line(r"\[(?:OK|Unavailable|DeadlineExceeded|Canceled|Unknown|Internal)\] +[0-9]+ responses"),
    "go-wrk": has_line(r"[0-9]+ goroutine\(s\) running concurrently"),
    "httpgo": has_line(r"Benchmarking \S+ with [0-9]+ connections?$"),
    "httperf": has_line("httperf --", r"Total: connections [0-9]+ requests [0-9]+ replies"),
    "moros": has_line(r"[0-9]+ thread\(s\) and [0-9]+ connection\(s\) each"),
    "plow": has_line(r"Benchmarking \S+ .*using [0-9]+ connection\(s\)\.", r"Count +[0-9]+\s+2xx +[0-9]+"),
    "siegem": has_line(r"\*\* SIEGEM [0-9]"),
    "tsung": has_line(r"stats: [a-z0-9_]+ [0-9.]+", "# stats: dump at"),
    "weighttp": has_line("weighttp - ", r"finished in .* millisec and .* req/s, .* kbyte/s$"),
}
"""Tools whose output, or a form of it, is refused by name, each with its recogniser."""

PARSE = "benchkit parse"
"""The command that reads one run of several."""
MAX_SAMPLE = 1 << 20
"""Characters at the beginning and at the end of a text in which marks are looked for."""
BROKEN = frozenset({"unread", "aborted", "interrupted", "part-of-run", "no-total"})
"""Codes of notes that say why a text, or its run, is incomplete."""
_OMISSION = line_with(r"[\[(]?(?:\.{3,}|\u2026)[^0-9\n]{0,20}$")
"""Line by which an author marks what is left out."""
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def get_format(tool: str) -> OutputFormat:
    """Return the format of that name. Raises InputError naming all."""
    if tool in FORMATS:
        return FORMATS[tool]
    if tool in TOOLS:  # a plugin's load tool whose output has no marks
        return OutputFormat(tool, lambda _text: False, TOOLS[tool].parse)
    raise InputError(f"no load tool is called {tool!r}", why=FORMATS.why_unknown(tool, (AUTO, *FORMATS)))


def recognise(text: str, *, where: str) -> OutputFormat | None:
    """Return the format whose marks a prepared text has; None without any.

    Raises ParseError for output of an unsupported tool, and for outputs of several tools.
    """
    found = _marked(text, where)
    if len(found) > 1:
        names = " and ".join(each.tool for each in found)
        raise ParseError(
            f"this text has outputs of {names}",
            where=where,
            hint=f"name one of them in place of {AUTO}, or cut the text",
        )
    return found[0] if found else None


def read_output(tool: str, text: str, *, where: str, command: str, run: int | None = None) -> LoadResult:
    """Return what an output of a tool states; `tool` may be `AUTO`, and `run` the number of one of several runs.

    Raises InputError for an unknown tool, ParseError for text that is no output of the tool, or has several runs. It
    names `where`; for the output of another tool also the `command` with `{tool}` that reads it.
    """
    prepared = _prepare(text)
    chosen = _choose(tool, prepared.text, where=where, command=command)
    runs = split_runs(chosen, prepared.text)
    if run is None and len(runs) > 1:
        raise _several(chosen, runs, where=where, command=command)
    if run is not None and not 1 <= run <= len(runs):
        raise InputError(f"the text has no run {run}", where=where, why=f"it has {_runs(len(runs))} of {chosen.tool}")
    return _read(chosen, runs[0 if run is None else run - 1], prepared, where=where)


def tool_of(tool: str, text: str, *, where: str, command: str) -> str:
    """Return the name of the tool that reads a text, also where `tool` is `AUTO`. Raises as `read_output` does."""
    return _choose(tool, _prepare(text).text, where=where, command=command).tool


def read_runs(text: str, *, where: str) -> list[LoadResult]:
    """Return what each run in a text states; empty where no tool is recognised.

    Raises ParseError for runs of several tools that cannot be told apart, for an unsupported tool, and for text that
    its parser refuses.
    """
    prepared = _prepare(text)
    found = _marked(prepared.text, where)
    starts = sorted({start for each in found for start in _starts(each, prepared.text)}) if len(found) > 1 else [0]
    parts = [(recognise(part, where=where), part) for part in _divide(prepared.text, starts)]
    return [
        _read(chosen, run, prepared, where=where)
        for chosen, part in parts
        if chosen
        for run in split_runs(chosen, part)
    ]


def _prepare(text: str) -> PreparedText:
    """Return the prepared text, without a prefix or a heading that hides the marks of its tool."""
    prepared = prepare(text)
    if _has_marks(prepared.text):
        return prepared
    return next((each for each in _further(prepared) if _has_marks(each.text)), prepared)


def _further(prepared: PreparedText) -> Iterator[PreparedText]:
    """Yield the text without further kinds of prefixes, quoting or headings, which may hide its marks or figures."""
    yield from (each for each in (lines_of_strings(prepared), prepare_further(prepared)) if each is not None)
    yield from tables_within(prepared)


def _has_marks(text: str) -> bool:
    sample = _sample(text)
    return any(each.recognise(sample) for each in FORMATS.values()) or any(
        is_output(sample) for is_output in UNSUPPORTED.values()
    )


def split_runs(chosen: OutputFormat, text: str) -> list[str]:
    """Return the runs of a prepared text, each as text: the whole text unless two runs begin in it."""
    parts = _divide(text, _starts(chosen, text))
    if len(parts) == 1 and len(_starts_in_order(chosen, text)) == 1:
        return [text]
    runs = [run for part in parts for run in _runs_of(chosen, part)]
    return runs if len(runs) > 1 else [text]


def _runs_of(chosen: OutputFormat, part: str) -> list[str]:
    """Return the runs in a part that begins with a run's first line; none where it has no figures.

    A part of several runs, some of which lack their first line, is divided where the order of first lines starts again.
    """
    try:
        chosen.parse(part)
    except SeveralRunsError:
        divided = _divide(part, _starts_in_order(chosen, part))
        return [part] if len(divided) == 1 else [run for each in divided for run in _runs_of(chosen, each)]
    except ParseError:
        return []
    return [part]


def _divide(text: str, starts: list[int]) -> list[str]:
    """Return the parts of a text that begin at these places, each with its heading; the first begins with the text."""
    places = [0, *(_heading_start(text, start) for start in starts[1:]), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def _heading_start(text: str, start: int) -> int:
    """Return where the heading of a run begins: a line alone between a blank one and the run's first line."""
    heading = text.rfind("\n", 0, max(start - 1, 0)) + 1
    is_alone = text[max(heading - 2, 0) : heading] == "\n\n"
    return heading if text[heading:start].strip() and is_alone else start


def _starts(chosen: OutputFormat, text: str) -> list[int]:
    """Return where the runs of a text begin; at least one place."""
    every = ([match.start() for match in pattern.finditer(text)] for pattern in chosen.starts)
    return next((starts for starts in every if starts), [0])


def _starts_in_order(chosen: OutputFormat, text: str) -> list[int]:
    """Return where the order of the first lines of a run starts again; at least one place."""
    found = sorted((match.start(), rank) for rank, each in enumerate(chosen.starts) for match in each.finditer(text))
    again = [place for (_, before), (place, rank) in pairwise(found) if rank <= before]
    return [found[0][0] if found else 0, *again]


def _is_read(chosen: OutputFormat, text: str) -> bool:
    try:
        chosen.parse(text)
    except ParseError:
        return False
    return True


def _read(chosen: OutputFormat, text: str, prepared: PreparedText, *, where: str) -> LoadResult:
    """Return the result of a run; where its format refuses the text, read it without prefixes and headings.

    Raises ParseError naming `where`.
    """
    notes = prepared.notes
    try:
        result = chosen.parse(text)
    except ParseError as error:
        further = _further(PreparedText(text, notes))
        found = next((each for each in further if _is_read(chosen, each.text)), None)
        if found is None:
            raise ParseError(error.what, where=where, why=error.why, hint=error.hint) from None
        text, notes = found
        result = chosen.parse(text)
    if not result.complete and _is_excerpt(chosen, text, result):
        message = f"the text is an excerpt of {chosen.tool}'s output: it does not show if the run ended normally"
        result, notes = result.model_copy(update={"complete": True}), (Note(code="excerpt", message=message), *notes)
    return result.model_copy(update={"notes": (*result.notes, *notes)}) if notes else result


def _is_excerpt(chosen: OutputFormat, text: str, result: LoadResult) -> bool:
    """Return whether a text lacks parts that an author left out, and no note says that something broke off."""
    is_begun = not chosen.starts or chosen.starts[0].search(text) is not None
    is_cut = not is_begun or _OMISSION.search(text) is not None
    return is_cut and not BROKEN & {note.code for note in result.notes}


def _sample(text: str) -> str:
    return text if len(text) <= 2 * MAX_SAMPLE else text[:MAX_SAMPLE] + "\n" + text[-MAX_SAMPLE:]


def _marked(text: str, where: str) -> list[OutputFormat]:
    """Return all formats whose marks the text has. Raises ParseError for output of an unsupported tool."""
    sample = _sample(text)
    refused = next((name for name, is_output in UNSUPPORTED.items() if is_output(sample)), None)
    if refused is not None:
        raise ParseError(
            f"this is output of {refused}, which benchkit does not read",
            where=where,
            hint=f"it reads {', '.join(FORMATS)}",
        )
    return [each for each in FORMATS.values() if each.recognise(sample)]


def _choose(tool: str, text: str, *, where: str, command: str) -> OutputFormat:
    """Return the format that reads a prepared text: the named one, unless the text only has marks of other tools."""
    if tool == AUTO:
        found = recognise(text, where=where)
        if found is None:
            first = next((line for line in text.split("\n") if line.strip()), None)
            raise ParseError(
                "no load tool is recognised in this text" if first else "the output is empty",
                where=where,
                why=first and f"it begins with {excerpt(first)!r}",
                hint=f"name its tool: {command.format(tool='TOOL')}; TOOL is one of {', '.join(FORMATS)}",
            )
        return found
    chosen = get_format(tool)
    marked = _marked(text, where)
    if marked and chosen not in marked and not any(_is_dialect(chosen, each) for each in marked):
        other = marked[0].tool
        hint = f"it is output of {other}: {command.format(tool=other)}"
        raise ParseError(f"this is no output of {tool}", where=where, hint=hint)
    return chosen


def _is_dialect(one: OutputFormat, other: OutputFormat) -> bool:
    return other.dialect_of == one.tool or one.dialect_of == other.tool


def _several(chosen: OutputFormat, runs: list[str], *, where: str, command: str) -> ParseError:
    listed = "; ".join(f"{number}: {_first_line(chosen, each)}" for number, each in enumerate(runs, 1))
    one = (
        f"read one: {command.format(tool=chosen.tool)} --run 1"
        if PARSE in command
        else "give each in a file of its own"
    )
    return ParseError(
        f"{_runs(len(runs))} of {chosen.tool} in one text",
        where=where,
        why=listed,
        hint=f"{one}; figures of two runs are never mixed",
    )


def _first_line(chosen: OutputFormat, run: str) -> str:
    return excerpt(run[_starts(chosen, run)[0] :].strip().partition("\n")[0])


def _runs(number: int) -> str:
    """Return a number of runs in words, for messages: `two runs`."""
    word = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"{word} {'run' if number == 1 else 'runs'}"
