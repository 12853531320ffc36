"""The traces of trials as rows: system calls by name, time off the CPU by what threads wait for, hardware counters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator

from benchkit.errors import ParseError
from benchkit.models.rows import NoteRow, TraceRow
from benchkit.models.trial import TraceRecord

NO_TRACE = "no-trace"
"""Code of the note on services without a trace."""
NO_COUNTERS = "no-counters"
"""Code of the note on services without hardware counters."""
TRACE_NOTES = (NO_TRACE, NO_COUNTERS)
CALLS, WAITING, COUNTERS = "system calls", "waiting", "counters"
FOR_CPU, FOR_QUOTA, OTHERS = "a CPU, runnable", "the CPU quota", "others"
ARCHITECTURES = {"aarch64": "arm64", "ppc64le": "powerpc64", "armv7l": "arm"}
"""Names of machines in the tables of system calls, where they differ."""

_THROTTLED = re.compile(r"throttle_cfs_rq")
_REASONS = (
    ("work in epoll", re.compile(r"\b(do_epoll_wait|ep_poll)\b")),
    ("work in poll or select", re.compile(r"\b(do_sys_poll|do_poll|do_select|poll_schedule_timeout)\b")),
    ("work in io_uring", re.compile(r"\bio_(cqring|run_task_work|uring)")),
    ("locks, or work of idle threads (futex)", re.compile(r"\b(__)?futex_|\bdo_futex\b")),
    ("timers", re.compile(r"nanosleep|\bmsleep")),
    ("pipes", re.compile(r"pipe_(read|write|wait)|\bwait_for_partner\b")),
    ("locks of the kernel", re.compile(r"\b(__)?(mutex_lock|rwsem_|down_(read|write))")),
    ("disk", re.compile(r"\bio_schedule|folio_wait|\bsubmit_bio|\bblk_|jbd2_|\bvfs_fsync|filemap_")),
    ("connections", re.compile(r"inet_csk_accept")),
    ("sockets", re.compile(r"sk_wait_data|sk_stream_wait|wait_for_more_packets|unix_stream|tcp_recvmsg|lock_sock")),
    ("signals", re.compile(r"sigtimedwait|sigsuspend")),
    ("other processes", re.compile(r"\bdo_wait\b|kernel_wait4|wait_for_completion")),
)
"""Waits of a blocked thread, by functions of its kernel stack: the first that matches."""
_ENTERED = re.compile(r"syscalls:sys_enter_(\w+)")
INSTRUCTIONS, CYCLES, CPU_CLOCK = "instructions", "cycles", "clock"
"""Parts of the names of events; a host with two kinds of cores has each twice, as `cpu_core/cycles/`."""


def trace_rows(
    trial_id: str, records: Iterable[TraceRecord], raw: Callable[[str], bytes]
) -> tuple[tuple[TraceRow, ...], tuple[NoteRow, ...]]:
    """Return the rows of a trial's traces in `trace` and `notes`; `raw` returns the content of a raw file."""
    rows: list[TraceRow] = []
    notes: list[NoteRow] = []
    for each in records:
        try:
            rows += _rows(trial_id, each, raw)
        except ParseError as error:
            code, message = NO_TRACE, f"{', '.join(each.services)} on {each.host} has no trace: {error}"
            if each.tracer == "pmu":
                code, message = (
                    NO_COUNTERS,
                    f"Instructions and cycles per request are not known on {each.host}: {error}.",
                )
            notes.append(NoteRow(trial_id=trial_id, code=code, message=message))
    return tuple(rows), tuple(notes)


def _rows(trial_id: str, record: TraceRecord, raw: Callable[[str], bytes]) -> Iterator[TraceRow]:
    if record.file is None or record.started_s is None or record.ended_s is None:
        raise ParseError(record.why_not or "not recorded")
    text = raw(record.file).decode(errors="replace")
    if record.tracer == "bpftrace":
        sums = read_sums(text, record.machine)
    else:
        level, values = (CALLS, read_calls(text)) if record.tracer == "perf" else (COUNTERS, read_counters(text))
        sums = {(1, level, name): value for name, value in values.items()}
    for (number, level, name), value in sums.items():
        yield TraceRow(
            trial_id=trial_id,
            host=record.host,
            service=record.services[number - 1],
            level=level,
            name=name,
            value=value,
            traced_s=record.ended_s - record.started_s,
        )


