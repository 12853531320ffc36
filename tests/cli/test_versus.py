"""`benchkit versus` from the command line: real servers in a lab of the command's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import benchkit
from benchkit.lab.lab import Lab
from tests.cli.conftest import CommandResult
from tests.needs import separate_hosts

Cli = Callable[..., CommandResult]
SERVERS = Path(__file__).parent / "servers"
PLAIN, SLOW = "node plain.js {port}", "node plain.js {port} 200000"


@pytest.mark.lab
def test_servers_are_compared_in_one_line(
    cli: Cli, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = tmp_path / "mine.yaml"
    local = (SERVERS / "plain.js").read_text().replace("argv[2]))", 'argv[2]), "127.0.0.1")')
    (tmp_path / "plain.js").write_text(local)  # below /tmp, and on the loopback interface, as beginners have it
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "plain.js").write_text(local)
    monkeypatch.chdir(tmp_path / "here")
    done = cli(
        "versus", PLAIN, f"node {tmp_path}/plain.js {{port}} 200000", "--names", "plain,slow", "--connections", 8,
        "--duration", 24, "--precision", 0.5, "--save", saved,
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
    run = next(line.split()[1] for line in lines if line.startswith("run "))
    rates = (
        benchkit.load("trials", store=environment["BENCHKIT_STORE"], run=run).groupby("factor_stack")["rps"].median()
    )
    assert rates["slow"] < 0.5 * rates["plain"], "each of its requests computes for a millisecond"
    assert "block 1: slow " in done.err, "a line per block where no table can be redrawn"
    assert cli("validate", saved).code == 0


@pytest.mark.lab
def test_server_that_exits_at_once_shows_its_own_last_lines(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "broken.js").write_text((SERVERS / "broken.js").read_text())
    done = cli("versus", PLAIN, f"node {tmp_path}/broken.js")
    assert done.code == 1
    assert "cannot read settings.json" in done.err
    assert "does not see it" not in done.err, "it does see its program in /tmp"
    assert not done.out


@separate_hosts
@pytest.mark.lab
def test_a_server_in_tmp_that_a_lab_host_does_not_see_is_explained(cli: Cli, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "plain.js").write_text((SERVERS / "plain.js").read_text())
    done = cli("versus", f"node {tmp_path}/plain.js {{port}}", PLAIN, "--lab", lab.name)
    assert done.code == 1
    assert "a host of a lab has a /tmp of its own and does not see it" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name two servers to compare"),
        (("one",), "name two servers to compare"),
        (("one", "two", "--ref", "main"), "refs need --build and --run"),
        (("--build", "make", "--run", "./app", "--ref", "main"), "name two refs"),
        (("one", "two", "--names", "a"), "1 names for 2 commands"),
        (("one", "two", "--header", "plain"), "--header: number 1 is not of the form 'NAME: VALUE'"),
        (("./one", "./two", "--header-env", "Cookie: NO_SUCH"), "{env: NO_SUCH}: this environment variable is not set"),
        (("no-such-server", "./two"), "no-such-server is missing on this machine"),
        (("./one", "./two", "--duration", "5"), "5 s are too short to compare 2 servers"),
        (("./one", "./two", "--tool", "nothing"), "nothing"),
        (("./one {prt}", "./two"), "{prt}"),
    ],
)
def test_mistakes_are_named_before_a_lab_is_started(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    done = cli("versus", *arguments)
    assert done.code == 2
    assert message in done.err
