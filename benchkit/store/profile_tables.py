"""The profiles and traces of trials as rows: functions, categories, system calls and waits."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from benchkit.errors import InputError, ParseError
from benchkit.models.profile import Profile
from benchkit.models.rows import NoteRow, ProfileRow, ProfileShareRow, TraceRow
from benchkit.models.trial import ProfileRecord, TraceRecord, TrialRecord
from benchkit.store.run_folder import RunFolder

NO_PROFILE, NO_KERNEL = "no-profile", "profile-without-kernel"
"""Codes of notes: a service without a profile, and a profile without the kernel."""
NO_TRACE = "no-trace"
"""Code of the note on services without a trace."""
PASS_NOTES = (NO_PROFILE, NO_KERNEL, NO_TRACE, "no-counters")
"""Codes of notes on profiles and traces; earlier versions also noted a lack of hardware counters."""


@dataclass(eq=False)
class PassTables:
    """The rows of a trial in `profile`, `profile_share`, `trace` and `notes`."""

    functions: list[ProfileRow] = field(default_factory=list)
    shares: list[ProfileShareRow] = field(default_factory=list)
    traces: list[TraceRow] = field(default_factory=list)
    notes: list[NoteRow] = field(default_factory=list)


def read_passes(record: TrialRecord, raw: Callable[[str], bytes]) -> PassTables:
    """Return the rows of a trial's profiles and traces; `raw` returns the content of a raw file by its name.

    Kernel time within a system call counts as that call: profiles that do not record the kernel are then comparable
    with perf's.
    """
    rows, trial_id = PassTables(), record.trial_id
    for profile in record.profiles:
        try:
            _add_profile(rows, trial_id, profile, raw)
        except ParseError as error:
            message = f"{profile.service} on {profile.host} has no profile: {error}"
            rows.notes.append(NoteRow(trial_id=trial_id, code=NO_PROFILE, message=message))
    for trace in record.traces:
        try:
            rows.traces += _trace_rows(trial_id, trace, raw)
        except ParseError as error:
            message = f"{', '.join(trace.services)} on {trace.host} has no trace: {error}"
            rows.notes.append(NoteRow(trial_id=trial_id, code=NO_TRACE, message=message))
    return rows


def _add_profile(rows: PassTables, trial_id: str, record: ProfileRecord, raw: Callable[[str], bytes]) -> None:
    """Add the rows of a profile. Raises ParseError, with the reason, where there is none."""
    from benchkit.profiles.profile_file import read_profile  # noqa: PLC0415 - protobuf, which most trials have no use for
    from benchkit.profiles.shares import shares  # noqa: PLC0415 - as above
    from benchkit.profiles.top import top  # noqa: PLC0415 - as above

    if record.file is None:
        raise ParseError(record.why_not or "not recorded")
    try:
        profile = read_profile(raw(record.file))
    except ParseError as error:
        raise ParseError(f"{record.file}: {error}") from None
    if not sum(profile.weights):
        raise ParseError(f"{record.file} has no samples: the service was idle, or the profile too short")
    if record.profiler == "perf" and not profile.has_kernel:
        message = (
            f"{record.service} on {record.host}: perf may not record the kernel there, so shares are of the time in user "
            "mode"
        )
        rows.notes.append(NoteRow(trial_id=trial_id, code=NO_KERNEL, message=message))
    table = top(profile, least_share=0)
    rows.functions += (
        ProfileRow(
            trial_id=trial_id,
            host=record.host,
            service=record.service,
            function=row.function,
            flat_s=table.value_type.seconds(row.flat),
            cum_s=table.value_type.seconds(row.cum),
            flat_share=table.share(row.flat),
            cum_share=table.share(row.cum),
        )
        for row in table.rows
    )
    rows.shares += (
        ProfileShareRow(trial_id=trial_id, service=record.service, category=category, share=share)
        for category, share in shares(profile).categories.items()
    )


def read_merged_profile(run: RunFolder, records: Iterable[TrialRecord], service: str) -> Profile:
    """Merge the profiles of a service in these trials of a run.

    Raises InputError if there is none or a raw file is missing, ParseError for an unreadable profile and for profiles
    with different value types.
    """
    from benchkit.profiles.profile_file import merge_profiles, read_profile  # noqa: PLC0415 - as above

    profiles = []
    for record in records:
        for each in record.profiles:
            if each.service != service or each.file is None:
                continue
            try:
                profiles.append(read_profile(run.raw_file(record.trial_id, each.file)))
            except ParseError as error:
                where = f"{record.trial_id}/{each.file}"
                raise ParseError(error.what, where=where, why=error.why, hint=error.hint) from None
    if not profiles:
        raise InputError(f"no profile of service {service!r}", where=run.run_id)
    return merge_profiles(profiles)


CALLS, WAITING = "system calls", "waiting"
FOR_CPU, FOR_QUOTA, OTHERS = "a CPU, runnable", "the CPU quota", "others"
IN_POLL, IN_SOCKETS = "work in poll", "sockets"
FOR_SOCKETS = ("work in epoll", "work in select", IN_POLL, "work in io_uring", IN_SOCKETS)
"""Waits of a server without a request."""
ARCHITECTURES = {"aarch64": "arm64", "ppc64le": "powerpc64", "armv7l": "arm"}
"""Names of machines in the tables of system calls, where they differ."""

_THROTTLED = re.compile(r"throttle_cfs_rq")
_REASONS = (
    ("work in epoll", re.compile(r"\b(do_epoll_wait|ep_poll)\b")),
    ("work in select", re.compile(r"\bdo_select\b")),
    (IN_POLL, re.compile(r"\b(do_sys_poll|do_poll|poll_schedule_timeout)\b")),
    ("work in io_uring", re.compile(r"\bio_(cqring|run_task_work|uring)")),
    ("locks, or work of idle threads (futex)", re.compile(r"\b(__)?futex_|\bdo_futex\b")),
    ("timers", re.compile(r"nanosleep|\bmsleep")),
    ("pipes", re.compile(r"pipe_(read|write|wait)|\bwait_for_partner\b")),
    ("locks of the kernel", re.compile(r"\b(__)?(mutex_lock|rwsem_|down_(read|write))")),
    ("disk", re.compile(r"\bio_schedule|folio_wait|\bsubmit_bio|\bblk_|jbd2_|\bvfs_fsync|filemap_")),
    ("connections", re.compile(r"inet_csk_accept")),
    ("Unix sockets", re.compile(r"\bunix_(stream|dgram)_")),
    (IN_SOCKETS, re.compile(r"sk_wait_data|sk_stream_wait|wait_for_more_packets|tcp_recvmsg|lock_sock")),
    ("signals", re.compile(r"sigtimedwait|sigsuspend")),
    ("other processes", re.compile(r"\bdo_wait\b|kernel_wait4|wait_for_completion")),
)
"""Waits of a blocked thread, by functions of its kernel stack: the first that matches."""


def _trace_rows(trial_id: str, record: TraceRecord, raw: Callable[[str], bytes]) -> Iterator[TraceRow]:
    if record.file is None or record.started_s is None or record.ended_s is None:
        raise ParseError(record.why_not or "not recorded")
    text = raw(record.file).decode(errors="replace")
    for (number, level, name), value in read_sums(text, record.machine).items():
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
            peer, _, stack = rest.partition(",") if rest[:1].isdigit() else ("0", "", rest)
            level, name, amount = WAITING, _reason(stack, socket.ntohs(int(peer))), value / 1e9
        elif map_name == "@runnable_ns":
            level, name, amount = WAITING, FOR_QUOTA if _THROTTLED.search(rest) else FOR_CPU, value / 1e9
        else:
            continue
        if amount:
            place = int(service), level, name
            sums[place] = sums.get(place, 0.0) + amount
    return sums


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


def _reason(stack: str, port: int) -> str:
    """Return what a thread waits for, which reads or polls a connection to a server at this port; 0: none."""
    reason = next((name for name, pattern in _REASONS if pattern.search(stack)), OTHERS)
    return f"answers of port {port}" if port and reason in {IN_POLL, IN_SOCKETS} else reason