def read_sums(text: str, machine: str) -> dict[tuple[int, str, str], float]:
    """Return bpftrace's sums by number of the service, level and name: calls, or seconds. Raises ParseError."""
    names = system_calls(machine)
    sums: dict[tuple[int, str, str], float] = {}
    for map_name, key, value in _entries(text):
        service, _, rest = key.partition(",")
        if map_name == "@calls":
            level, name, amount = CALLS, names.get(int(rest), f"number {rest}"), float(value)
        elif map_name == "@blocked_ns":
            level, name, amount = WAITING, _reason(rest), value / 1e9
        elif map_name == "@runnable_ns":
            level, name, amount = WAITING, FOR_QUOTA if _THROTTLED.search(rest) else FOR_CPU, value / 1e9
        else:
            continue
        if amount:
            place = int(service), level, name
            sums[place] = sums.get(place, 0.0) + amount
    return sums


def read_calls(text: str) -> dict[str, float]:
    """Return the calls by name that `perf stat -j` counted; calls whose name it does not know are `others`."""
    counts = _counts(text)
    calls = {match[1]: calls for event, calls in counts if (match := _ENTERED.fullmatch(event)) and calls}
    rest = sum(calls or 0.0 for event, calls in counts if event == "raw_syscalls:sys_enter") - sum(calls.values())
    return calls | ({OTHERS: rest} if rest > 0 else {})


def read_counters(text: str) -> dict[str, float]:
    """Return instructions, cycles, and the CPU seconds in which `perf stat -j` counted them.

    perf scales events that shared a counter. Raises ParseError where an event is not counted.
    """
    counts = _counts(text)
    found: dict[str, float] = {}
    for name in (INSTRUCTIONS, CYCLES, CPU_CLOCK):
        values = [value for event, value in counts if name in event and value is not None]
        if not sum(values):
            raise ParseError(f"perf did not count {name}")
        found[name] = sum(values) / (1e3 if name == CPU_CLOCK else 1.0)
    return found


def _counts(text: str) -> list[tuple[str, float | None]]:
    """Return the events of `perf stat -j` with their counts (clocks in milliseconds); None: not counted.

    Its lines are documented in perf-stat(1), JSON FORMAT; lines without an event are metrics and comments.
    """
    found = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            row = json.loads(line)
            if "event" in row:
                value = str(row["counter-value"])
                found.append((str(row["event"]), None if value.startswith("<") else float(value)))
        except (ValueError, KeyError) as error:
            raise ParseError("a line of perf is incomplete", why=str(error)) from None
    return found


def system_calls(machine: str) -> dict[int, str]:
    """Return the names of system calls by their numbers on an architecture (`uname -m`)."""
    from system_calls import NoSuchArchitecture, syscalls  # noqa: PLC0415 - its tables, which most trials have no use for

    try:
        return dict(syscalls().load_reverse_arch_table(ARCHITECTURES.get(machine, machine)))
    except NoSuchArchitecture:
        raise ParseError(f"the numbers of system calls on {machine} are not known") from None


def _entries(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the name of each map that bpftrace prints as JSON, and its keys with their values."""
    for line in text.splitlines():
        if not line.startswith('{"type": "map"'):
            continue
        try:
            data = json.loads(line)["data"]
        except (ValueError, KeyError) as error:
            raise ParseError("a map of bpftrace is incomplete", why=str(error)) from None
        for name, values in data.items():
            for key, value in values.items() if isinstance(values, dict) else ():
                yield name, key, int(value)


def _reason(stack: str) -> str:
    return next((name for name, pattern in _REASONS if pattern.search(stack)), OTHERS)
