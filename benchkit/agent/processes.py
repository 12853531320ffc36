"""Starting, watching and ending processes, each in a session of its own, with all their descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

from benchkit.agent.cgroups import Groups
from benchkit.agent.child_process import Child
from benchkit.agent.common import Answer, RefusedError, poll_until
from benchkit.agent.frames import Json
from benchkit.agent.launch import OUTPUTS, Command, Descriptors, Streams, launch, sleep_until
from benchkit.agent.output_pumps import Sink
from benchkit.agent.proc import TAG, ProcStat, all_processes, become_subreaper, proc_stat, signal_exactly, tag_of
from benchkit.agent.process_owners import NOBODYS, members
from benchkit.agent.records import Records
from benchkit.agent.workdir import Workdir


class Processes:
    """What the agent started; every operation is safe for many threads."""

    REMEMBERED = 1000
    ANSWER_BYTES = 4096
    CLOSE_GRACE_S = 1.0
    KILL_S = 3.0
    REAP_S = 1.0
    LAST_OUTPUT_S = 0.2

    def __init__(self, workdir: Workdir, records: Records, groups: Groups) -> None:
        self._workdir = workdir
        self._records, self._groups = records, groups
        self._streams = Streams(workdir)
        self._changed = threading.Condition()
        self._children: Dict[int, Child] = {}
        self._by_pid: Dict[int, int] = {}
        self._by_session: Dict[int, int] = {}
        self._count = 0
        self._closing = False
        self._spawned = threading.Event()
        self._cpus = os.sched_getaffinity(0)
        self._is_subreaper = become_subreaper()
        threading.Thread(target=self._reap, name="reaper", daemon=True).start()

    def start(
        self,
        *,
        command: Json,
        stdin: Optional[Json] = None,
        stdout: Optional[Json] = None,
        stderr: Any = None,  # noqa: ANN401 - {…}, "stdout" or None
        at_ns: Optional[int] = None,
    ) -> Json:
        """Start a process, at the instant `at_ns` of this host's monotonic clock if one is given.

        `stdin` is None (nothing), {"path"} or {"pipe": name}; `stdout` and `stderr` are None (thrown away), {"path",
        "max_bytes"} (None: no ceiling) or {"pipe": name}; `stderr` may be "stdout". A pipe joins the two processes
        that name it.
        """
        sinks: Dict[str, Sink] = {}
        with contextlib.ExitStack() as ours:
            descriptors = self._streams.named(stdin, stdout, stderr, sinks, ours)
            sleep_until(at_ns)
            child = self._spawn(Command(**command), descriptors, sinks)
        late_s = None if at_ns is None else (child.started_ns - at_ns) / 1e9
        return {**child.report(), "late_s": late_s}

    def run(self, *, command: Json, timeout_s: float, max_bytes: int, body: bytes = b"") -> Answer:
        """Run a short command to its end, with `body` as its input; the answer's body is its output, then its errors."""
        child, in_time = self._run(Command(**command), timeout_s, max_bytes, body)
        out, err = (bytes(child.sinks[name].kept) for name in OUTPUTS)
        return {**child.report(), "timed_out": not in_time, "stdout_size": len(out)}, out + err

    def ask(self, command: Command, timeout_s: float) -> Tuple[Optional[int], str]:
        """Run a command for the agent itself: its exit code, and the start of what it printed."""
        child, _ = self._run(command, timeout_s, self.ANSWER_BYTES, b"", own=True)
        text = b"".join(bytes(child.sinks[name].kept) for name in OUTPUTS).decode(errors="replace")
        return (child.ended["exit_code"] if child.ended else None), text

    def wait(self, *, id: int, timeout_s: float) -> Json:  # noqa: A002 - the word of the messages
        """Wait for the end of a process; `ended` is None where the time was too short."""
        child = self.child(id)
        self._wait(child, timeout_s)
        return child.report()

    def stop(self, *, ids: List[int], signum: int, grace_s: float) -> Json:
        """Signal processes with all their descendants; kill what is still there after the grace."""
        children = [self.child(each) for each in ids]
        refused = self._signal(children, signum)
        left = self._wait_gone(children, grace_s)
        killed = [{"pid": each.pid, "name": each.name} for each in left]
        for _ in poll_until(time.monotonic() + self.KILL_S):
            if not left:
                break
            for each in left:
                refused[each.pid] = signal_exactly(each, signal.SIGKILL)
            left = self._wait_gone(children, 0.05)
        for child in children:
            if not left:
                self._wait(child, self.REAP_S)  # dead, but the reaper may not have seen it yet
                self._forget_record(child)
        survivors = [{"pid": each.pid, "name": each.name, "why": refused.get(each.pid)} for each in left]
        return {"processes": [child.report() for child in children], "killed": killed, "survivors": survivors}

    def ps(self) -> Json:
        """What was started and what of it is there, descendants with it."""
        trees = self.trees()
        return {
            "processes": [
                {
                    **child.report(),
                    "argv": child.command.argv,
                    "members": [{"pid": each.pid, "name": each.name} for each in trees.get(child.id, ())],
                }
                for child in list(self._children.values())
                if child.ended is None or child.id in trees
            ]
        }

    def cpu(self, *, ids: List[int]) -> Json:
        """CPU time of process trees so far, of descendants that ended too: id → user and system seconds."""
        children = [self.child(each) for each in ids]
        trees = self.trees()
        used = {}
        for child in children:
            tree = trees.get(child.id, [])
            user_s, system_s = child.cpu_s(tree)
            used[str(child.id)] = {"user_s": user_s, "system_s": system_s, "processes": len(tree)}
        return {"cpu": used, "monotonic_ns": time.monotonic_ns()}

    def is_over(self, number: int) -> bool:
        """Whether the process itself has ended."""
        return self.child(number).ended is not None

    def close(self) -> Tuple[List[str], List[str]]:
        """Stop everything that was started and start nothing more; what ran, and what could not be stopped, for people."""
        with self._changed:
            self._closing = True
            ids = list(self._children)
        ran = [f"{each.name} ({each.pid})" for group in self.trees().values() for each in group]
        survivors = self.stop(ids=ids, signum=signal.SIGTERM, grace_s=self.CLOSE_GRACE_S)["survivors"]
        for _ in poll_until(time.monotonic() + self.KILL_S):
            strays = self.trees().get(NOBODYS, [])
            if not strays:
                break
            for each in strays:
                signal_exactly(each, signal.SIGKILL)
        left = [f"process {each['pid']} ({each['name']}) could not be stopped: {each['why']}" for each in survivors]
        return ran, left

    # -- how it is done

    def _run(
        self, command: Command, timeout_s: float, max_bytes: int, body: bytes, *, own: bool = False
    ) -> Tuple[Child, bool]:
        sinks: Dict[str, Sink] = {}
        with contextlib.ExitStack() as ours:
            child = self._spawn(command, self._streams.in_memory(body, max_bytes, sinks, ours), sinks, own=own)
        in_time = self._wait(child, timeout_s)
        if not in_time:
            self.stop(ids=[child.id], signum=signal.SIGTERM, grace_s=1.0)
        return child, in_time

    def _spawn(self, command: Command, descriptors: Descriptors, sinks: Dict[str, Sink], *, own: bool = False) -> Child:
        folder = self._workdir.root if command.cwd is None else self._workdir.inside(command.cwd)
        with self._changed:
            if self._closing and not own:
                raise RefusedError("closing", "the agent is ending")
            self._count += 1
            child = Child(self._count, command, sinks)
            child.started_ns = time.monotonic_ns()
            tag = {TAG: f"{self._records.tag}{child.id}"}
            child.pid = launch(self._groups.entering(command), descriptors, str(folder), tag, self._cpus)
            found = proc_stat(child.pid)
            child.start = found.start if found else 0
            self._children[child.id] = child
            self._by_pid[child.pid] = self._by_session[child.pid] = child.id
            self._forget_oldest()
            what = {"pid": child.pid, "start": child.start, "program": command.argv[0]}
            child.record = self._records.note("process", what, synced=False)
            self._spawned.set()
        return child

    def _reap(self) -> None:
        while True:
            self._spawned.wait()
            self._spawned.clear()
            with contextlib.suppress(ChildProcessError):  # no child is left
                while True:
                    ready = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
                    if ready is not None:
                        self._take_end(ready.si_pid)

    def _take_end(self, pid: int) -> None:
        """Note how a child ended. Until then its pid is taken, so that no signal can hit another process."""
        with self._changed:  # held while one is started: what ends at once is known by then
            before = proc_stat(pid)
            try:
                done, status, usage = os.wait4(pid, os.WNOHANG)
            except ChildProcessError:  # could not be started; Popen has waited for it
                return
            if not done:
                return
            number = self._by_pid.pop(pid, None)
            if number is None:
                number = self._by_session.get(before.session) if before else None
                if number is not None:
                    self._children[number].adopt(usage)
            else:
                self._children[number].end(status, usage)
            self._settle()
            self._changed.notify_all()

    def _wait(self, child: Child, timeout_s: float) -> bool:
        with self._changed:
            over = self._changed.wait_for(lambda: child.ended is not None, timeout_s)
        if over:
            for sink in child.sinks.values():
                sink.done.wait(self.LAST_OUTPUT_S)  # a descendant may keep it open
        return over

    def _signal(self, children: List[Child], signum: int) -> Dict[int, Optional[str]]:
        """Signal children and their descendants, each once; pid → what went wrong."""
        refused: Dict[int, Optional[str]] = {}
        trees = self.trees()
        reached = set()
        with self._changed:
            for child in children:
                if child.ended is None:
                    reached.add(child.pid)
                    try:
                        os.killpg(child.pid, signum)
                        os.killpg(child.pid, signal.SIGCONT)  # what is stopped takes no other signal
                    except ProcessLookupError:
                        pass
                    except OSError as error:
                        refused[child.pid] = error.strerror
        for child in children:
            for each in trees.get(child.id, ()):
                if each.session not in reached:  # it left the session, or its leader has ended
                    refused[each.pid] = signal_exactly(each, signum)
        return refused

    def _wait_gone(self, children: List[Child], seconds: float) -> List[ProcStat]:
        """Wait until nothing of these is left; what is."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: all(child.ended for child in children), seconds)
        left: List[ProcStat] = []
        for _ in poll_until(deadline, 0.002, 0.02):
            trees = self.trees()
            left = [each for child in children for each in trees.get(child.id, ())]
            if not left:
                break
        return left

    def trees(self, everything: Optional[Dict[int, ProcStat]] = None) -> Dict[int, List[ProcStat]]:
        """What lives of each thing started, by its number; `everything`: all processes there are, if known already."""
        with self._changed:
            by_pid, by_session = dict(self._by_pid), dict(self._by_session)
        return members(everything or all_processes(), by_pid, by_session, self._tagged, subreaper=self._is_subreaper)

    def _tagged(self, pid: int) -> Optional[int]:
        """The number that is in the environment of a process, if it is one of this agent's."""
        tag = tag_of(pid)
        return int(tag.rpartition(".")[2]) if tag.startswith(self._records.tag) else None

    def child(self, number: int) -> Child:
        """What was started under this number. Raises RefusedError."""
        child = self._children.get(number)
        if child is None:
            raise RefusedError("not-found", f"no process {number} was started here")
        return child

    def _settle(self) -> None:
        """Take away the records of children that have ended, and all of their groups with them."""
        for child in [each for each in self._children.values() if each.ended is not None and each.record is not None]:
            try:
                os.killpg(child.pid, 0)
            except ProcessLookupError:
                self._forget_record(child)
            except PermissionError:  # another user's is left
                pass

    def _forget_record(self, child: Child) -> None:
        with self._changed:
            record, child.record = child.record, None
        if record is not None:
            self._records.drop(record, synced=False)

    def _forget_oldest(self) -> None:
        over = [child for child in self._children.values() if child.ended is not None and child.record is None]
        for child in over[: max(0, len(self._children) - self.REMEMBERED)]:
            del self._children[child.id]
            if self._by_session.get(child.pid) == child.id:
                del self._by_session[child.pid]
