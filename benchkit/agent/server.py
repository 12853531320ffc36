"""The agent itself: takes requests, has each carried out by a thread of its own, and answers."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import traceback
from pathlib import Path
from typing import Callable, Dict, List

from benchkit.agent.basics import Answer, RefusedError, write_all
from benchkit.agent.facts import Facts
from benchkit.agent.files import Files
from benchkit.agent.frames import PROTOCOL, FrameError, FrameReader, Json, pack
from benchkit.agent.proc import end_process, end_session
from benchkit.agent.processes import Processes
from benchkit.agent.psutil_copy import Psutil
from benchkit.agent.records import DAMAGED, Records
from benchkit.agent.sockets import Sockets
from benchkit.agent.sysctls import Sysctls
from benchkit.agent.telemetry import Telemetry
from benchkit.agent.workdir import Workdir


class EndedError(Exception):
    """It is time to end."""


class Agent:
    """Takes requests, has each carried out by a thread of its own, and answers."""

    MOST_AT_ONCE = 256

    def __init__(self, workdir: Workdir, requests: int, answers: int, lease_s: float) -> None:
        self._requests = requests
        self._answers = answers
        self._lease_s = lease_s
        self._asked_to_end, self._ask_to_end = os.pipe2(os.O_CLOEXEC)
        self._waiting = select.poll()
        self._waiting.register(requests, select.POLLIN)
        self._waiting.register(self._asked_to_end, select.POLLIN)
        self._sending = threading.Lock()
        self._free = threading.BoundedSemaphore(self.MOST_AT_ONCE)
        self._workdir = workdir
        self.records = Records(workdir)
        self.files = files = Files(workdir)
        self.processes = processes = Processes(workdir, self.records)
        self.sockets = sockets = Sockets(processes)
        self.sysctls = sysctls = Sysctls(self.records, processes)
        self.psutil = psutil = Psutil(workdir, files)
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
            "remove": files.remove,
            "list": files.list,
            "hash": files.hash,
            "read": files.read,
            "start": processes.start,
            "run": processes.run,
            "wait": processes.wait,
            "stop": processes.stop,
            "ps": processes.ps,
            "cpu": processes.cpu,
            "probe_port": sockets.probe_port,
            "http_probe": sockets.http_probe,
            "port_owners": sockets.port_owners,
            "sysctl_read": sysctls.read,
            "sysctl_write": sysctls.write,
            "telemetry_start": telemetry.start,
            "telemetry_add": telemetry.add,
            "telemetry_mark": telemetry.mark,
            "telemetry_count": telemetry.count,
            "telemetry_stop": telemetry.stop,
            "records": self.list_records,
            "restore": self.restore,
        }

    def serve(self) -> str:
        """Carry out requests until there will be no more; why."""
        hello = {"protocol": PROTOCOL, "pid": os.getpid(), "workdir": str(self._workdir.root), **self.clock()}
        self._send({"id": 0, "ok": hello})
        reader = FrameReader(self._receive)
        try:
            while True:
                frame = reader.next()
                if frame is None:
                    return "the controller hung up"
                self._take(*frame)
        except (EndedError, FrameError) as ending:
            return str(ending)

    def end(self) -> None:
        """Have `serve` come to its end; may be called by a signal handler."""
        os.write(self._ask_to_end, b"!")

    def close(self) -> List[str]:
        """Stop what was started, put back what was changed; what did not succeed, for people."""
        failures = self.processes.close()
        for path, record in self.records.all():
            if self.records.is_mine(record) and record["kind"] == "sysctl":
                failures += self._undo(path, record)["failures"]
        return failures

    def clock(self) -> Json:
        """The host's clocks, for comparing them with the controller's."""
        return {"monotonic_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}

    def list_records(self) -> Json:
        """What is to be undone here: by this agent, by another that lives, or left behind ("abandoned")."""
        found = []
        for _, record in self.records.all():
            state = "mine" if self.records.is_mine(record) else "other"
            found.append({**record, "state": "abandoned" if self.records.is_abandoned(record) else state})
        strays = [{"pid": each.pid, "name": each.name} for each in self.records.strays()]
        return {"records": found, "strays": strays}

    def restore(self, *, own: bool = False) -> Json:
        """Put back what this agent changed and, unless `own`, all that abandoned ones left; their processes are ended."""
        undone = []
        if own:
            settings = [(path, each) for path, each in self.records.all() if each["kind"] == "sysctl"]
            return {"undone": [self._undo(path, each) for path, each in settings if self.records.is_mine(each)]}
        for path, record in self.records.all():
            abandoned = self.records.is_abandoned(record)
            if abandoned or (self.records.is_mine(record) and record["kind"] == "sysctl"):
                undone.append(self._undo(path, record))
            elif not self.records.is_mine(record):
                undone.append({"record": record, "failures": ["it belongs to a run that is going on"]})
        for stray in self.records.strays():
            failure = end_process(stray)
            what = {"kind": "process", "pid": stray.pid, "start": stray.start, "program": stray.name}
            undone.append({"record": what, "failures": failure})
        return {"undone": undone}

    def _undo(self, path: Path, record: Json) -> Json:
        """Undo one record, and take it away if that succeeded. A reboot has undone both kinds by itself."""
        failures: List[str] = []
        if record["boot_id"] == self.records.boot_id:
            if record["kind"] == "sysctl":
                failures = self.sysctls.restore(record)
            elif record["kind"] == DAMAGED:
                failures = [f"{path} cannot be read: look at what it says, then remove it"]
            else:
                failures = end_session(record["pid"], record["start"])
        if not failures:
            self.records.drop(path)
        return {"record": record, "failures": failures}

    def _receive(self, size: int) -> bytes:
        ready = dict(self._waiting.poll(self._lease_s * 1000 if self._lease_s else None))
        if self._asked_to_end in ready:
            raise EndedError("it was asked to end")
        if not ready:
            raise EndedError(f"nothing was heard from the controller for {self._lease_s:g} s")
        return os.read(self._requests, size)

    def _take(self, header: Json, body: bytes) -> None:
        if header.get("op") == "clock":  # answered at once: how long it takes is what is measured
            self._send({"id": header["id"], "ok": self.clock()})
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
