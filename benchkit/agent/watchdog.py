"""The watchdog: a process on the host that restores everything when its agent ends or is killed.

It is the parent of the agent:

    sshd — waiter — watchdog — agent — services, load tools, …

The waiter is the process that sshd waits for; it ends when everything is restored, or when the agent leaves a kept
stack. The watchdog has its own session, none of sshd's open files, and is the subreaper of its descendants. When the
agent is killed, its processes become children of the watchdog. The watchdog keeps the lease: after that long without a
heartbeat from the controller, it ends the agent. When the agent has ended, it ends the remaining processes, restores
what the records say, and writes a report.

Where systemd ends a user's processes at logout (logind.conf(5), KillUserProcesses=yes; few distributions' default), it
ends watchdogs too. Then the next connection finds the records and undoes them.
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

from benchkit.agent.common import OperationError, Workdir, poll_until
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import StopSignal, UndoneChange, decode
from benchkit.agent.proc import (
    all_processes,
    become_subreaper,
    descendants,
    end_processes,
    is_running,
    proc_stat,
    recorded_stop,
    signal_exactly,
)
from benchkit.agent.records import Records
from benchkit.agent.settings import Sysctls
from benchkit.agent.undo import Undo
from benchkit.agent.watchdog_link import MESSAGE_BYTES, WatchdogLink, acquire, answer


def run_under_watchdog(workdir: Workdir, lease_s: float, serve: Callable[[WatchdogLink, Records], int]) -> int:
    """Run `serve` as the agent under a watchdog; return the agent's exit code, 1 where it was killed.

    It returns once the watchdog has restored everything.
    """
    exit_code_out, exit_code_in = os.pipe2(os.O_CLOEXEC)
    if os.fork() != 0:
        os.close(exit_code_in)
        _detach("benchkit-waiter")
        code = os.read(exit_code_out, 1)
        return code[0] if code else 1
    os.close(exit_code_out)
    os.setsid()
    become_subreaper()
    records = Records(workdir)
    control, agent_control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reasons_out, reasons_in = os.pipe2(os.O_CLOEXEC)
    watchdog = os.getpid()
    agent = os.fork()
    if agent == 0:
        control.close()
        os.close(reasons_in)
        _set_name("benchkit-agent")
        exit_code = serve(WatchdogLink(agent_control, reasons_out, lease_s), records)
        if os.getppid() != watchdog:  # the watchdog was killed, so the agent itself reports its exit code
            os.write(exit_code_in, bytes([exit_code]))
        os._exit(exit_code)
    agent_control.close()
    os.close(reasons_out)
    _detach("benchkit-watchd")
    with contextlib.suppress(OSError):  # needs root; without, the kernel may kill the watchdog like any process
        Path("/proc/self/oom_score_adj").write_text("-500")
    Watchdog(
        workdir, records, agent, control=control, reasons=reasons_in, waiter=exit_code_in, lease_s=lease_s or None
    ).run()
    os._exit(0)


class Watchdog:
    """Monitors one agent, and restores everything after its end."""

    AGENT_END_S = 3.0
    """Time for an agent to stop everything after it is asked to end."""
    ATTEMPTS = 3
    PAUSE_S = 1.0

    def __init__(
        self,
        workdir: Workdir,
        records: Records,
        agent: int,
        *,
        control: socket.socket,
        reasons: int,
        waiter: int,
        lease_s: Optional[float],
    ) -> None:
        """Monitor the process `agent`; it needs heartbeats only if `lease_s` is given.

        `waiter` is the end of the pipe from which the waiter reads the exit code.
        """
        self._records = records
        self._undo = Undo(workdir, records, Sysctls(records, self._run_command), self._run_command)
        self._agent = proc_stat(agent)
        self._agent_exit_code = 1
        self._waiter: Optional[int] = waiter
        self._control = control
        self._reasons = reasons
        self._lease_s = lease_s
        self._last_heartbeat = time.monotonic()
        self._kept = False
        self._goodbye = False
        self._undone_by_agent: List[UndoneChange] = []
        self._agent_reason: Optional[str] = None
        self._listener: Optional[socket.socket] = None
        self._about: JsonObject = {}
        self._signals, signals_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._is_ending = False
        signal.set_wakeup_fd(signals_in, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._poll = select.poll()
        for fd in (self._control.fileno(), self._signals):
            self._poll.register(fd, select.POLLIN)

    def run(self) -> None:
        """Monitor the agent until it ends or must end; then restore everything, and report failures."""
        reason = self._monitor()
        self._end_agent(reason)
        self._restore(reason)
        self._end_waiter()

    def _monitor(self) -> str:
        """Answer the agent and requests for the lock's holder until it is time to restore; return the reason."""
        while True:
            remaining_s = None if self._lease_s is None else self._last_heartbeat + self._lease_s - time.monotonic()
            if remaining_s is not None and remaining_s <= 0:
                return f"no heartbeat from the controller for {self._lease_s:g} s"
            ready = [fd for fd, _ in self._poll.poll(None if remaining_s is None else remaining_s * 1000 + 1)]
            if self._signals in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._signals, 4096)
                self._reap()
            if self._is_ending:
                return "it received a signal to end"
            if self._control.fileno() in ready and not self._receive():
                self._poll.unregister(self._control.fileno())
                self._await_agent()
                if not self._kept:
                    return self._agent_reason or "its agent was killed"
                self._end_waiter()
            if self._listener is not None and self._listener.fileno() in ready:
                answer(self._listener, self._description())

    def _end_waiter(self) -> None:
        if self._waiter is None:
            return
        with contextlib.suppress(BrokenPipeError):  # sshd has ended it
            os.write(self._waiter, bytes([self._agent_exit_code]))
        os.close(self._waiter)
        self._waiter = None

    def _note_end(self, *_: object) -> None:
        self._is_ending = True

    def _receive(self) -> bool:
        try:
            packet = self._control.recv(MESSAGE_BYTES)
        except OSError:
            return False
        if not packet:
            return False
        message = json.loads(packet)
        self._last_heartbeat = time.monotonic()
        if message["op"] == "lock":
            self._control.send(json.dumps({"locked": self._lock(message["about"])}).encode())
        elif message["op"] == "keep":
            self._kept, self._lease_s = True, message["lease_s"]
            self._control.send(b"{}")
        elif message["op"] == "done":
            self._goodbye, self._agent_reason = message["goodbye"], message["reason"]
            self._undone_by_agent = decode(List[UndoneChange], message["undone"])
            self._control.send(b"{}")
        return True

    def _lock(self, about: JsonObject) -> bool:
        self._about = about
        if self._listener is None:
            self._listener = acquire()
            if self._listener is None:
                return False
            self._poll.register(self._listener.fileno(), select.POLLIN)
        return True

    def _state(self) -> str:
        """Return the state of the agent: "running", "ending" or, where it has ended and left a kept stack, "kept".

        Closed files show the end of a killed agent only after its last thread has ended; /proc shows it before.
        """
        if self._agent is None:
            return "kept"
        return "running" if is_running(self._agent.pid, self._agent.start) else "ending"

    def _description(self) -> JsonObject:
        heartbeat_age_s = time.monotonic() - self._last_heartbeat
        return {**self._about, "state": self._state(), "lease_s": self._lease_s, "heartbeat_age_s": heartbeat_age_s}

    def _end_agent(self, reason: str) -> None:
        if self._agent is None:
            return
        with contextlib.suppress(OSError):  # it has ended
            os.write(self._reasons, reason.encode())
        for _ in poll_until(time.monotonic() + self.AGENT_END_S):
            while select.select([self._control], [], [], 0)[0] and self._receive():
                pass
            if self._has_agent_ended():
                return
        signal_exactly(self._agent, signal.SIGKILL)
        self._await_agent()

    def _await_agent(self) -> None:
        for _ in poll_until(time.monotonic() + self.AGENT_END_S):
            if self._has_agent_ended():
                return
        if self._agent is not None:
            signal_exactly(self._agent, signal.SIGKILL)
            self._agent = None

    def _has_agent_ended(self) -> bool:
        self._reap()
        return self._agent is None

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if self._agent is not None and pid == self._agent.pid:
                    self._agent = None
                    self._agent_exit_code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1

    def _restore(self, reason: str) -> None:
        names = [f"{each.name} ({each.pid})" for each in descendants(os.getpid(), all_processes())]
        failures = self._end_descendants()
        self._reap()
        undone = self._undo.own_with_leftovers()
        for _ in range(self.ATTEMPTS - 1):
            if not any(each.failures for each in undone):
                break
            time.sleep(self.PAUSE_S)
            retried = self._undo.own_with_leftovers()
            undone = [each for each in undone if not each.failures] + retried
        undone = self._undone_by_agent + undone
        failures += [failure for each in undone for failure in each.failures]
        if (undone or names) and not (self._goodbye and not failures):
            texts = [*(f"process {name}" for name in names), *(each.text for each in undone)]
            self._records.report(
                reason,
                run=self._about.get("run"),
                undone=list(dict.fromkeys(texts)),
                failures=failures,
            )

    def _end_descendants(self) -> List[str]:
        stops = {}
        for _, record in self._records.all():
            if record["kind"] == "process" and self._records.is_own(record):
                stops[record.get("pid")] = recorded_stop(record)
        return end_processes(
            lambda: descendants(os.getpid(), all_processes()),
            max([StopSignal().within_s, *(stop.within_s for stop in stops.values())]),
            signum_of=lambda each: (stops.get(each.pid) or stops.get(each.session) or StopSignal()).signum,
        )

    @staticmethod
    def _run_command(argv: List[str], timeout_s: float) -> Tuple[Optional[int], str]:
        try:
            completed = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=False,
            )
        except OSError as error:
            raise OperationError("not-found", f"cannot start {argv[0]}", error.strerror) from None
        except subprocess.TimeoutExpired:
            return None, f"it did not end within {timeout_s:g} s"
        return completed.returncode, completed.stdout.decode(errors="replace")


def _detach(name: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)
    _set_name(name)


def _set_name(name: str) -> None:
    """Set the name that `ps -o comm` shows, at most 15 characters."""
    with contextlib.suppress(OSError):  # not essential
        Path("/proc/self/comm").write_text(name)
