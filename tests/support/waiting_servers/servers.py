"""Command lines of servers that wait, and the PostgreSQL that one of them asks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.paths import TESTS
from tests.support.ports import free_port
from tests.support.waiting import wait_until

FOLDER = TESTS / "support" / "waiting_servers"
PHP_MS = 20
"""Wait of `wait.php`, in milliseconds."""


@pytest.fixture(scope="session")
def waiting_server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server of `server.go`, built."""
    program = tmp_path_factory.mktemp("waiting") / "server"
    subprocess.run(
        ["go", "build", "-o", program, FOLDER / "server.go"], check=True, env={**os.environ, "CGO_ENABLED": "0"}
    )
    return program


def kit(program: Path, mode: str) -> str:
    """Return the command line of the built server in a mode with its numbers, as `pool 8 5`."""
    return f"{program} --port {{port}} {mode}"


@contextmanager
def answering(program: Path, wait_ms: float) -> Iterator[int]:
    """Give the port of a built server on the loopback interface of this machine that answers after a time."""
    port = free_port()
    with subprocess.Popen([program, "--port", str(port), "sleep", str(wait_ms)]) as running:
        try:
            wait_until(lambda: _is_open(port))
            yield port
        finally:
            running.terminate()


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def gunicorn(workers: int, application: str) -> str:
    """Return the command line of gunicorn with an application of `wsgi.py`; a worker serves one request at a time."""
    return (
        f"{sys.executable} -m gunicorn --workers {workers} --bind 0.0.0.0:{{port}} --chdir {FOLDER} wsgi:{application}"
    )


def php(workers: int) -> str:
    """Return the command line of PHP's own server, whose first process serves beside its workers."""
    return f"env PHP_CLI_SERVER_WORKERS={workers} php -S 0.0.0.0:{{port}} {FOLDER}/wait.php"


def behind_nginx(program: Path, mode: str) -> str:
    """Return the command line of nginx before the built server."""
    return f"sh {FOLDER}/front.sh {{port}} {program} {mode}"


@pytest.fixture(scope="module")
def postgres() -> Iterator[int]:
    """Start a PostgreSQL on the loopback interface, as the user of its package; give its port."""
    found = shutil.which("postgres") or str(max(Path("/usr/lib/postgresql").glob("*/bin/postgres")))
    program = Path(found).resolve()
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        shutil.chown(folder, "postgres")
        data = ("-D", f"{folder}/data")
        initdb = (*as_user, f"{program.parent}/initdb", *data, "--username=postgres", "--auth=trust", "--no-sync")
        subprocess.run(initdb, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        start = (*as_user, str(program), *data, "-h", "127.0.0.1", "-p", str(port), "-c", "unix_socket_directories=")
        with subprocess.Popen(start, cwd=folder, stderr=subprocess.DEVNULL) as running:
            try:
                is_ready = (f"{program.parent}/pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port))
                wait_until(lambda: subprocess.run(is_ready, check=False).returncode == 0)
                yield port
            finally:
                running.terminate()
