"""A lab without namespaces, of an unprivileged user and of a root without the capability for namespaces."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchkit.lab.processes import MARK_VARIABLE, find_programs
from benchkit.lab.spec import DEFAULT_NAME
from benchkit.lab.state import LabFolder
from tests.support.paths import ROOT

Run = Callable[..., subprocess.CompletedProcess[str]]
USER_ID = 54321
CLI = [sys.executable, "-c", "from benchkit.cli.lab import app; app()"]


@pytest.fixture
def home() -> Iterator[Path]:
    """A home with a blank in its path; as root, for a separate user."""
    folder = Path(tempfile.mkdtemp(prefix="benchkit home ", dir="/var/tmp"))
    folder.chmod(0o755)
    own = folder / "home"
    own.mkdir(mode=0o700)
    if os.geteuid() == 0:
        os.chown(own, USER_ID, USER_ID)
    try:
        yield own
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def as_user(home: Path) -> Run:
    """Run a command as a user whose only capability is to read: the Python of the tests may be in root's home."""
    clean = ["env", "-i", f"HOME={home}", "PATH=/usr/bin:/bin", f"PYTHONPATH={ROOT}"]
    if os.geteuid() == 0:
        accounts = home.parent / "passwd"
        accounts.write_text(Path("/etc/passwd").read_text() + f"bench:x:{USER_ID}:{USER_ID}::{home}:/bin/sh\n")
        only = "--bounding-set=-all,+dac_read_search"
        inherited = "--inh-caps=-all,+dac_read_search"
        kept = "--ambient-caps=-all,+dac_read_search"
        script = 'mount --bind "$1" /etc/passwd && shift && exec "$@"'
        clean = [
            *("unshare", "--mount", "sh", "-c", script, "sh", str(accounts), "setpriv"),
            *(f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", only, inherited, kept, *clean),
        ]

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*clean, *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd="/",
            stdin=subprocess.DEVNULL,
        )

    return run


def _document(done: subprocess.CompletedProcess[str]) -> Any:  # noqa: ANN401 - any JSON value
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _lab_processes(home: Path) -> list[psutil.Process]:
    """Return the running processes of the lab in this home; this user may have other labs."""
    user = home.stat().st_uid
    mark = f"benchkit-lab:{LabFolder(home / '.cache' / 'benchkit-lab', DEFAULT_NAME).key}:"
    return [
        process
        for process in psutil.process_iter(["name", "uids", "cmdline", "environ", "status"])
        if process.info["status"] != psutil.STATUS_ZOMBIE
        and process.info["uids"].real == user
        and (
            any(text in " ".join(process.info["cmdline"] or ()) for text in (str(home), mark))
            or (process.info["environ"] or {}).get("HOME") == str(home)
            or (process.info["environ"] or {}).get(MARK_VARIABLE, "").startswith(mark)
        )
    ]


def _assert_nothing_remains(home: Path) -> None:
    assert _lab_processes(home) == []
    assert [path for path in home.rglob("*") if path.name not in {".cache", "benchkit-lab"}] == []


@pytest.fixture
def started_lab(as_user: Run, home: Path) -> Iterator[Any]:
    """The JSON of a lab that the user has started; it is removed at the end."""
    document = _document(as_user(*CLI, "up", "--json", "--link", "sut=100mbit"))
    try:
        yield document
    finally:
        as_user(*CLI, "down")
        _assert_nothing_remains(home)


def _start_a_daemon(as_user: Run, started_lab: Any) -> None:  # noqa: ANN401 - any JSON value
    """Start a process on a host that has left its session, as a daemon does."""
    ssh = started_lab["hosts"][0]["ssh"]
    done = as_user(*ssh, "nohup setsid sleep 300 >/dev/null 2>&1 & echo started")
    assert done.stdout == "started\n", done.stderr


def test_an_unprivileged_user_gets_a_lab_on_loopback(as_user: Run, home: Path, started_lab: Any) -> None:  # noqa: ANN401 - JSON
    assert started_lab["mode"] == "loopback"
    hosts = {host["name"]: host for host in started_lab["hosts"]}
    assert all(host["address"].startswith("127.") and host["port"] > 1023 for host in hosts.values())
    assert hosts["sut"]["address"] != hosts["load"]["address"]
    assert all(host["answers"] and host["link_bps"] is None for host in hosts.values())
    limits = " ".join(started_lab["limits"])
    for words in ("loopback", "sysctls", "not capped", "one loopback interface", "CPU quota"):
        assert words in limits
    assert _document(as_user(*CLI, "up", "--json")) == {**started_lab, "fresh": False}

    script = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['BENCHKIT_LAB_HOST'].rpartition(':')[2])"
    for name, host in hosts.items():
        seen = as_user(*host["ssh"], f'python3 -c "{script}"')
        assert seen.stdout == f"{host['cpus']} host/{name}\n", seen.stderr
    _start_a_daemon(as_user, started_lab)
    assert _document(as_user(*CLI, "down", "--json"))["was_there"] is True
    _assert_nothing_remains(home)
    assert _document(as_user(*CLI, "down", "--json"))["was_there"] is False


@pytest.mark.skipif(os.geteuid() != 0, reason="root only")
def test_root_without_the_capability_for_namespaces_gets_a_lab_on_loopback(lab_name: str) -> None:
    run = [find_programs(["setpriv"])["setpriv"], "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", *CLI]
    up = subprocess.run([*run, "up", "--name", lab_name, "--json"], capture_output=True, text=True, check=False)
    started_lab = _document(up)
    assert "namespaces are not available" in up.stderr
    assert started_lab["mode"] == "loopback"
    assert "Operation not permitted" in started_lab["limits"][0]
    done = subprocess.run([*started_lab["hosts"][0]["ssh"], "id", "-u"], capture_output=True, text=True, check=False)
    assert done.stdout == "0\n", done.stderr
    down = subprocess.run([*run, "down", "--name", lab_name, "--json"], capture_output=True, text=True, check=False)
    assert _document(down)["was_there"] is True
