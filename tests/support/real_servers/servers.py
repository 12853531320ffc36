"""Twelve HTTP servers by other people, installed by package managers and started as their users do.

Each answers a request with six bytes after TURNS steps of a loop, a variable of its environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from benchkit.comparison.diagnoses.causes import causes_of
from benchkit.comparison.runs.run_data import read_run_data
from benchkit.hosts.packages import SBIN
from benchkit.store.store import Store
from tests.support.paths import ROOT

FOLDER = Path(__file__).parent
"""Folder in which every command line starts."""
_INSTALLED = ROOT / "build" / "real_servers"
_INSTALL_S = 600
"""Longest time of an installation: axum takes 75 s to compile."""
_LONGEST_S = 600
"""Longest time of a comparison."""


_PACKAGES = {
    "cargo": "cargo",
    "javac": "default-jdk-headless",
    "nginx": "nginx",
    "npm": "npm",
    "php": "php-cli",
    "php-fpm": "php-fpm",
    "puma": "puma",
    "ruby": "ruby-webrick",
}
"""Packages of Debian that have these programs."""


@dataclass(frozen=True)
class RealServer:
    """A server of other people: its command line, and what it needs of this machine."""

    command: str
    """With `{port}`, and `{installed}` for the folder that `install` returns."""
    needs: tuple[str, ...] = ()
    """Programs of `_PACKAGES`."""
    install: Callable[[], Path] | None = None
    """Installation of the server itself; None: with the programs that it needs."""
    turns: int = 20_000
    """Steps of the loop that take at least half of the CPU time of a request without it.

    By `/proc/PID/stat` over 8,000 requests of hey on 8 connections. In microseconds, a request without steps and its
    loop take: gunicorn sync 215 and 334, gthread 225 and 339, uvicorn 134 and 319, waitress 162 and 384, puma 94 and
    580, webrick 351 and 621, php -S 78 and 45, php-fpm with nginx 104 and 69. In 20,000 steps these would take too
    little to be seen: express 159 and 6, fastify 30 and 7, com.sun.net.httpserver 145 and 14, axum 12 and 5.
    """

    def command_line(self, turns: int) -> str:
        """Return its command line with so many turns, once it is installed. Skips a test where a program is missing."""
        path = os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN))
        for program in self.needs:
            if shutil.which(program, path=path) is None and not any(Path("/usr/sbin").glob(f"{program}[0-9]*")):
                pytest.skip(f"{program} is missing (Debian: apt install {_PACKAGES[program]})")
        installed = "" if self.install is None else str(self.install())
        return f"TURNS={turns} {self.command.replace('{installed}', installed)}"


class ComparedWithLoop(NamedTuple):
    """What `versus` says of a server and the same server with a loop in each request."""

    document: Any
    took_s: float
    tools: frozenset[str]
    """Load tools of the trials that were compared."""
    causes: frozenset[str]
    """Codes of the causes that it names."""


def compare_with_loop(name: str, store: Path, *options: str) -> ComparedWithLoop:
    """Compare a server with itself, with its loop in each request of the second."""
    server = SERVERS[name]
    commands = [server.command_line(turns) for turns in (0, server.turns)]
    began_s = time.monotonic()
    done = subprocess.run(
        [Path(sys.executable).with_name("benchkit"), "versus", *commands, "--json", *options],
        cwd=FOLDER,
        env={**os.environ, "BENCHKIT_STORE": str(store)},
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    took_s = time.monotonic() - began_s
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    data = read_run_data(Store(store), Store(store).run(document["run_id"]))
    tools = data.trials.loc[data.trials["kind"] == "measure", "tool"]
    return ComparedWithLoop(document, took_s, frozenset(tools), frozenset(each.code for each in causes_of(data)))


def _run(*command: str | Path, cwd: Path = FOLDER) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}{done.stderr}"


@cache
def _python() -> Path:
    """Install the servers of Python in an environment of their own, and return its folder of programs."""
    programs = _INSTALLED / "python" / "bin"
    if not (programs / "python").exists():
        venv.create(programs.parent, with_pip=True)
    _run(programs / "python", "-m", "pip", "install", "--quiet", "--requirement", FOLDER / "requirements.txt")
    return programs


@cache
def _node() -> Path:
    """Install the frameworks of Node, and return the folder of its modules."""
    folder = _INSTALLED / "node"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(FOLDER / "package.json", folder)
    _run("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", cwd=folder)
    return folder / "node_modules"


@cache
def _java() -> Path:
    """Compile the server of the JDK, and return the folder of its classes."""
    _run("javac", "-d", _INSTALLED / "java", FOLDER / "Jdk.java")
    return _INSTALLED / "java"


@cache
def _rust() -> Path:
    """Build the server of axum, and return its folder."""
    folder = _INSTALLED / "axum"
    shutil.copytree(FOLDER / "axum", folder, dirs_exist_ok=True)  # Cargo writes its lock beside the sources
    _run("cargo", "build", "--quiet", "--release", cwd=folder)
    return folder / "target" / "release"


SERVERS: Mapping[str, RealServer] = MappingProxyType(
    {
        "gunicorn sync": RealServer("{installed}/gunicorn --bind 127.0.0.1:{port} app:wsgi", install=_python),
        "gunicorn gthread": RealServer(
            "{installed}/gunicorn --bind 127.0.0.1:{port} --worker-class gthread --threads 4 app:wsgi", install=_python
        ),
        "uvicorn": RealServer("{installed}/uvicorn --port {port} --log-level warning app:asgi", install=_python),
        "waitress": RealServer("{installed}/waitress-serve --listen 127.0.0.1:{port} app:wsgi", install=_python),
        "puma": RealServer("puma --bind tcp://127.0.0.1:{port} config.ru", ("puma",)),
        "webrick": RealServer("ruby webrick.rb {port}", ("ruby",)),
        "php -S": RealServer("php -S 127.0.0.1:{port} index.php", ("php",)),
        "php-fpm behind nginx": RealServer("sh php-fpm.sh {port}", ("php-fpm", "nginx")),
        "express": RealServer("NODE_PATH={installed} node node.js express {port}", ("npm",), _node, 400_000),
        "fastify": RealServer("NODE_PATH={installed} node node.js fastify {port}", ("npm",), _node, 100_000),
        # Without this property each answer waits 40 ms for an acknowledgement, as webrick's does, and more connections
        # than its listen queue of 50 holds are needed.
        "com.sun.net.httpserver": RealServer(
            "java -Dsun.net.httpserver.nodelay=true -cp {installed} Jdk {port}", ("javac",), _java, 400_000
        ),
        "axum": RealServer("{installed}/server {port}", ("cargo",), _rust, 40_000),
    }
)
"""Servers by their names."""
