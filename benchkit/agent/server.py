"""The agent: reads requests, executes each in its own thread, and answers."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import threading
import time
import traceback
from typing import Callable, Dict, List, Optional

from benchkit.agent.cgroups import Cgroups
from benchkit.agent.common import Answer, RefusedError, refusal_of, write_all
from benchkit.agent.facts import Facts
from benchkit.agent.files import Files
from benchkit.agent.frames import PROTOCOL, FrameError, FrameReader, Json, pack
from benchkit.agent.go_settings import GoEnv
from benchkit.agent.host_lock import holder
from benchkit.agent.launch import Command
from benchkit.agent.lease import Lease
from benchkit.agent.perf_maps import PerfMaps
from benchkit.agent.processes import Processes
from benchkit.agent.records import Records
from benchkit.agent.sockets import Sockets
from benchkit.agent.sysctls import Sysctls
from benchkit.agent.temporary_folders import TemporaryFolders
from benchkit.agent.timetable import Timetable
from benchkit.agent.undo import Undo
from benchkit.agent.watch_requests import Telemetry
from benchkit.agent.workdir import Workdir

GOODBYE = "the controller said goodbye"
DISCONNECTED = "the controller disconnected without a goodbye"


class ShutdownError(Exception):
    """A request to end the agent."""


class Agent:
    """Reads requests, executes each in its own thread, and answers."""

    MAX_REQUESTS = 256

    def __init__(self, workdir: Workdir, records: Records, lease: Lease, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._lease = lease
        self._goodbye = False
        self._shutdown_requested, self._shutdown_request = os.pipe2(os.O_CLOEXEC)
        records.remove_partial()
        self._waiting = select.poll()
        self._waiting.register(requests, select.POLLIN)
        self._waiting.register(self._shutdown_requested, select.POLLIN)
        self._waiting.register(lease.notices, select.POLLIN)
        self._sending = threading.Lock()
        self._free = threading.BoundedSemaphore(self.MAX_REQUESTS)
        self._workdir = workdir
        self.records = records
        self.files = files = Files(workdir)
        cgroups = Cgroups(records)
        self.processes = processes = Processes(workdir, records, cgroups)
        self.sockets = sockets = Sockets(processes)
        self.sysctls = sysctls = Sysctls(records, lambda argv, time_s: processes.run_for_agent(Command(argv), time_s))
        temporary_folders = TemporaryFolders(workdir, records, files)
        self._undo = Undo(workdir, records, sysctls)
        perf_maps = PerfMaps(workdir, records)
        self.facts = facts = Facts(workdir, processes, sysctls)
        timetable = Timetable(processes)
        telemetry = Telemetry(workdir, processes, timetable)
        self.ops: Dict[str, Callable[..., Answer]] = {
            "clock": self.clock,
            "facts": facts.facts,
            "missing_files": files.missing,
            "upload": files.upload,
            "place": files.place,
            "mkdir": files.mkdir,
            "mkdir_temporary": temporary_folders.make,
            "write_temporary": temporary_folders.write,
            "remove": temporary_folders.remove,
            "remove_workdir": self.remove_workdir,
            "share_socket": files.share_socket,
            "list": files.list,
            "hash": files.hash,
            "read": self.read,
            "start": processes.start,
            "run": processes.run,
            "wait": processes.wait,
            "stop": processes.stop,
            "process_trees": processes.list_trees,
            "list_all": processes.list_all,
            "cpu_times": processes.cpu_times,
            "timetable_run": timetable.run,
            "timetable_stop": timetable.stop,
            "compress": files.compress,
            "archive": files.archive,
            "expect_perf_maps": perf_maps.expect,
            "require_perf_maps": perf_maps.require,
            "remove_perf_maps": perf_maps.remove,
            "probe_port": sockets.probe_port,
            "http_probe": sockets.http_probe,
            "port_owners": sockets.port_owners,
            "listeners": sockets.listeners,
            "sysctl_read": sysctls.read,
            "sysctl_write": sysctls.write,
            "create_cgroup": cgroups.create,
            "set_go_env": GoEnv(records, processes).write,
            "telemetry_start": telemetry.start,
            "telemetry_add": telemetry.add,
            "telemetry_snapshot": telemetry.snapshot,
            "telemetry_schedule_snapshots": telemetry.schedule_snapshots,
            "telemetry_schedule_samples": telemetry.schedule_samples,
            "telemetry_latest": telemetry.latest,
            "telemetry_stop": telemetry.stop,
            "records": self.list_records,
            "restore": self.restore,
            "delete_report": self.delete_report,
            "lock": lease.lock,
            "keep": lease.keep,
            "release": lease.release,
        }

    def serve(self) -> str:
        """Execute requests until the agent has to end; return the reason."""
        pids = {"pid": os.getpid(), "watchdog": os.getppid()}
        hello = {"protocol": PROTOCOL, **pids, "workdir": str(self._workdir.root), **self.clock()}
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
        """Stop all processes and restore all changes; return what did not succeed."""
        if self._lease.kept:
            return []
        stopped, failures = self.processes.close()
        self.files.remove_partial()
        undone = self._undo.own()
        if self._goodbye and any(each["notes"] for each in undone):  # else the watchdog reports them
            self._undo.report_notes(GOODBYE, undone)
        done = [*map(_stopped_process, stopped), *(each for each in undone if not each["failures"])]
        try:
            self._lease.done(goodbye=self._goodbye, reason=GOODBYE if self._goodbye else reason, undone=done)
        except RefusedError:  # the watchdog was killed: nothing else will remove the rest
            undone += self._undo.own_with_leftovers()
        return failures + [failure for each in undone for failure in each["failures"]]

    def clock(self) -> Json:
        """Return the host's clocks, for comparison with the controller's."""
        return {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}

    def read(self, *, path: str, offset: int, limit: int) -> Answer:
        """Return a chunk of a file, with what processes have printed so far, and the size of the whole."""
        self.processes.flush_outputs()
        return self.files.read(path=path, offset=offset, limit=limit)

    def list_records(self) -> Json:
        """Return the changes to undo: of this agent, of another live one ("other") or of none ("abandoned").

        Also return the reports of watchdogs and the holder of the host.
        """
        records = []
        for _, record in self.records.all():
            state = "mine" if self.records.is_own(record) else "other"
            records.append({**record, "state": "abandoned" if self.records.is_abandoned(record) else state})
        orphans = [{"pid": each.pid, "name": each.name} for each in self.records.orphans()]
        return {"records": records, "orphans": orphans, "reports": self.records.reports(), "holder": holder()}

    def restore(self, *, own: bool = False, scope: Optional[str] = None) -> Json:
        """Restore what this agent changed and, unless `own`, all that abandoned ones left; end their processes.

        With a `scope` only that part of its changes is restored.
        """
        undone = self._undo.own(scope)
        if any(each["notes"] for each in undone):
            self._undo.report_notes("the settings of a run were restored", undone)
        return {"undone": undone if own else [*undone, *self._undo.abandoned()]}

    def remove_workdir(self) -> Json:
        """Remove the work directory with everything in it.

        Raises RefusedError while it has records of changes to undo.
        """
        remaining = len(self.records.all())
        if remaining:
            raise RefusedError(
                "busy",
                f"the work directory {self._workdir.root} has {remaining} records of changes to undo",
                "without them nothing could be restored",
            )
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(str(self._workdir.root))
        return {"path": str(self._workdir.root)}

    def delete_report(self, *, name: str) -> Json:
        """Delete a report that was read."""
        self.records.delete_report(name)
        return {}

    def _receive(self, size: int) -> bytes:
        ready = dict(self._waiting.poll())
        if self._shutdown_requested in ready:
            raise ShutdownError("it received a signal to end")
        if self._lease.notices in ready:
            raise ShutdownError(self._lease.reason_to_end())
        self._lease.renew()
        return os.read(self._requests, size)

    def _dispatch(self, header: Json, body: bytes) -> None:
        if header.get("op") == "clock":  # answered here: the controller measures the round trip
            self._send({"id": header["id"], "ok": self.clock()})
        elif header.get("op") == "goodbye":  # an orderly end: the watchdog writes no report
            self._goodbye = True
            self._send({"id": header["id"], "ok": {}})
        elif self._free.acquire(blocking=False):
            threading.Thread(target=self._execute, args=(header, body), daemon=True).start()
        else:
            why = f"{self.MAX_REQUESTS} requests are running already"
            self._send({"id": header["id"], "error": {"kind": "busy", "what": "too many requests at once", "why": why}})

    def _execute(self, header: Json, body: bytes) -> None:
        answer: Json = {"id": header["id"]}
        content = b""
        try:
            args = {**header.get("args", {}), **({"body": body} if body else {})}
            result = self.ops[header["op"]](**args)
            answer["ok"], content = result if isinstance(result, tuple) else (result, b"")
        except (RefusedError, OSError) as error:
            refusal = error if isinstance(error, RefusedError) else refusal_of(error, self._workdir.root)
            answer["error"] = {"kind": refusal.kind, "what": refusal.what, "why": refusal.why}
        except Exception:  # noqa: BLE001 - the edge of the agent: every request gets an answer
            answer["error"] = {"kind": "bug", "what": "the agent failed", "why": traceback.format_exc()}
        finally:
            self._free.release()
        self._send(answer, content)

    def _send(self, header: Json, body: bytes = b"") -> None:
        frame = pack(header, body)
        with self._sending, contextlib.suppress(BrokenPipeError):  # the controller disconnected, which ends stdin too
            write_all(self._answers, frame)


def _stopped_process(name: str) -> Json:
    return {"record": {"kind": "process", "program": name}, "failures": [], "how": "undone", "notes": []}
