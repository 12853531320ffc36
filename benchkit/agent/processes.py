"""Processes that the agent starts: each in its own session, waited for and stopped with its descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Dict, List, Optional, Sequence, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.cgroups import UNIFIED, Cgroup, Cgroups, entering, memberships
from benchkit.agent.child_process import OUTPUTS, Child, Descriptors, Sink, Streams, launch
from benchkit.agent.common import OperationError, Workdir, poll_until, read_text
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import ProcessSpec, operation
from benchkit.agent.proc import (
    TAG,
    UNKNOWN_OWNER,
    ProcStat,
    all_processes,
    become_subreaper,
    cpu_clock_s,
    members,
    proc_stat,
    signal_exactly,
    tag_of,
)
from benchkit.agent.records import Records


def seen_processes() -> List[ops.SeenProcess]:
    """Return all visible processes, also those of other programs and users."""
    return [
        ops.SeenProcess(each.pid, each.parent, each.start, each.name, cpu_clock_s(each.pid) or 0.0)
        for each in all_processes().values()
    ]


class ProcessTable:
    """The processes that the agent started; every operation is safe for many threads."""

    REMEMBERED = 1000
    ANSWER_BYTES = 4096
    CLOSE_GRACE_S = 1.0
    KILL_S = 3.0
    REAP_S = 1.0
    LAST_OUTPUT_S = 0.2

    def __init__(self, workdir: Workdir, records: Records, cgroups: Cgroups) -> None:
        self._workdir = workdir
        self._records, self._cgroups = records, cgroups
        self._streams = Streams(workdir)
        self._changed = threading.Condition()
        self._children: Dict[int, Child] = {}
        self._by_pid: Dict[int, int] = {}
        self._by_session: Dict[int, int] = {}
        self._count = 0
        self._closing = False
        self._spawned = threading.Event()
        self._cpus = os.sched_getaffinity(0)
        become_subreaper()
        threading.Thread(target=self._reap, name="reaper", daemon=True).start()

    @operation()
    def start(self, spec: ProcessSpec, at_ns: Optional[int] = None) -> ops.ProcessReport:
        """Start a process, now or at a given instant."""
        return self.start_child(spec, at_ns).report()

    def start_child(self, spec: ProcessSpec, at_ns: Optional[int] = None) -> Child:
        """Start a process as `start` does, and return it."""
        sinks: Dict[str, Sink] = {}
        with contextlib.ExitStack() as parent_fds:
            descriptors = self._streams.named(spec, sinks, parent_fds)
            child = self._recorded(spec, sinks)
            self._launch(child, descriptors, at_ns)
        return child

    def flush_outputs(self) -> None:
        """Return once all that processes have printed so far is in their files."""
        self._streams.flush()

    @operation()
    def run(self, command: ProcessSpec, timeout_s: float, max_bytes: int, body: bytes = b"") -> ops.Completed:
        """Run a short command with `body` as its input; keep at most `max_bytes` of each output."""
        child, in_time = self._run(command, timeout_s, max_bytes, body)
        out, err = (bytes(child.sinks[name].kept) for name in OUTPUTS)
        if child.ended is None:
            raise OperationError("survived", f"{command.argv[0]} could not be ended after {timeout_s:g} s")
        return ops.Completed(child.ended, not in_time, len(out), out + err)

    def run_for_agent(self, command: ProcessSpec, timeout_s: float) -> Tuple[Optional[int], str]:
        """Run a command for the agent itself; return its exit code and the start of its output."""
        child, _ = self._run(command, timeout_s, self.ANSWER_BYTES, b"", own=True)
        text = b"".join(bytes(child.sinks[name].kept) for name in OUTPUTS).decode(errors="replace")
        return (child.ended.exit_code if child.ended else None), text

    @operation()
    def wait(self, number: int, timeout_s: float) -> ops.ProcessReport:
        """Wait for the end of a process, at most for a time."""
        child = self.child(number)
        self.wait_for(child, timeout_s)
        return child.report()

    @operation()
    def stop(self, numbers: Sequence[int], signum: int, grace_s: float) -> ops.StoppedProcesses:
        """Signal processes with all their descendants; kill those that are running after the grace period."""
        return self._stop([(self.child(each), signum) for each in numbers], grace_s)

    def stop_child(self, child: Child, signum: int = signal.SIGTERM, grace_s: float = 1.0) -> None:
        """Stop one process as `stop` does."""
        self._stop([(child, signum)], grace_s)

    def _stop(self, signals: List[Tuple[Child, int]], grace_s: float) -> ops.StoppedProcesses:
        children = [child for child, _ in signals]
        refused = self._signal(signals)
        remaining = self._wait_for_end(children, grace_s)
        killed = [ops.NamedProcess(each.pid, each.name) for each in remaining]
        for _ in poll_until(time.monotonic() + self.KILL_S):
            if not remaining:
                break
            for each in remaining:
                refused[each.pid] = signal_exactly(each, signal.SIGKILL)
            remaining = self._wait_for_end(children, 0.05)
        for child in children:
            if not remaining:
                self.wait_for(child, self.REAP_S)  # it has ended, but may not be reaped yet
                self._drop_record(child)
        survivors = [ops.NamedProcess(each.pid, each.name, refused.get(each.pid)) for each in remaining]
        return ops.StoppedProcesses([child.report() for child in children], killed, survivors)

    @operation()
    def members(self, number: int) -> List[ops.NamedProcess]:
        """Return the running ones of a started process and its descendants."""
        return [ops.NamedProcess(each.pid, each.name) for each in self.trees().get(number, ())]

    @operation()
    def list_all(self) -> ops.ProcessList:
        """Return all visible processes, including those of other programs and users."""
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - as all of the agent
        return ops.ProcessList(os.getpid(), namespace, seen_processes())

    @operation()
    def cpu_times(self, numbers: Sequence[int]) -> Dict[int, ops.CpuTime]:
        """Return the CPU times of process trees, by the number of the process, all read at once."""
        trees = self.trees()
        return {number: self.child(number).cpu_time(trees.get(number, [])) for number in numbers}

    @operation()
    def count_by_cgroup(self, number: int, path: str) -> None:
        """Count the processes and the CPU time of a control group, such as a container's, for a started process.

        `path` is below the mount point of control groups, or as in /proc/PID/cgroup; the group may appear later.
        Stopping the process signals no process of the group: those left are killed after the grace period.
        """
        group = Cgroup.at(path)
        if os.getpid() in group.pids():  # stopping the process kills everything in the group
            raise OperationError("not-found", f"control group {group.path}: it also contains the agent of this host")
        self.child(number).group = group

    @operation()
    def cgroup_of(self, pid: int) -> Optional[str]:
        """Return the control group of any process, as `count_by_cgroup` takes it; None where it has ended."""
        paths = memberships(read_text(f"/proc/{pid}/cgroup") or "")
        return next((paths[name] for name in ("cpuacct", "cpu", UNIFIED) if name in paths), None)

    def close(self) -> Tuple[List[str], List[str]]:
        """Stop all processes, each by its own signal, and start no more; return the ones that ran, and failures."""
        with self._changed:
            self._closing = True
            signals = [(child, child.command.stop.signum) for child in self._children.values()]
        trees = self.trees()
        running = [f"{each.name} ({each.pid})" for group in trees.values() for each in group]
        survivors = self._stop(signals, self.CLOSE_GRACE_S).survivors
        for _ in poll_until(time.monotonic() + self.KILL_S):
            orphans = self.trees().get(UNKNOWN_OWNER, [])
            if not orphans:
                break
            for each in orphans:
                signal_exactly(each, signal.SIGKILL)
        failures = [f"process {each.pid} ({each.name}) could not be stopped: {each.why}" for each in survivors]
        return running, failures

    def _run(
        self, command: ProcessSpec, timeout_s: float, max_bytes: int, body: bytes, *, own: bool = False
    ) -> Tuple[Child, bool]:
        sinks: Dict[str, Sink] = {}
        with contextlib.ExitStack() as parent_fds:
            descriptors = self._streams.in_memory(body, max_bytes, sinks, parent_fds)
            # The agent's own commands are short and also undo changes, so they must not need room for a record.
            child = self._numbered(command, sinks) if own else self._recorded(command, sinks)
            self._launch(child, descriptors, own=own)
        in_time = self.wait_for(child, timeout_s)
        if not in_time:
            self.stop_child(child)
        return child, in_time

    def _numbered(self, command: ProcessSpec, sinks: Dict[str, Sink]) -> Child:
        with self._changed:
            self._count += 1
            return Child(self._count, command, sinks)

    def _recorded(self, command: ProcessSpec, sinks: Dict[str, Sink]) -> Child:
        child = self._numbered(command, sinks)
        child.record = self._records.note("process", self._change(child), synced=False)
        return child

    def _change(self, child: Child) -> JsonObject:
        command = child.command
        change: JsonObject = {
            "program": command.argv[0],
            "tag": f"{self._records.tag}{child.id}",
            "stop_signum": int(command.stop.signum),
            "stop_grace_s": command.stop.within_s,
        }
        if child.pid:
            change.update(pid=child.pid, start=child.start)
        return change

    def _launch(
        self, child: Child, descriptors: Descriptors, at_ns: Optional[int] = None, *, own: bool = False
    ) -> None:
        command = child.command
        try:
            folder = self._workdir.working_folder(command.cwd)
            child.quota_group = self._cgroups.named(command.group)
            entered = command if child.quota_group is None else entering(command, child.quota_group)
            if at_ns is not None:
                time.sleep(max(0.0, (at_ns - time.monotonic_ns()) / 1e9))
            with self._changed:
                if self._closing and not own:
                    raise OperationError("closing", "the agent is ending")  # noqa: TRY301 - with the lock held
                child.started_ns = time.monotonic_ns()
                tag = {TAG: f"{self._records.tag}{child.id}"}
                child.pid = launch(entered, descriptors, str(folder), tag, self._cpus)
                status = proc_stat(child.pid)
                child.start = status.start if status else 0
                self._children[child.id] = child
                self._by_pid[child.pid] = self._by_session[child.pid] = child.id
                self._drop_oldest()
                self._spawned.set()
        except BaseException:
            self._drop_record(child)
            raise
        try:
            with self._changed:
                if child.record is not None:  # otherwise it has ended already
                    self._records.note("process", self._change(child), synced=False, path=child.record)
        except OSError:
            self.stop_child(child, signal.SIGKILL, 0.0)
            raise

    def _reap(self) -> None:
        while True:
            self._spawned.wait()
            self._spawned.clear()
            with contextlib.suppress(ChildProcessError):  # no children
                while True:
                    ready = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
                    if ready is not None:
                        self._record_end(ready.si_pid)

    def _record_end(self, pid: int) -> None:
        """Reap a child and record its end.

        Until it is reaped, its pid cannot be reused, so no signal reaches another process.
        """
        with self._changed:  # held during a start, so that a process that ends at once is registered
            before = proc_stat(pid)
            try:
                reaped, status, usage = os.wait4(pid, os.WNOHANG)
            except ChildProcessError:  # it could not be started, and Popen has reaped it
                return
            if not reaped:
                return
            number = self._by_pid.pop(pid, None)
            if number is None:
                number = self._by_session.get(before.session) if before else None
                if number is not None:
                    self._children[number].adopt(usage)
            else:
                self._children[number].end(status, usage)
            self._drop_records()
            self._changed.notify_all()

    def wait_for(self, child: Child, timeout_s: float) -> bool:
        """Wait for the end of a process; return False where it did not end in time."""
        with self._changed:
            ended = self._changed.wait_for(lambda: child.ended is not None, timeout_s)
        if ended and child.sinks:
            self._streams.flush()  # else output would be lost where the copying thread had no CPU
            for sink in child.sinks.values():
                sink.done.wait(self.LAST_OUTPUT_S)  # a descendant may keep the output open
        return ended

    def _signal(self, signals: List[Tuple[Child, int]]) -> Dict[int, Optional[str]]:
        refused: Dict[int, Optional[str]] = {}
        trees = self.trees()
        signalled = set()
        with self._changed:
            for child, signum in signals:
                if child.ended is None:
                    signalled.add(child.pid)
                    try:
                        os.killpg(child.pid, signum)
                        os.killpg(child.pid, signal.SIGCONT)  # a stopped process handles no other signal
                    except ProcessLookupError:
                        pass
                    except OSError as error:
                        refused[child.pid] = error.strerror
        for child, signum in signals:
            # Other programs started the processes of this group.
            others = set() if child.group is None else set(child.group.pids())
            for each in trees.get(child.id, ()):
                # It left the session, or its leader has ended.
                if each.session not in signalled and each.pid not in others:
                    refused[each.pid] = signal_exactly(each, signum)
        return refused

    def _wait_for_end(self, children: List[Child], seconds: float) -> List[ProcStat]:
        deadline = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: all(child.ended for child in children), seconds)
        remaining: List[ProcStat] = []
        for _ in poll_until(deadline, 0.002, 0.02):
            trees = self.trees()
            remaining = [each for child in children for each in trees.get(child.id, ())]
            if not remaining:
                break
        return remaining

    def trees(self) -> Dict[int, List[ProcStat]]:
        """Return the live processes of each started process, by number."""
        with self._changed:
            by_pid, by_session = dict(self._by_pid), dict(self._by_session)
        groups = [(child.id, child.group) for child in list(self._children.values()) if child.group is not None]
        by_group = {pid: number for number, group in groups for pid in group.pids()}
        return members(all_processes(), by_pid, by_session, by_group, self._number_in_tag)

    def _number_in_tag(self, pid: int) -> Optional[int]:
        tag = tag_of(pid)
        return int(tag.rpartition(".")[2]) if tag.startswith(self._records.tag) else None

    def child(self, number: int) -> Child:
        """Return the started process of this number. Raises OperationError."""
        child = self._children.get(number)
        if child is None:
            raise OperationError("not-found", f"no process {number} was started by this agent")
        return child

    def _drop_records(self) -> None:
        for child in [each for each in self._children.values() if each.ended is not None and each.record is not None]:
            try:
                os.killpg(child.pid, 0)
            except ProcessLookupError:
                self._drop_record(child)
            except PermissionError:  # a process of another user remains
                pass

    def _drop_record(self, child: Child) -> None:
        with self._changed:
            record, child.record = child.record, None
        if record is not None:
            self._records.drop(record, synced=False)

    def _drop_oldest(self) -> None:
        ended = [child for child in self._children.values() if child.ended is not None and child.record is None]
        for child in ended[: max(0, len(self._children) - self.REMEMBERED)]:
            del self._children[child.id]
            if self._by_session.get(child.pid) == child.id:
                del self._by_session[child.pid]
