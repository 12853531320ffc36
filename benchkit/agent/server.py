"""The agent: reads requests, executes each in its own thread, and answers."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from pathlib import PurePosixPath
from typing import List, Optional, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.cgroups import Cgroups
from benchkit.agent.common import OperationError, Workdir, refusal_of, write_all
from benchkit.agent.containers import Containers
from benchkit.agent.facts import FactsReader
from benchkit.agent.files import FileStore
from benchkit.agent.frames import FAILURE_PREFIX, FrameError, FrameReader, JsonObject, pack
from benchkit.agent.operations import ProcessSpec, operation
from benchkit.agent.processes import ProcessTable
from benchkit.agent.records import Records
from benchkit.agent.settings import Sysctls
from benchkit.agent.sockets import SocketProbes
from benchkit.agent.telemetry import Telemetry
from benchkit.agent.timetable import Timetable
from benchkit.agent.undo import Undo
from benchkit.agent.watchdog import run_under_watchdog
from benchkit.agent.watchdog_link import WatchdogLink

GOODBYE = "the controller said goodbye"
DISCONNECTED = "the controller disconnected without a goodbye"
IMMEDIATE = ("Agent.read_clocks", "Agent.goodbye")
"""Operations that are executed by the thread that reads requests."""
UNDO_PAUSES_S = (1.0, 2.0)
"""Pauses before further attempts to undo a change: a container engine refuses for a moment while it cleans up."""


class ShutdownError(Exception):
    """A request to end the agent."""


class Agent:
    """Reads requests, executes each in its own thread, and answers."""

    def __init__(self, workdir: Workdir, records: Records, watchdog: WatchdogLink, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._watchdog = watchdog
        self._goodbye = False
        self._shutdown_requested, self._shutdown_request = os.pipe2(os.O_CLOEXEC)
        self._waiting = select.poll()
        self._waiting.register(requests, select.POLLIN)
        self._waiting.register(self._shutdown_requested, select.POLLIN)
        self._waiting.register(watchdog.end_reasons, select.POLLIN)
        self._sending = threading.Lock()
        self._workdir = workdir
        self._records = records
        cgroups = Cgroups(records)
        self._processes = processes = ProcessTable(workdir, records, cgroups)
        self._files = FileStore(workdir, records, processes.flush_outputs)

        def run(argv: List[str], time_s: float) -> Tuple[Optional[int], str]:
            return processes.run_for_agent(ProcessSpec(argv), time_s)

        sysctls = Sysctls(records, run)
        timetable = Timetable(processes)
        self._undo = Undo(workdir, records, sysctls, run)
        objects = (
            *(self, self._files, processes, timetable, sysctls, cgroups, records, watchdog, self._undo),
            *(FactsReader(workdir, processes, sysctls), Containers(records, run)),
            *(SocketProbes(processes), Telemetry(workdir, processes, timetable)),
        )
        self._objects = {type(each).__name__: each for each in objects}

    def serve(self) -> str:
        """Execute requests until the agent has to end; return the reason."""
        hello = ops.Hello(os.getpid(), os.getppid(), str(self._workdir.root))
        self._send({"id": 0, "ok": hello})
        reader = FrameReader(self._receive)
        try:
            while True:
                frame = reader.next()
                if frame is None:
                    return DISCONNECTED
                self._dispatch(*frame)
        except (ShutdownError, FrameError) as error:
            return str(error)

    def end(self) -> None:
        """End `serve`; may be called by a signal handler."""
        os.write(self._shutdown_request, b"!")

    def close(self, reason: str) -> List[str]:
        """Stop all processes and undo all changes; return failures."""
        if self._watchdog.kept:
            return []
        stopped, failures = self._processes.close()
        undone = self._undo.own()
        for pause_s in UNDO_PAUSES_S if self._goodbye else ():  # without a goodbye the watchdog tries again
            if not any(each.failures for each in undone):
                break
            time.sleep(pause_s)
            undone = [each for each in undone if not each.failures] + self._undo.own()
        done = [ops.UndoneChange(f"process {name}", [], "undone") for name in stopped]
        done += [each for each in undone if not each.failures]
        try:
            self._watchdog.done(goodbye=self._goodbye, reason=GOODBYE if self._goodbye else reason, undone=done)
        except OperationError:  # the watchdog was killed: nothing else will remove the rest
            undone += self._undo.own_with_leftovers()
        return failures + [failure for each in undone for failure in each.failures]

    @operation()
    def read_clocks(self) -> ops.Clocks:
        """Read the clocks, for comparison with the controller's."""
        return ops.Clocks(time.monotonic_ns(), time.time_ns())

    @operation()
    def goodbye(self) -> None:
        """Announce an orderly end of the connection: the watchdog then reports only failures to restore."""
        self._goodbye = True

    @operation()
    def remove_workdir(self) -> PurePosixPath:
        """Remove the work directory with everything in it, and return its path; only the agent's end may follow.

        Raises OperationError while it has records of changes to undo.
        """
        remaining = len(self._records.all())
        if remaining:
            raise OperationError(
                "busy",
                f"the work directory {self._workdir.root} has {remaining} records of changes to undo",
                "without them nothing could be restored",
            )
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(str(self._workdir.root))
        return PurePosixPath(self._workdir.root)

    def _receive(self, size: int) -> bytes:
        ready = dict(self._waiting.poll())
        if self._shutdown_requested in ready:
            raise ShutdownError("it received a signal to end")
        if self._watchdog.end_reasons in ready:
            raise ShutdownError(self._watchdog.reason_to_end())
        self._watchdog.renew()
        return os.read(self._requests, size)

    def _dispatch(self, header: JsonObject, body: bytes) -> None:
        # The controller measures the round trip of `read_clocks`; after `goodbye`, it waits for the end of the agent.
        if header.get("op") in IMMEDIATE:
            self._answer(header, body)
        else:
            threading.Thread(target=self._answer, args=(header, body), daemon=True).start()

    def _answer(self, header: JsonObject, body: bytes) -> None:
        answer: JsonObject = {"id": header["id"]}
        content = b""
        try:
            owner, _, name = header["op"].partition(".")
            answer["ok"], content = ops.encode(ops.execute(self._objects[owner], name, header.get("args", {}), body))
        except (OperationError, OSError) as error:
            refusal = error if isinstance(error, OperationError) else refusal_of(error, self._workdir.root)
            answer["error"] = {"kind": refusal.kind, "what": refusal.what, "why": refusal.why}
        except Exception:  # noqa: BLE001 - every request gets an answer
            answer["error"] = {"kind": "bug", "what": "the agent failed", "why": traceback.format_exc()}
        self._send(answer, content)

    def _send(self, header: JsonObject, body: bytes = b"") -> None:
        frame = pack(header, body)
        with self._sending, contextlib.suppress(BrokenPipeError):  # the controller disconnected, which ends stdin too
            write_all(self._answers, frame)


def main(argv: List[str]) -> int:
    """Run the agent under a watchdog; return 3 if the work directory cannot be used, 1 if the agent was killed."""
    lease_s = float(argv[1]) if argv[:1] == ["--lease"] else 0.0
    try:
        workdir = Workdir(argv[-1])
    except OperationError as error:
        print(error, file=sys.stderr)
        return 3
    return run_under_watchdog(workdir, lease_s, lambda watchdog, records: serve(workdir, watchdog, records))


def serve(workdir: Workdir, watchdog: WatchdogLink, records: Records) -> int:
    """Run the agent until it ends."""
    requests, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)  # output of `print` must not mix with the frames
    os.chdir(str(workdir.root))
    os.umask(0o022)  # modes of files and folders do not depend on the login's umask
    agent = Agent(workdir, records, watchdog, requests, answers)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: agent.end())
    reason = agent.serve()
    with contextlib.suppress(OSError):  # the controller may have disconnected
        for failure in agent.close(reason):
            print(f"{FAILURE_PREFIX}{failure} ({reason})", file=sys.stderr, flush=True)
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    return 0
