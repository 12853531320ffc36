"""The agent itself: takes requests, has each carried out by a thread of its own, and answers."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import traceback
from typing import Callable, Dict, List

from benchkit.agent.cgroups import Groups
from benchkit.agent.common import Answer, RefusedError, write_all
from benchkit.agent.facts import Facts
from benchkit.agent.files import Files
from benchkit.agent.frames import PROTOCOL, FrameError, FrameReader, Json, pack
from benchkit.agent.go_settings import GoEnv
from benchkit.agent.host_lock import holder
from benchkit.agent.launch import Command
from benchkit.agent.lease import Lease
from benchkit.agent.perf import Perf
from benchkit.agent.processes import Processes
from benchkit.agent.psutil_copy import Psutil
from benchkit.agent.records import Records
from benchkit.agent.sockets import Sockets
from benchkit.agent.sysctls import Sysctls
from benchkit.agent.temporary_folders import Scratch
from benchkit.agent.undo import Undo
from benchkit.agent.watch_requests import Telemetry
from benchkit.agent.workdir import Workdir

GOODBYE = "the controller said goodbye"
HUNG_UP = "the controller hung up without a word"


class EndedError(Exception):
    """It is time to end."""


class Agent:
    """Takes requests, has each carried out by a thread of its own, and answers."""

    MOST_AT_ONCE = 256

    def __init__(self, workdir: Workdir, records: Records, guard: Lease, requests: int, answers: int) -> None:
        self._requests = requests
        self._answers = answers
        self._guard = guard
        self._goodbye = False
        self._asked_to_end, self._ask_to_end = os.pipe2(os.O_CLOEXEC)
        self._waiting = select.poll()
        self._waiting.register(requests, select.POLLIN)
        self._waiting.register(self._asked_to_end, select.POLLIN)
        self._waiting.register(guard.notices, select.POLLIN)
        self._sending = threading.Lock()
        self._free = threading.BoundedSemaphore(self.MOST_AT_ONCE)
        self._workdir = workdir
        self.records = records
        self.files = files = Files(workdir)
        groups = Groups(records)
        self.processes = processes = Processes(workdir, records, groups)
        self.sockets = sockets = Sockets(processes)
        self.sysctls = sysctls = Sysctls(records, lambda argv, time_s: processes.ask(Command(argv), time_s))
        scratch = Scratch(workdir, records, files)
        self._undo = Undo(workdir, records, sysctls)
        self.psutil = psutil = Psutil(workdir, files)
        perf = Perf(workdir, records)
        self.facts = facts = Facts(workdir, processes, sysctls, psutil)
        telemetry = Telemetry(workdir, processes, psutil)
        self.ops: Dict[str, Callable[..., Answer]] = {
            "clock": self.clock,
            "facts": facts.facts,
            "cores": facts.cores,
            "psutil": psutil.use,
            "have": files.have,
            "upload": files.upload,
            "place": files.place,
            "mkdir": files.mkdir,
            "scratch": scratch.make,
            "remove": scratch.remove,
            "list": files.list,
            "hash": files.hash,
            "read": files.read,
            "start": processes.start,
            "run": processes.run,
            "wait": processes.wait,
            "stop": processes.stop,
            "ps": processes.ps,
            "cpu": processes.cpu,
            "pack": perf.pack,
            "expect_maps": perf.expect_maps,
            "drop_maps": perf.drop_maps,
            "probe_port": sockets.probe_port,
            "http_probe": sockets.http_probe,
            "port_owners": sockets.port_owners,
            "sysctl_read": sysctls.read,
            "sysctl_write": sysctls.write,
            "group": groups.make,
            "go_settings": GoEnv(records, processes).write,
            "telemetry_start": telemetry.start,
            "telemetry_add": telemetry.add,
            "telemetry_mark": telemetry.mark,
            "telemetry_look_at": telemetry.look_at,
            "telemetry_now": telemetry.now,
            "telemetry_stop": telemetry.stop,
            "records": self.list_records,
            "restore": self.restore,
            "forget_report": self.forget_report,
            "hold": guard.hold,
            "keep": guard.keep,
            "release": guard.release,
        }

    def serve(self) -> str:
        """Carry out requests until there will be no more; why."""
        pids = {"pid": os.getpid(), "guardian": os.getppid()}
        hello = {"protocol": PROTOCOL, **pids, "workdir": str(self._workdir.root), **self.clock()}
        self._send({"id": 0, "ok": hello})
        reader = FrameReader(self._receive)
        try:
            while True:
                frame = reader.next()
                if frame is None:
                    return HUNG_UP
                self._take(*frame)
        except (EndedError, FrameError) as ending:
            return str(ending)

    def end(self) -> None:
        """Have `serve` come to its end; may be called by a signal handler."""
        os.write(self._ask_to_end, b"!")

    def close(self, reason: str) -> List[str]:
        """Stop what was started, put back what was changed; what did not succeed, for people."""
        if self._guard.kept:
            return []
        ran, failures = self.processes.close()
        undone = self._undo.mine()
        ended = [_process(name) for name in ran]
        done = [*ended, *(each for each in undone if not each["failures"])]
        try:
            self._guard.done(goodbye=self._goodbye, reason=GOODBYE if self._goodbye else reason, undone=done)
        except RefusedError:  # the guardian was killed: nobody comes after this agent
            undone += self._undo.everything_of_mine()
        return failures + [failure for each in undone for failure in each["failures"]]

    def clock(self) -> Json:
        """The host's clocks, for comparing them with the controller's."""
        return {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}

    def list_records(self) -> Json:
        """What is to be undone here: by this agent, by another that lives, or left behind ("abandoned").

        With it what was put back behind agents that are gone, and who holds this host.
        """
        found = []
        for _, record in self.records.all():
            state = "mine" if self.records.is_mine(record) else "other"
            found.append({**record, "state": "abandoned" if self.records.is_abandoned(record) else state})
        strays = [{"pid": each.pid, "name": each.name} for each in self.records.strays()]
        return {"records": found, "strays": strays, "reports": self.records.reports(), "holder": holder()}

    def restore(self, *, own: bool = False) -> Json:
        """Put back what this agent changed and, unless `own`, all that abandoned ones left; their processes are ended."""
        undone = self._undo.mine()
        return {"undone": undone if own else [*undone, *self._undo.abandoned()]}

    def forget_report(self, *, name: str) -> Json:
        """Take away a report that was read."""
        self.records.forget_report(name)
        return {}

    def _receive(self, size: int) -> bytes:
        ready = dict(self._waiting.poll())
        if self._asked_to_end in ready:
            raise EndedError("it was asked to end")
        if self._guard.notices in ready:
            raise EndedError(self._guard.reason_to_end())
        self._guard.beat()
        return os.read(self._requests, size)

    def _take(self, header: Json, body: bytes) -> None:
        if header.get("op") == "clock":  # answered at once: how long it takes is what is measured
            self._send({"id": header["id"], "ok": self.clock()})
        elif header.get("op") == "goodbye":  # the controller will hang up, and means it: what is undone then is no news
            self._goodbye = True
            self._send({"id": header["id"], "ok": {}})
        elif self._free.acquire(blocking=False):
            threading.Thread(target=self._carry_out, args=(header, body), daemon=True).start()
        else:
            why = f"{self.MOST_AT_ONCE} requests are being carried out already"
            self._send({"id": header["id"], "error": {"kind": "busy", "what": "too much at once", "why": why}})

    def _carry_out(self, header: Json, body: bytes) -> None:
        answer: Json = {"id": header["id"]}
        content = b""
        try:
            args = {**header.get("args", {}), **({"body": body} if body else {})}
            result = self.ops[header["op"]](**args)
            answer["ok"], content = result if isinstance(result, tuple) else (result, b"")
        except RefusedError as error:
            answer["error"] = {"kind": error.kind, "what": error.what, "why": error.why}
        except OSError as error:
            what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
            answer["error"] = {"kind": "os", "what": what, "why": None}
        except Exception:  # noqa: BLE001 - the edge of the agent: whatever went wrong, somebody waits for an answer
            answer["error"] = {"kind": "bug", "what": "the agent failed", "why": traceback.format_exc()}
        finally:
            self._free.release()
        self._send(answer, content)

    def _send(self, header: Json, body: bytes = b"") -> None:
        frame = pack(header, body)
        with self._sending, contextlib.suppress(BrokenPipeError):  # nobody listens: stdin says so too
            write_all(self._answers, frame)


def _process(name: str) -> Json:
    return {"record": {"kind": "process", "program": name}, "failures": [], "how": "undone"}
