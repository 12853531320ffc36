"""Record the profiles for the tests: `python tests/support/profiles/record_profiles.py [NAME…]`, as root on Linux.

Each case builds one of the programs in tests/fixtures/profiles/programs, or (`shipped-…`) one of benchkit's own
backends. It puts it under load on loopback for some seconds with wrk, and writes its profile into
tests/fixtures/profiles. That is `NAME.pb.gz` from Go's own profiler, or `NAME.perf.txt.gz` from `perf script`;
`NAME.made.json` has the commands that made it. Needs go, g++, perf, wrk, nginx and node; the Go command fetches the
releases of Go that it is asked for.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT, TESTS

FIXTURES = TESTS / "fixtures" / "profiles"
BACKENDS = ROOT / "benchkit" / "backends"
PROGRAMS = FIXTURES / "programs"
GO = "1.26.8"
SECONDS = 8.0
SETTLE_S = 0.5
PERF_S = 4.0
OFTEN, SELDOM = 293, 149
"""Samples per second; primes, so that they do not coincide with periodic work."""


@dataclass
class Bench:
    """The workplace of a case: a folder for programs and data, and the record of its commands."""

    folder: Path
    commands: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str | Path], *, cwd: Path | None = None, go: str | None = None) -> str:
        """Run a command, note it, and return its output."""
        self.note(argv, go)
        environment = os.environ | ({"GOTOOLCHAIN": f"go{go}", "GOFLAGS": "-mod=mod"} if go else {})
        return subprocess.run(
            argv, cwd=cwd or self.folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    @contextmanager
    def running(self, argv: Sequence[str | Path], *, forever: bool = False) -> Iterator[int]:
        """Run a program during the block, and yield its pid."""
        self.note(argv)
        with subprocess.Popen(argv, cwd=self.folder, stdout=subprocess.DEVNULL) as process:
            time.sleep(SETTLE_S)
            try:
                yield process.pid
            finally:
                if forever:
                    process.terminate()
                process.wait(30)

    def note(self, argv: Sequence[str | Path], go: str | None = None) -> None:
        """Add a command to the record."""
        words = " ".join(map(str, argv)).replace(str(self.folder), "TMP")
        words = words.replace(str(PROGRAMS), "PROGRAMS").replace(str(BACKENDS), "BACKENDS")
        self.commands.append(f"GOTOOLCHAIN=go{go} {words}" if go else words)

    def build(self, program: str, go: str = GO) -> Path:
        """Build one of the Go programs."""
        out = self.folder / f"{program}-go{go}"
        source = PROGRAMS / ("nethttp" if program == "nethttp" else "servers")
        # Named by its file, because go1.19 does not take the folder of a module that is fetched as a toolchain.
        what = "main.go" if program == "nethttp" else f"./{program}"
        self.run(["go", "build", "-trimpath", "-o", out, what], cwd=source, go=go)
        return out

    def load(self, path: str, connections: int, seconds: float, *options: str) -> list[str]:
        """Put the server at the address under load during the block."""
        return ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", *options, f"http://{ADDRESS}{path}"]


def _free_addresses(count: int) -> Iterator[str]:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        names = [f"127.0.0.1:{each.getsockname()[1]}" for each in taken]
    yield from names


ADDRESS, ADMIN, HTTP_UPSTREAM, FASTCGI_UPSTREAM = _free_addresses(4)


def go_profile(program: str, *, go: str = GO, path: str = "/", connections: int = 64) -> Callable[[Bench], bytes]:
    """Record the CPU profile of a Go server under load."""

    def make(bench: Bench) -> bytes:
        binary, out = bench.build(program, go), bench.folder / "cpu.pb.gz"
        with bench.running([binary, "-listen", ADDRESS, "-seconds", f"{SECONDS:g}", "-o", out]):
            bench.run(bench.load(path, connections, SECONDS - 1))
        return out.read_bytes()

    return make


def fastcgi_profile(bench: Bench) -> bytes:
    """Record the CPU profile of a Go server behind nginx with FastCGI."""
    binary, out = bench.build("fcgi"), bench.folder / "cpu.pb.gz"
    with (
        bench.running([binary, "-listen", FASTCGI_UPSTREAM, "-seconds", f"{SECONDS:g}", "-o", out]),
        bench.running(_nginx(bench), forever=True),
    ):
        bench.run(bench.load("/fastcgi", 64, SECONDS - 2))
    return out.read_bytes()


def shipped_profile(backend: str, *options: str, connections: int = 64) -> Callable[[Bench], bytes]:
    """Record the CPU profile of one of benchkit's Go backends under load, from its admin page."""

    def make(bench: Bench) -> bytes:
        binary = bench.folder / f"shipped-{backend}"
        bench.run(["go", "build", "-trimpath", "-o", binary, "."], cwd=BACKENDS / backend)
        folder = bench.folder / "content"
        folder.mkdir()
        listen = FASTCGI_UPSTREAM if backend == "fcgi" else ADDRESS
        argv: list[str | Path] = [
            binary,
            "-listen",
            listen,
            "-admin",
            ADMIN,
            *(str(folder) if o == "FOLDER" else o for o in options),
        ]
        with ExitStack() as stack:
            stack.enter_context(bench.running(argv, forever=True))
            if backend == "fcgi":
                stack.enter_context(bench.running(_nginx(bench), forever=True))
            _wait_for(ADDRESS)
            wrk = _background(bench, bench.load("/fastcgi" if backend == "fcgi" else "/", connections, SECONDS - 1))
            time.sleep(SETTLE_S)
            page = f"http://{ADMIN}/debug/pprof/profile?seconds=6"
            bench.note(["curl", "-o", "cpu.pb.gz", page])
            with urllib.request.urlopen(page) as answer:
                content: bytes = answer.read()
            wrk.wait(30)
        return content

    return make


