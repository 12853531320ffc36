"""Load tools in short loads: time beyond what was asked, exactness of the measured time, highest rate on a core."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from benchkit.loadtools.generators.generator import REDUCER
from benchkit.loadtools.load_shares import MARGIN_S, lead_s
from benchkit.loadtools.registry import get_tool
from benchkit.loadtools.tool import Target, ToolOutput
from benchkit.loadtools.trial_result import read_generator
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult
from benchkit.services.go_build import build
from tests.bench.real_runs import table

PORT, LOGGED_PORT = 18399, 18398
"""Ports of nginx; at the second it logs when it answered the first request of each connection."""
TARGET, LOGGED_TARGET = Target(f"127.0.0.1:{PORT}"), Target(f"127.0.0.1:{LOGGED_PORT}")
TIMES = 10
ASKED_S = {"h2load": 0.25, "hey": 0.25, "vegeta": 0.25, "openloop": 0.25, "wrk": 1.0, "ab": 1.0, "siege": 1.0}
"""Length of the loads: a slice, or the shortest that the tool takes."""

NGINX = """\
daemon off; worker_processes 1; worker_cpu_affinity 01; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_rlimit_nofile 20000;
events {{ worker_connections 10000; }}
http {{
  log_format first $msec;
  map $connection_requests $is_first {{ 1 1; default 0; }}
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello world\\n"; }} }}
  server {{
    listen 127.0.0.1:{logged} backlog=10000; access_log {folder}/first.log first if=$is_first;
    location / {{ return 200 "hello world\\n"; }}
  }}
}}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[None]:
    """Serve twelve bytes by nginx on the first CPU."""
    config = tmp_path / "nginx.conf"
    config.write_text(NGINX.format(folder=tmp_path, port=PORT, logged=LOGGED_PORT))
    process = subprocess.Popen(["nginx", "-c", str(config)], stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    yield
    process.terminate()
    process.wait(10)


def _command(load: Load, target: Target, folder: Path, lead_s: float | None = None) -> list[str]:
    """Return the command of a tool, with a lead if it can have one, and with the files that it reads in `folder`."""
    tool = get_tool(load.tool)
    argv = tool.command(load, target)
    if tool.go_program is not None:
        program = build(tool.go_program.module, goos="linux", goarch=_goarch(), package=tool.go_program.package)
        argv[0] = str(program)
    if tool.lead is not None and lead_s is not None:
        argv[1:1] = tool.lead(lead_s)
    for file, content in tool.files(load, target).items():
        (folder / file).write_bytes(content)
    return argv


def _run(name: str, folder: Path) -> tuple[float, LoadResult]:
    """Run a tool once on the last CPU; return how long its process took, and its result."""
    tool = get_tool(name)
    load = Load(tool=name, connections=16, duration_s=ASKED_S[name])
    argv = _command(load, TARGET, folder, lead_s(load))
    cpu = max(os.sched_getaffinity(0))
    rows = folder / "rows"
    with rows.open("wb") as output:
        began_s = time.perf_counter()
        process = subprocess.run(
            ["taskset", "-c", str(cpu), *argv], cwd=folder, stdout=output, stderr=subprocess.PIPE, check=True
        )
        took_s = time.perf_counter() - began_s
    if tool.rows is None:
        return took_s, read_generator(tool, load, ToolOutput(rows.read_text(), process.stderr.decode())).result
    reducer = build(REDUCER, goos="linux", goarch=_goarch())
    subprocess.run([str(reducer), "-tool", tool.rows.name, str(rows)], check=True)
    printed = ToolOutput(
        (folder / "rows.txt").read_text(), process.stderr.decode(), (folder / "rows.json").read_bytes()
    )
    return took_s, read_generator(tool, load, printed).result


def _goarch() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


@pytest.mark.usefixtures("server")
def test_short_loads(tmp_path: Path) -> None:
    rows = []
    beyond: dict[str, float] = {}
    for name, asked_s in ASKED_S.items():
        folder = tmp_path / PurePosixPath(name)
        folder.mkdir()
        _run(name, folder)  # builds what has to be built
        took_s, results = zip(*(_run(name, folder) for _ in range(TIMES)), strict=True)
        stated_s = [result.duration_s for result in results if result.duration_s is not None]
        rates = [result.rps for result in results if result.rps is not None]
        assert len(stated_s) == len(rates) == TIMES
        beyond[name] = statistics.median(took_s) - asked_s
        error_s = max(abs(each - asked_s) for each in stated_s)
        lead = "before its clock" if get_tool(name).lead else "within the measured time"
        rows.append(
            [
                name,
                f"{asked_s:g} s",
                f"{beyond[name] * 1000:.0f} ms",
                f"{error_s * 1000:.1f} ms",
                f"{statistics.median(rates):,.0f}",
                lead,
            ]
        )
    print("\n" + table(["tool", "load", "beyond it", "error of its time", "requests/s on a core", "connects"], rows))
    assert beyond["h2load"] < lead_s(Load(tool="h2load", connections=16, duration_s=1)) + MARGIN_S + 0.02


CONNECTIONS = (16, 64, 256, 1000, 4000)
CONNECTING = ("h2load", "openloop", "vegeta", "hey")
CONNECTING_S = 1.5
"""Length of loads in which all connections are opened in any case."""


@pytest.mark.usefixtures("server")
def test_time_to_connect(tmp_path: Path) -> None:
    """Measure the time from the start of a tool to the first answer on the last of its connections."""
    rows = []
    for name in CONNECTING:
        folder = tmp_path / PurePosixPath(name)
        folder.mkdir()
        for connections in CONNECTIONS:
            load = Load(tool=name, connections=connections, duration_s=CONNECTING_S)
            argv = _command(load, LOGGED_TARGET, folder)
            took_s, opened = zip(*(_time_to_connect(argv, folder) for _ in range(TIMES)), strict=True)
            median_s = statistics.median(took_s)
            rows.append(
                [
                    name,
                    str(connections),
                    f"{statistics.median(opened):.0f}",
                    f"{median_s * 1000:.0f} ms",
                    f"{max(took_s) * 1000:.0f} ms",
                    f"{lead_s(load) * 1000:.0f} ms",
                ]
            )
            if get_tool(name).lead is not None:
                assert median_s <= lead_s(load)
    print("\n" + table(["tool", "connections", "opened", "median", "longest", "lead"], rows))


def _time_to_connect(argv: list[str], folder: Path) -> tuple[float, int]:
    """Return the time to the first answer on the last connection, and the number of connections."""
    log = folder.parent / "first.log"
    before = log.stat().st_size
    cpu = max(os.sched_getaffinity(0))
    began_s = time.time()
    subprocess.run(["taskset", "-c", str(cpu), *argv], cwd=folder, capture_output=True, check=True)
    time.sleep(0.2)
    answered_s = [float(line) for line in log.read_bytes()[before:].split()]
    return max(answered_s) - began_s, len(answered_s)
