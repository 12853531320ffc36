"""siege 2 to 4.1: closed loop, a thread for each user, its text, its JSON and its log file.

What the figures mean, read from its source (src/main.c, data.c, browser.c, log.c):

- Times are counted in ticks of the kernel (`times()`), which are 10 ms, whatever unit they are printed in: seconds, and
  in the text since 4.1.7 milliseconds. A "Response time" of 0.00 is below that, not none. It covers connecting.
- "MB" is 1024². The log file has whole megabytes and truncates them.
- "Transactions" are answered requests (not those with a status above 399), "Successful" those of a good status;
  availability is transactions ÷ (transactions + failed). "Concurrency" is the sum of times ÷ elapsed time.
- `verbose` has it print a line for each answer, under a lock that all users share: that costs it rate. In a run by time
  users are cancelled at the end, and one that is just printing takes with it what stdio held, up to 4 kB: some 75 lines.
- It gives up after 1,024 failed sockets, allows 255 users, parses HTML for further requests and follows redirects:
  a configuration of ours lifts or stops these. `-t` ends at a whole second of the clock, up to a second early. JSON (since 4.0.5) stands on stdout, the text on stderr.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from benchkit.load.tools.siege.output import SiegeOutput, read
from benchkit.load.tools.text import unless_zero, unread_notes
from benchkit.load.tools.tool import (
    Objection,
    ParsedOutput,
    Tool,
    ToolOutput,
    either_time_or_count,
    header_lines,
    own_headers,
    whole_seconds,
)
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

TICK_S = 0.01
"""One tick of `times()` (sysconf _SC_CLK_TCK is 100 on Linux)."""
CONFIG = "siege.conf"
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def parse(text: str) -> LoadResult:
    """What siege printed, or its log file. Raises ParseError for text that is not siege's, or holds several runs.

    Of a log file, which has a row for every run, the last row is the result, and a note says so.
    """
    return to_result(read(text))


def to_result(output: SiegeOutput) -> LoadResult:
    """The words of siege as a LoadResult."""
    return LoadResult(
        tool="siege",
        tool_version=output.version,
        duration_s=output.elapsed_time,
        requests=output.transactions,
        rps=unless_zero(output.transaction_rate, void=_too_fast(output)),
        connections=output.users,
        bytes_total=output.data_transferred,
        bytes_per_s=unless_zero(output.throughput, void=_too_fast(output)),
        latency=_latency(output),
        errors=Errors(),
        failed=output.failed_transactions,
        availability=None if output.availability is None else float(f"{output.availability / 100:.15g}"),
        complete=_complete(output),
        notes=tuple(_notes(output)),
    )


def _too_fast(output: SiegeOutput) -> bool:
    """Whether siege could not divide by the elapsed time: below 10 ms its rates are zeros that are no rates."""
    return not output.elapsed_time and output.transactions != 0


def _latency(output: SiegeOutput) -> Latency:
    void = not output.transactions  # or their number is not known
    return Latency(
        min_s=unless_zero(output.shortest_transaction, void=void),
        mean_s=unless_zero(output.response_time, void=void),
        max_s=unless_zero(output.longest_transaction, void=void),
        resolution_s=None if void else TICK_S,
        covers="connect+request",
        corrected=False,
    )


def _complete(output: SiegeOutput) -> bool:
    """Whether the run came to its end, and everything stands there that siege always prints."""
    always = [output.transactions, output.elapsed_time, output.transaction_rate, output.failed_transactions]
    if output.log_rows is None:
        always += [output.availability, output.longest_transaction, output.shortest_transaction]
        always += [output.data_transferred, output.throughput]
        if output.transactions:
            always.append(output.response_time)
    return None not in always and not output.unread and not output.aborted


def _notes(output: SiegeOutput) -> Iterator[Note]:
    yield Note(code="siege-resolution", message="siege counts times in steps of 10 ms; 0.00 is below that, not no time")
    if output.log_rows is not None:
        yield Note(
            code="siege-log",
            message=f"the last of {output.log_rows} runs in a log file, which truncates to whole megabytes",
        )
    if _too_fast(output):
        yield Note(code="short-run", message="the run took less than 10 ms: siege's rates of 0.00 are none")
    if output.transactions == 0:
        yield Note(code="no-samples", message="no transaction: siege's times of 0.00 are none")
    if output.aborted:
        yield Note(code="aborted", message="siege gave up: too many sockets failed")
    yield from unread_notes(output.unread)


def read_exactly(printed: ToolOutput) -> ParsedOutput:
    """What siege said, and every answer's time. Raises ParseError."""
    from benchkit.load.trial_result import summed_up  # noqa: PLC0415 - numpy is slow to import

    return summed_up(parse(printed.stderr), printed)


def _check(load: Load) -> Iterable[Objection]:
    yield from either_time_or_count(load)
    yield from own_headers(load, "siege", "user-agent")
    yield from whole_seconds(load.duration_s, "duration_s", "siege")
    yield from whole_seconds(load.timeout_s, "timeout_s", "siege")
    if load.requests is not None and load.requests % load.connections:
        yield Objection("requests", f"siege repeats for each user: {load.connections} do not divide them")
    if load.method not in _METHODS:
        yield Objection("method", f"siege sends {', '.join(sorted(_METHODS))}, not {load.method}")
    if load.body is not None and (load.method == "GET" or "\n" in load.body):
        yield Objection("body", "siege sends one line, and none with GET")


def _files(load: Load, _url: str) -> Mapping[str, str]:
    """The configuration: nothing but the load asked for, and no log outside the working directory."""
    options = {
        "limit": max(load.connections, 255),
        "failures": 1_000_000_000,
        "connection": "keep-alive" if load.keepalive else "close",
        "protocol": "HTTP/1.1",
        "verbose": "true" if load.histogram else "false",
        "color": "off",
        "json_output": "false",
        "logging": "false",
        "show-logfile": "false",
        "parser": "false",
        "follow-location": "false",
        "cache": "false",
        "benchmark": "true",
        "chunked": "true",
        "accept-encoding": "identity",
        **({} if load.timeout_s is None else {"timeout": f"{load.timeout_s:.0f}"}),
    }
    return {CONFIG: "".join(f"{name} = {value}\n" for name, value in options.items())}


def _argv(load: Load, url: str) -> list[str]:
    # siege writes .siege/ into its home, whatever configuration it is given.
    argv = ["env", "HOME=.", "siege", f"--rc={CONFIG}", "-b", f"-c{load.connections}"]
    if load.duration_s is not None:
        argv.append(f"-t{load.duration_s:.0f}S")
    elif load.requests is not None:
        argv.append(f"-r{load.requests // load.connections}")
    for line in header_lines(load):
        argv += ["-H", line]
    target = url if load.method == "GET" else f"{url} {load.method} {load.body or ''}".rstrip()
    return [*argv, *load.extra_args, target]


TOOL = Tool(
    name="siege",
    binary="siege",
    argv=_argv,
    parse=parse,
    read=read_exactly,
    rows="siege",
    summary="stderr",
    options=frozenset({"duration_s", "requests", "keepalive", "method", "headers", "body", "timeout_s", "extra_args"}),
    files=_files,
    check=_check,
    thread_per_connection=True,
)