def shipped_node(bench: Bench, stack: ExitStack) -> int:
    """Record the worker of benchkit's Node backend under perf, after its code is compiled."""
    argv: list[str | Path] = [
        "node",
        "--perf-basic-prof",
        BACKENDS / "node" / "main.js",
        "-listen",
        ADDRESS,
        "-admin",
        ADMIN,
    ]
    primary = stack.enter_context(bench.running([*argv, "-workers", "1"], forever=True))
    _wait_for(ADDRESS)
    worker = int(Path(f"/proc/{primary}/task/{primary}/children").read_text().split()[0])
    for pid in (primary, worker):
        stack.callback(Path(f"/tmp/perf-{pid}.map").unlink)  # noqa: S108 - where V8 writes them
    bench.run(bench.load("/", 64, 3))
    return worker


def mixed_profile(kind: str) -> Callable[[Bench], bytes]:
    """Record a profile of another kind than CPU time, or of a program that is hard to read."""

    def make(bench: Bench) -> bytes:
        bench.run([bench.build("mixed"), bench.folder])
        return (bench.folder / f"{kind}.pb.gz").read_bytes()

    return make


def perf_profile(server: Callable[[Bench, ExitStack], int], path: str, *load: str) -> Callable[[Bench], bytes]:
    """Record the stacks of a server under load with perf, including the kernel's."""

    def make(bench: Bench) -> bytes:
        with ExitStack() as stack:
            pid = server(bench, stack)
            wrk = _background(bench, bench.load(path, 64, PERF_S + 1, *load))
            time.sleep(SETTLE_S)
            bench.run(_perf_record(OFTEN if server is nginx else SELDOM, pid, PERF_S, "-g"))
            wrk.wait(30)
            text = bench.run(["perf", "script", "-i", "perf.data", "--no-inline"])  # while the maps for it are there
        return gzip.compress(text.encode(), 9, mtime=0)

    return make


def native_profile(*script: str, deleted: bool = False, call_graph: str | None = "fp") -> Callable[[Bench], bytes]:
    """Record the stacks of a C++ program."""

    def make(bench: Bench) -> bytes:
        binary = bench.folder / "native"
        bench.run(["g++", "-O2", "-g", "-fno-omit-frame-pointer", "-o", binary, PROGRAMS / "native" / "native.cpp"])
        with bench.running([binary, *(["delete"] if deleted else [])]) as pid:
            stacks = [f"--call-graph={call_graph}"] if call_graph else []
            bench.run(_perf_record(SELDOM, pid, 1, "--sample-cpu", *stacks))
        return gzip.compress(bench.run(["perf", "script", "-i", "perf.data", *script]).encode(), 9, mtime=0)

    return make


def nethttp(bench: Bench, stack: ExitStack) -> int:
    """Record Go's net/http under perf."""
    return stack.enter_context(bench.running([bench.build("nethttp"), "-listen", ADDRESS, "-seconds", f"{SECONDS:g}"]))


def node(bench: Bench, stack: ExitStack) -> int:
    """Record Node under perf, with the names of its compiled functions."""
    port = ADDRESS.partition(":")[2]
    script = bench.folder / "server.js"
    script.write_bytes((PROGRAMS / "node" / "server.js").read_bytes())
    return stack.enter_context(bench.running(["node", "--perf-basic-prof", script, port, f"{SECONDS:g}"]))


def nginx(bench: Bench, stack: ExitStack) -> int:
    """Record the worker of an nginx with both its upstreams."""
    for program, address in (("nethttp", HTTP_UPSTREAM), ("fcgi", FASTCGI_UPSTREAM)):
        stack.enter_context(bench.running([bench.build(program), "-listen", address, "-seconds", f"{SECONDS + 4:g}"]))
    master = stack.enter_context(bench.running(_nginx(bench), forever=True))
    return int(Path(f"/proc/{master}/task/{master}/children").read_text().split()[0])


