"""Load tools in short loads: time beyond what was asked, exactness of the measured time, highest rate on a core."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from benchkit.load.generators.generator import REDUCER
from benchkit.load.tools.registry import get_tool
from benchkit.load.tools.target import Target
from benchkit.load.tools.tool import ToolOutput
from benchkit.load.trial_result import read_generator
from benchkit.models.design import LEAD_S, MARGIN_S
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult
from benchkit.services.go_build import build
from tests.bench.real_runs import table

PORT = 18399
TARGET = Target(f"127.0.0.1:{PORT}")
TIMES = 10
ASKED_S = {"h2load": 0.25, "hey": 0.25, "vegeta": 0.25, "wrk": 1.0}
"""Length of the loads: a slice, or the shortest that the tool takes."""

NGINX = """\
daemon off; worker_processes 1; worker_cpu_affinity 01; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "hello world\\n"; }} }}
}}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[None]:
    """Serve twelve bytes by nginx on the first CPU."""
    config = tmp_path / "nginx.conf"
    config.write_text(NGINX.format(folder=tmp_path, port=PORT))
    process = subprocess.Popen(["nginx", "-c", str(config)], stderr=subprocess.DEVNULL)
    time.sleep(0.5)
    yield
    process.terminate()
    process.wait(10)


def _run(name: str, folder: Path) -> tuple[float, LoadResult]:
    """Run a tool once on the last CPU; return how long its process took, and its result."""
    tool = get_tool(name)
    load = Load(tool=name, connections=16, duration_s=ASKED_S[name])
    argv = tool.command(load, TARGET)
    if tool.go_program is not None:
        program = build(tool.go_program.module, goos="linux", goarch=_goarch(), package=tool.go_program.package)
        argv[0] = str(program.path)
    if tool.lead is not None:
        argv[1:1] = tool.lead(LEAD_S)
    for file, content in tool.files(load, TARGET).items():
        (folder / file).write_bytes(content)
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
    reducer = build(REDUCER, goos="linux", goarch=_goarch()).path
    with rows.open("rb") as source:
        command = [str(reducer), "-tool", tool.rows.name, "-out", "reduced.json", "-rest", "rest.txt"]
        subprocess.run(command, cwd=folder, stdin=source, check=True)
    printed = ToolOutput((folder / "rest.txt").read_text(), "", (folder / "reduced.json").read_bytes())
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
    assert beyond["h2load"] < LEAD_S + MARGIN_S + 0.02
