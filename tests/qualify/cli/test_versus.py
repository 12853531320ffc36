"""`benchkit versus` from the command line: real servers in a lab of the command's own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from tests.qualify.cli.test_bisect import ON_A_BUSY_MACHINE
from tests.support.cli.fixtures import CommandResult
from tests.support.paths import TESTS
from tests.support.waiting import wait_until

Cli = Callable[..., CommandResult]
SERVERS = TESTS / "support/servers"
PLAIN, SLOW = "node plain.js {port}", "node plain.js {port} 200000"
SHORT = ("--connections", 8, "--duration", 24, "--blocks", 3, "--set", f"thresholds={{{ON_A_BUSY_MACHINE}}}")
"""Options for the fewest blocks with an interval, in the shortest windows."""


def test_servers_are_compared_in_one_line(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "mine.yaml"
    local = (SERVERS / "plain.js").read_text().replace("argv[2]))", 'argv[2]), "127.0.0.1")')
    (tmp_path / "plain.js").write_text(local)  # below /tmp, and on the loopback interface, as beginners have it
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "plain.js").write_text(local)
    monkeypatch.chdir(tmp_path / "here")
    done = cli(
        "versus", PLAIN, f"node {tmp_path}/plain.js {{port}} 200000", "--names", "plain,slow", *SHORT, "--save", saved,
    )  # fmt: skip
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert all(len(line) <= 80 for line in lines[: lines.index("")]), "the table fits 80 columns"
    table = {line.split()[0]: line for line in lines if line.split()[:1] in (["plain"], ["slow"])}
    assert "baseline" in table["plain"]
    answer = lines[lines.index("") + 1]
    assert answer.removeprefix("Undecided: ").startswith("slow "), "a busy machine may leave it undecided"
    assert "plain" in answer
    report = next(line.split()[1] for line in lines if line.startswith("report "))
    assert Path(report).is_file()
    assert "block 1: slow " in done.err, "a line per block where no table can be redrawn"
    name = f"saved-{os.getpid()}"
    assert cli("lab", "up", "--lab", name, "--host", "host=sut,load").code == 0
    again = cli("run", saved, "--lab", name, "--set", "blocks=1", "--json")
    assert cli("lab", "down", "--lab", name).code == 0
    assert again.code == 0, again.err
    assert again.document()["trials"] == 6, "a load curve of each server, and each at full speed and at a held rate"


def test_interrupted_comparison_ends_with_what_there_is(
    program: list[str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SERVERS)
    running = subprocess.Popen(
        [
            *(*program, "versus", PLAIN, SLOW, "--names", "plain,slow", "--connections", "8", "--duration", "120"),
            *("--set", f"thresholds={{{ON_A_BUSY_MACHINE}}}"),  # or its first block may ask for another design
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("block 1:"):
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    table = {line.split()[0] for line in out.splitlines() if line.split()[:1] in (["plain"], ["slow"])}
    assert table == {"plain", "slow"}
    assert "Interrupted after 1 of at most 60 blocks." in out
    assert "--resume" not in err
    assert "Traceback" not in err


def test_server_that_exits_at_once_shows_its_own_last_lines(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "broken.js").write_text((SERVERS / "broken.js").read_text())
    done = cli("versus", PLAIN, f"node {tmp_path}/broken.js")
    assert done.code == 1
    assert "cannot read settings.json" in done.err
    assert "does not see it" not in done.err, "it does see its program in /tmp"
    assert not done.out


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def serve() -> Iterator[Callable[..., int]]:
    """Start a server of this machine on an address; its requests compute for some rounds. Return its port."""
    with ExitStack() as started:

        def start(address: str, rounds: int) -> int:
            with socket.socket() as free:
                free.bind((address, 0))
                port = int(free.getsockname()[1])
            program = (SERVERS / "plain.js").read_text().replace("argv[2]))", f"argv[2]), {address!r})")
            process = started.enter_context(
                subprocess.Popen(["node", "-", str(port), str(rounds)], stdin=subprocess.PIPE)
            )
            started.callback(process.kill)
            assert process.stdin is not None
            process.stdin.write(program.encode())
            process.stdin.close()
            wait_until(lambda: is_listening(port))
            return port

        yield start


@pytest.mark.usefixtures("loopback")
def test_servers_that_are_there_already_are_compared_by_their_urls(cli: Cli, serve: Callable[..., int]) -> None:
    fast, slow = serve("127.0.0.1", 0), serve("127.0.0.1", 300_000)
    urls = f"http://127.0.0.1:{fast}", f"http://localhost:{slow}/"
    done = cli("versus", *urls, *SHORT, "--json")
    assert done.code == 0, done.err
    assert f"http://localhost:{slow}: host host connects to it on its own loopback interface" in done.err
    document = done.document()
    assert [server["label"] for server in document["servers"]] == [
        f"localhost-{fast} (unwatched)", f"localhost-{slow} (unwatched)",
    ]  # fmt: skip
    assert document["servers"][1]["ratio"]["ratio"] < 0.5, "each of its requests computes for a millisecond"


def test_a_url_that_nobody_listens_at_is_explained(cli: Cli, lab: Lab) -> None:
    done = cli("versus", "http://localhost:1", "--lab", lab.name, "--duration", 12)
    assert done.code == 1
    assert "localhost:1 does not answer GET /" in done.err
    assert "`localhost` means the load host" in done.err


def test_one_server_alone_is_measured_from_a_lab(cli: Cli, lab: Lab, serve: Callable[..., int], tmp_path: Path) -> None:
    port = serve("0.0.0.0", 0)  # noqa: S104 - the hosts of the lab connect to this machine
    with connect_all(lab.inventory()) as hosts:
        url = f"http://{hosts['load'].facts.controller_address}:{port}"
    saved = tmp_path / "mine.yaml"
    done = cli("versus", url, "--lab", lab.name, *SHORT, "--save", saved)
    assert done.code == 0, done.err
    connects = re.compile(rf"^(- )?http://[0-9.]+:{port}: host load connects to it", re.MULTILINE)
    assert connects.search(done.err)
    assert connects.search(cli("plan", saved, "--lab", lab.name).out)
    lines = dict(line.split(maxsplit=1) for line in done.out.splitlines() if len(line.split()) > 1)
    assert float(lines["RPS"].replace(",", "")) > 0
    assert lines["p99"].startswith("at ")
    assert "it is compared with nothing" in done.out
    limit = re.search(r"is not watched, so its limit is unknown|does not reach its limit", done.out)
    assert limit, "a limit needs a host that is watched; noise can make a flat curve grow"