def _wait_for(address: str) -> None:
    host, _, port = address.partition(":")
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"nobody listens on {address}")


def _background(bench: Bench, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    bench.note(argv)
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL)


def _nginx(bench: Bench) -> list[str | Path]:
    (bench.folder / "file.txt").write_text("Hello World\n" * 100)
    text = (PROGRAMS / "nginx" / "nginx.conf").read_text()
    for name, address in (
        ("ADDRESS", ADDRESS),
        ("HTTP_UPSTREAM", HTTP_UPSTREAM),
        ("FASTCGI_UPSTREAM", FASTCGI_UPSTREAM),
    ):
        text = text.replace(f"{name};", f"{address};").replace(f"{name} ", f"{address} ")
    (bench.folder / "nginx.conf").write_text(text)
    bench.folder.chmod(0o755)  # the worker is nobody
    return ["nginx", "-p", bench.folder, "-c", bench.folder / "nginx.conf"]


def _perf_record(hertz: int, pid: int, seconds: float, *options: str) -> list[str]:
    sampling = ["-e", "cpu-clock", "-F", str(hertz), *options, "-p", str(pid)]
    return ["perf", "record", *sampling, "--no-buildid-cache", "-o", "perf.data", "sleep", f"{seconds:g}"]


CASES: dict[str, Callable[[Bench], bytes]] = {
    **{
        f"nethttp-go{go.rpartition('.')[0]}.pb.gz": go_profile("nethttp", go=go)
        for go in ("1.16.15", "1.19.13", "1.20.14", "1.21.13", "1.23.12", "1.25.5", GO)
    },
    "nethttp-go1.16-2000.pb.gz": go_profile("nethttp", go="1.16.15", connections=2000),
    "nethttp-go1.26-2000.pb.gz": go_profile("nethttp", connections=2000),
    "nethttp-go1.26-busy.pb.gz": go_profile("nethttp", path="/busy"),
    "fasthttp.pb.gz": go_profile("fasthttp"),
    "fasthttp-2000.pb.gz": go_profile("fasthttp", connections=2000),
    "gnet.pb.gz": go_profile("gnet"),
    "netpoll.pb.gz": go_profile("netpoll"),
    "hertz.pb.gz": go_profile("hertz"),
    "fcgi.pb.gz": fastcgi_profile,
    **{
        f"shipped-{backend}.pb.gz": shipped_profile(backend)
        for backend in ("nethttp", "fasthttp", "gnet", "netpoll", "hertz", "gostring", "fcgi")
    },
    "shipped-gnet-2000.pb.gz": shipped_profile("gnet", connections=2000),
    "shipped-fileserver.pb.gz": shipped_profile("fileserver", "-root", "FOLDER"),
    "shipped-fileserver-listing.pb.gz": shipped_profile("fileserver", "-root", "FOLDER", "-listing", "20"),
    "shipped-node.perf.txt.gz": perf_profile(shipped_node, "/"),
    **{f"mixed-{kind}.pb.gz": mixed_profile(kind) for kind in ("cpu", "heap", "allocs", "mutex", "block", "goroutine")},
    "nethttp.perf.txt.gz": perf_profile(nethttp, "/"),
    "node.perf.txt.gz": perf_profile(node, "/"),
    "nginx-return.perf.txt.gz": perf_profile(nginx, "/return"),
    "nginx-file.perf.txt.gz": perf_profile(nginx, "/file.txt"),
    "nginx-http.perf.txt.gz": perf_profile(nginx, "/http"),
    "nginx-fastcgi.perf.txt.gz": perf_profile(nginx, "/fastcgi"),
    "nginx-short.perf.txt.gz": perf_profile(nginx, "/return", "-H", "Connection: close"),
    "native-inlined.perf.txt.gz": native_profile("--inline", call_graph="dwarf"),
    "native-flat.perf.txt.gz": native_profile(call_graph=None),
    "native-deleted.perf.txt.gz": native_profile(deleted=True),
    "native-fields.perf.txt.gz": native_profile("--no-inline", "-F", "comm,pid,tid,cpu,time,event,ip,sym,dso,symoff"),
}


def record(name: str) -> None:
    """Record one profile, and write it with the commands that made it."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        content = CASES[name](bench)
    (FIXTURES / name).write_bytes(content)
    stem = name.removesuffix(".gz").removesuffix(".pb").removesuffix(".txt")
    versions = {
        "go": GO,
        "kernel": os.uname().release,
        "perf": _version("perf", "--version"),
        "node": _version("node", "--version"),
        "nginx": _version("nginx", "-v"),
    }
    made = {"versions": versions, "commands": bench.commands}
    (FIXTURES / f"{stem}.made.json").write_text(json.dumps(made, indent=2) + "\n")
    print(f"{name}: {len(content)} bytes")  # noqa: T201 - it is a script


def _version(*argv: str) -> str:
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        record(case)
