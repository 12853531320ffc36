"""The load tool `pyload`: a closed loop in Python, with a thread for each connection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from pydantic import ValidationError

from benchkit.errors import ParseError
from benchkit.loadtools.requests import RequestSupport
from benchkit.loadtools.target import Target
from benchkit.loadtools.tool import Objection, Tool
from benchkit.models.base import Frozen
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult

PROGRAM = """\
import http.client, json, sys, threading, time, urllib.parse

load = json.load(open("pyload.json"))
times, errors, lock = [], [0], threading.Lock()
started = time.monotonic()
end = started + load["duration_s"]

def connect():
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(load["origin"]).netloc)
    own = []
    while time.monotonic() < end:
        sent = time.monotonic()
        connection.request(load["method"], load["path"], load["body"], load["headers"])
        answer = connection.getresponse()
        answer.read()
        own.append(time.monotonic() - sent)
        errors[0] += not 200 <= answer.status <= 299
    with lock:
        times.extend(own)

threads = [threading.Thread(target=connect) for _ in range(load["connections"])]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
times.sort()
result = {"pyload": 1, "requests": len(times), "not_2xx": errors[0], "duration_s": time.monotonic() - started}
result |= {"mean_s": sum(times) / len(times), "p50_s": times[len(times) // 2], "max_s": times[-1]}
print(json.dumps(result))
"""


class PyloadOutput(Frozen):
    """Fields of the JSON that pyload prints."""

    pyload: int
    requests: int
    not_2xx: int
    duration_s: float
    mean_s: float
    p50_s: float
    max_s: float


def parse(text: str) -> LoadResult:
    """Return the result that pyload printed. Raises ParseError for other text."""
    try:
        output = PyloadOutput.model_validate_json(text)
    except ValidationError as error:
        raise ParseError("this is no output of pyload", why=str(error.errors()[0]["msg"])) from None
    return LoadResult(
        tool="pyload",
        duration_s=output.duration_s,
        requests=output.requests,
        rps=output.requests / output.duration_s,
        latency=Latency(
            mean_s=output.mean_s,
            max_s=output.max_s,
            percentiles={"50": output.p50_s},
            covers="connect+request",
            corrected=False,
        ),
        errors=Errors(),
        non_2xx=output.not_2xx,
    )


def _check(load: Load) -> Iterable[Objection]:
    if load.duration_s is None:
        yield Objection("duration_s", "pyload runs for a time")


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
    (request,) = load.request_mix
    wanted = {"origin": target.origin, "connections": load.connections, "duration_s": load.duration_s}
    wanted |= {"method": request.method, "path": request.path, "headers": dict(request.headers), "body": request.body}
    return {"pyload.py": PROGRAM.encode(), "pyload.json": json.dumps(wanted).encode()}


def _argv(_load: Load, _target: Target) -> list[str]:
    return ["python3", "-I", "pyload.py"]


TOOL = Tool(
    name="pyload",
    binary="python3",
    argv=_argv,
    parse=parse,
    options=frozenset({"duration_s"}),
    requests=RequestSupport(),
    files=_files,
    check=_check,
    thread_per_connection=True,
)
