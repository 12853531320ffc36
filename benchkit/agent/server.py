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
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from benchkit.agent import http_client
from benchkit.agent import operations as ops
from benchkit.agent.cgroups import Cgroups
from benchkit.agent.common import OperationError, refusal_of, write_all
from benchkit.agent.containers import Containers, find_cgroup
from benchkit.agent.facts import FactsReader
from benchkit.agent.files import FileStore
from benchkit.agent.frames import FAILURE_PREFIX, FrameError, FrameReader, JsonObject, pack
from benchkit.agent.host_lock import holder
from benchkit.agent.operations import CommandSpec, Operation
from benchkit.agent.processes import ProcessTable
from benchkit.agent.records import Records
from benchkit.agent.settings import Sysctls
from benchkit.agent.sockets import SocketProbes
from benchkit.agent.telemetry import TelemetryRequests
from benchkit.agent.temporary_files import TemporaryFolders
from benchkit.agent.timetable import Timetable
from benchkit.agent.undo import Undo, expect_cleanup
from benchkit.agent.watchdog import run_under_watchdog
from benchkit.agent.watchdog_link import WatchdogLink
from benchkit.agent.workdir import Workdir

GOODBYE = "the controller said goodbye"
DISCONNECTED = "the controller disconnected without a goodbye"
UNDO_PAUSES_S = (1.0, 2.0)
"""Pauses before further attempts to undo a change: a container engine refuses for a moment while it cleans up."""


class ShutdownError(Exception):
    """A request to end the agent."""


