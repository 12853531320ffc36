"""The guardian: a process on the host that is alive on its own and outlives whatever becomes of the agent it started.

It stands between the login and the agent:

    sshd — door — guardian — agent — services, load tools, …

The door only waits, so that sshd has somebody to wait for. The guardian is in a session of its own, has nothing of
sshd's open, and is the nearest ancestor that takes in orphans, so what is below the agent comes below it when the agent
is killed. It holds the lease: when nothing was heard from the controller for so long, it ends the agent. When the agent
is gone, for whatever reason, it ends what is left below it, puts back what the records say, and writes down what it did.

Where systemd ends a user's processes at logout (logind.conf(5), KillUserProcesses=yes; no distribution's default but a
few), it ends guardians too; then the next contact finds the records.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Callable, List, Optional, Tuple

from benchkit.agent import host_lock
from benchkit.agent.common import RefusedError, poll_until
from benchkit.agent.frames import Json
from benchkit.agent.lease import MESSAGE_BYTES, Lease
from benchkit.agent.proc import (
    all_processes,
    become_subreaper,
    below,
    end_processes,
    is_running,
    proc_stat,
    signal_exactly,
)
from benchkit.agent.records import Records
from benchkit.agent.sysctls import Sysctls
from benchkit.agent.undo import Undo
from benchkit.agent.workdir import Workdir


def guarded(workdir: Workdir, lease_s: float, serve: Callable[[Lease, Records], int]) -> int:
    """Have `serve` run below a guardian; the exit code that it comes to, 1 where it is killed."""
    told, tell = os.pipe2(os.O_CLOEXEC)
    if os.fork() != 0:
        os.close(tell)
        _let_go_of_streams("benchkit-door")
        said = os.read(told, 1)
        return said[0] if said else 1
    os.close(told)
    os.setsid()
    become_subreaper()
    records = Records(workdir)
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    notices, notify = os.pipe2(os.O_CLOEXEC)
    agent = os.fork()
    if agent == 0:
        near.close()
        os.close(notify)
        _name("benchkit-agent")
        code = serve(Lease(far, notices, lease_s), records)
        os.write(tell, bytes([code]))
        os._exit(code)
    far.close()
    os.close(notices)
    os.close(tell)
    _let_go_of_streams("benchkit-guard")
    with contextlib.suppress(OSError):  # takes root; without it the guardian is as likely to be picked as any
        Path("/proc/self/oom_score_adj").write_text("-500")
    Watchdog(workdir, records, agent, control=near, notify=notify, lease_s=lease_s or None).watch()
    os._exit(0)


class Watchdog:
    """Watches one agent, and clears up behind it."""

    AGENT_END_S = 3.0
    """An agent that is asked to end has stopped everything well within this."""
    SUDO_S = 10.0
    TRIES = 3
    PAUSE_S = 1.0

    def __init__(
        self,
        workdir: Workdir,
        records: Records,
        agent: int,
        *,
        control: socket.socket,
        notify: int,
        lease_s: Optional[float],
    ) -> None:
        """Guard the process `agent`; `lease_s` None: it may be silent for as long as it lives."""
        self._records = records
        self._undo = Undo(workdir, records, Sysctls(records, self._ask))
        self._agent = proc_stat(agent)
        self._control = control
        self._notify = notify
        self._lease_s = lease_s
        self._heard = time.monotonic()
        self._kept = False
        self._goodbye = False
        self._by_agent: List[Json] = []
        self._agent_reason: Optional[str] = None
        self._listener: Optional[socket.socket] = None
        self._about: Json = {}
        self._woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._asked_to_end = False
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._poll = select.poll()
        for fd in (self._control.fileno(), self._woken):
            self._poll.register(fd, select.POLLIN)

    def watch(self) -> None:
        """Stay until there is nothing to guard any more; then all is put back, or written down that it is not."""
        reason = self._watch()
        self._end_agent(reason)
        self._clear_up(reason)

    def _watch(self) -> str:
        """Serve until it is time to clear up; why."""
        while True:
            left_s = None if self._lease_s is None else self._heard + self._lease_s - time.monotonic()
            if left_s is not None and left_s <= 0:
                return f"nothing was heard from the controller for {self._lease_s:g} s"
            ready = [fd for fd, _ in self._poll.poll(None if left_s is None else left_s * 1000 + 1)]
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._bury()
            if self._asked_to_end:
                return "it was asked to end"
            if self._control.fileno() in ready and not self._hear():
                self._poll.unregister(self._control.fileno())
                self._await_agent()
                if not self._kept:
                    return self._agent_reason or "its agent was killed"
            if self._listener is not None and self._listener.fileno() in ready:
                host_lock.tell(self._listener, self._story(self._state()))

    def _note_end(self, *_: object) -> None:
        self._asked_to_end = True

    def _hear(self) -> bool:
        """Take one message of the agent's; False at its end."""
        try:
            packet = self._control.recv(MESSAGE_BYTES)
        except OSError:
            return False
        if not packet:
            return False
        message = json.loads(packet)
        self._heard = time.monotonic()
        if message["op"] == "hold":
            self._control.send(json.dumps({"held": self._hold(message["about"])}).encode())
        elif message["op"] == "keep":
            self._kept, self._lease_s = True, message["lease_s"]
            self._control.send(b"{}")
        elif message["op"] == "done":
            self._goodbye, self._agent_reason, self._by_agent = message["goodbye"], message["reason"], message["undone"]
            self._control.send(b"{}")
        return True

    def _hold(self, about: Json) -> bool:
        self._about = about
        if self._listener is None:
            self._listener = host_lock.take()
            if self._listener is None:
                return False
            self._poll.register(self._listener.fileno(), select.POLLIN)
        return True

    def _state(self) -> str:
        """How the agent is: "running", "ending" or, where it went and its stack stays, "kept".

        One that was killed closes what it had open only once its last thread is gone; until then nothing else tells.
        """
        if self._agent is None:
            return "kept"
        return "running" if is_running(self._agent.pid, self._agent.start) else "ending"

    def _story(self, state: str) -> Json:
        heard_s = time.monotonic() - self._heard
        return {**self._about, "state": state, "lease_s": self._lease_s, "heard_s": heard_s}

    def _end_agent(self, reason: str) -> None:
        """Have the agent end by itself, for it knows best how; by force where it does not."""
        if self._agent is None:
            return
        with contextlib.suppress(OSError):  # gone already
            os.write(self._notify, reason.encode())
        for _ in poll_until(time.monotonic() + self.AGENT_END_S):
            self._hear_all()
            if self._is_buried():
                return
        signal_exactly(self._agent, signal.SIGKILL)
        self._await_agent()

    def _hear_all(self) -> None:
        """Take what the agent says now, without waiting for more."""
        while select.select([self._control], [], [], 0)[0] and self._hear():
            pass

    def _await_agent(self) -> None:
        """Wait for the end of an agent that is about to end, or was killed."""
        for _ in poll_until(time.monotonic() + self.AGENT_END_S):
            if self._is_buried():
                return
        if self._agent is not None:
            signal_exactly(self._agent, signal.SIGKILL)
            self._agent = None

    def _is_buried(self) -> bool:
        self._bury()
        return self._agent is None

    def _bury(self) -> None:
        """Take note of children that have ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if self._agent is not None and pid == self._agent.pid:
                    self._agent = None

    def _clear_up(self, reason: str) -> None:
        """End what is left below, put back what the records say, and write down what that was."""
        names = [f"{each.name} ({each.pid})" for each in below(os.getpid(), all_processes())]
        failures = end_processes(lambda: below(os.getpid(), all_processes()))
        self._bury()
        undone = self._undo.everything_of_mine()
        for _ in range(self.TRIES - 1):
            if not any(each["failures"] for each in undone):
                break
            time.sleep(self.PAUSE_S)
            again = self._undo.everything_of_mine()
            undone = [each for each in undone if not each["failures"]] + again
        undone = self._by_agent + [{**each, "by": "guardian"} for each in undone]
        failures += [failure for each in undone for failure in each["failures"]]
        if (undone or names) and not (self._goodbye and not failures):
            self._records.report(
                {"reason": reason, "holder": self._about, "ended": names, "undone": undone, "failures": failures}
            )

    @staticmethod
    def _ask(argv: List[str], timeout_s: float) -> Tuple[Optional[int], str]:
        """Run a command; its exit code and what it printed."""
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except OSError as error:
            raise RefusedError("not-found", f"cannot start {argv[0]}", error.strerror) from None
        except subprocess.TimeoutExpired:
            return None, f"it did not end within {timeout_s:g} s"
        return done.returncode, done.stdout.decode(errors="replace")


def _let_go_of_streams(name: str) -> None:
    """Have nothing open that sshd waits for, and be known by a name."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
    _name(name)


def _name(name: str) -> None:
    """What `ps -o comm` shows; 15 characters at most."""
    with contextlib.suppress(OSError):  # a nicety
        Path("/proc/self/comm").write_text(name)