class Agent:
    """Reads requests, executes each in its own thread, and answers."""

    MAX_REQUESTS = 256

    def __init__(self, workdir: Workdir, records: Records, watchdog: WatchdogLink, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._watchdog = watchdog
        self._goodbye = False
        self._shutdown_requested, self._shutdown_request = os.pipe2(os.O_CLOEXEC)
        records.remove_partial()
        self._waiting = select.poll()
        self._waiting.register(requests, select.POLLIN)
        self._waiting.register(self._shutdown_requested, select.POLLIN)
        self._waiting.register(watchdog.end_reasons, select.POLLIN)
        self._sending = threading.Lock()
        self._free = threading.BoundedSemaphore(self.MAX_REQUESTS)
        self._workdir = workdir
        self._records = records
        self._files = files = FileStore(workdir)
        cgroups = Cgroups(records)
        self._processes = processes = ProcessTable(workdir, records, cgroups)
        sockets = SocketProbes(processes)

        def run(argv: List[str], time_s: float) -> Tuple[Optional[int], str]:
            return processes.run_for_agent(CommandSpec(argv), time_s)

        sysctls = Sysctls(records, run)
        containers = Containers(records, run)
        temporary = TemporaryFolders(workdir, records, files)
        self._undo = Undo(workdir, records, sysctls, run)
        timetable = Timetable(processes)
        telemetry = TelemetryRequests(workdir, processes, timetable)
        self.handlers: Dict[Type[Operation[Any]], Callable[[Any], Any]] = {
            ops.ReadClocks: lambda _: ops.Clocks(time.monotonic_ns(), time.time_ns()),
            ops.Goodbye: self._note_goodbye,
            ops.GatherFacts: FactsReader(workdir, processes, sysctls).gather,
            ops.MissingFiles: files.missing,
            ops.UploadChunk: files.upload,
            ops.PlaceFiles: files.place,
            ops.MakeFolder: lambda wanted: files.mkdir(wanted.path),
            ops.MakeTemporaryFolder: temporary.make,
            ops.WriteTemporaryFile: temporary.write,
            ops.RemovePath: temporary.remove,
            ops.RemoveWorkdir: self._remove_workdir,
            ops.ListFolder: files.list,
            ops.ReadChunk: self._read_chunk,
            ops.CompressFile: files.compress,
            ops.ArchiveFiles: files.archive,
            ops.StartProcess: processes.start,
            ops.RunCommand: processes.run,
            ops.WaitForProcess: processes.wait,
            ops.StopProcesses: processes.stop,
            ops.ListTrees: processes.list_trees,
            ops.ListProcesses: processes.list_all,
            ops.ReadCpuTimes: processes.cpu_times,
            ops.CountByCgroup: processes.count_by_cgroup,
            ops.WatchProcesses: processes.watch,
            ops.RunTimetable: timetable.run,
            ops.StopTimetable: timetable.stop,
            ops.ProbePort: sockets.probe_port,
            ops.GetHttp: http_client.get,
            ops.FindPortOwners: sockets.port_owners,
            ops.FindListeners: sockets.listeners,
            ops.ReadSysctls: lambda wanted: sysctls.read(wanted.keys),
            ops.WriteSysctls: sysctls.write,
            ops.CreateCgroup: cgroups.create,
            ops.TrackContainers: containers.track,
            ops.FindCgroup: find_cgroup,
            ops.ExpectCleanup: lambda wanted: expect_cleanup(records, wanted),
            ops.StartTelemetry: telemetry.start,
            ops.AddServices: lambda wanted: telemetry.session().add(wanted.services),
            ops.TakeSnapshot: lambda _: telemetry.session().snapshot(),
            ops.ScheduleSnapshots: lambda wanted: telemetry.session().schedule_snapshots(wanted.at_ns),
            ops.ScheduleSamples: lambda wanted: telemetry.session().schedule_samples(wanted.at_ns),
            ops.ReadLatest: telemetry.latest,
            ops.StopTelemetry: telemetry.stop,
            ops.ListRecords: self._list_records,
            ops.Restore: self._restore,
            ops.DeleteReport: lambda wanted: records.delete_report(wanted.name),
            ops.LockHost: watchdog.lock,
            ops.KeepStack: watchdog.keep,
            ops.ReleaseHost: lambda _: watchdog.release(),
        }

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
        self._files.remove_partial()
        undone = self._undo.own()
        for pause_s in UNDO_PAUSES_S if self._goodbye else ():  # without a goodbye the watchdog tries again
            if not any(each.failures for each in undone):
                break
            time.sleep(pause_s)
            undone = [each for each in undone if not each.failures] + self._undo.own()
        if self._goodbye and any(each.notes for each in undone):  # without a goodbye the watchdog reports them
            self._undo.report_notes(GOODBYE, undone)
        done = [*map(_stopped_process, stopped), *(each for each in undone if not each.failures)]
        try:
            self._watchdog.done(goodbye=self._goodbye, reason=GOODBYE if self._goodbye else reason, undone=done)
        except OperationError:  # the watchdog was killed: nothing else will remove the rest
            undone += self._undo.own_with_leftovers()
        return failures + [failure for each in undone for failure in each.failures]

    def _note_goodbye(self, _: ops.Goodbye) -> None:
        self._goodbye = True

    def _read_chunk(self, wanted: ops.ReadChunk) -> ops.FileChunk:
        self._processes.flush_outputs()
        return self._files.read(wanted)

    def _list_records(self, _: ops.ListRecords) -> ops.HostRecords:
        records = []
        for _path, record in self._records.all():
            state = "mine" if self._records.is_own(record) else "other"
            records.append({**record, "state": "abandoned" if self._records.is_abandoned(record) else state})
        orphans = [ops.NamedProcess(each.pid, each.name) for each in self._records.orphans()]
        return ops.HostRecords(records, orphans, self._records.reports(), holder())

    def _restore(self, wanted: ops.Restore) -> List[ops.UndoneChange]:
        undone = self._undo.own(wanted.scope)
        if any(each.notes for each in undone):
            self._undo.report_notes("the settings of a run were restored", undone)
        return undone if wanted.own else [*undone, *self._undo.abandoned()]

    def _remove_workdir(self, _: ops.RemoveWorkdir) -> str:
        remaining = len(self._records.all())
        if remaining:
            raise OperationError(
                "busy",
                f"the work directory {self._workdir.root} has {remaining} records of changes to undo",
                "without them nothing could be restored",
            )
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(str(self._workdir.root))
        return str(self._workdir.root)

    def _receive(self, size: int) -> bytes:
        ready = dict(self._waiting.poll())
        if self._shutdown_requested in ready:
            raise ShutdownError("it received a signal to end")
        if self._watchdog.end_reasons in ready:
            raise ShutdownError(self._watchdog.reason_to_end())
        self._watchdog.renew()
        return os.read(self._requests, size)

    def _dispatch(self, header: JsonObject, body: bytes) -> None:
        # The controller measures the round trip of ReadClocks; after Goodbye, it waits for the end of the agent.
        if header.get("op") in ("ReadClocks", "Goodbye"):
            self._answer(header, body)
        elif self._free.acquire(blocking=False):
            threading.Thread(target=self._execute, args=(header, body), daemon=True).start()
        else:
            why = f"{self.MAX_REQUESTS} requests are running already"
            self._send({"id": header["id"], "error": {"kind": "busy", "what": "too many requests at once", "why": why}})

    def _execute(self, header: JsonObject, body: bytes) -> None:
        try:
            self._answer(header, body)
        finally:
            self._free.release()

    def _answer(self, header: JsonObject, body: bytes) -> None:
        answer: JsonObject = {"id": header["id"]}
        content = b""
        try:
            operation = ops.decode_operation(header["op"], header.get("args", {}), body)
            answer["ok"], content = ops.encode(self.handlers[type(operation)](operation))
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


def _stopped_process(name: str) -> ops.UndoneChange:
    return ops.UndoneChange({"kind": "process", "program": name}, [], "undone")


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
