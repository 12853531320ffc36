"""`benchkit bisect` from the command line: a real history of a real server, in a lab of the command's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchkit.services.go_build import find_go, go_environment
from tests.qualify.services.test_git_source import git
from tests.support.cli.fixtures import CommandResult
from tests.support.paths import TESTS

Cli = Callable[..., CommandResult]
SERVER = (TESTS / "support/servers/plain.js").read_text()
BUILD = "sh -c 'test ! -e broken && cp server.js {out}'"
ON_A_BUSY_MACHINE = (
    "generator_cpu: 1, foreign_cores: 100, steal: 1, littles_law: 1, connections: 0, unequal: 100, neighbour_cpu: 1, "
    "carry_over: 1, slice_answers: 0.1, server_cpu: 0, throttled: 1, cold: 1, gap_intervals: 100"
)
"""Thresholds that exclude no trial because of other work: the difference searched for is several times as large."""
SERVED = ("--build", BUILD, "--run", "node server.js {port}")


@pytest.fixture
def history(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A history of a server after `good`: notes, one that does not build, a comment, and one that computes for 1 ms."""
    go = find_go()  # its cache of compiled packages is in XDG_CACHE_HOME, too, unless GOCACHE is set
    environment["GOCACHE"] = go_environment(go, {})["GOCACHE"]
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    folder = tmp_path / "server"
    folder.mkdir()
    git(folder, "init", "-q")
    states = {
        "good": {"server.js": SERVER},
        "Add notes": {"notes": "of the server"},
        "Break the build": {"broken": ""},
        "Comment": {"server.js": f"// fast\n{SERVER}"},
        "Compute more": {"server.js": SERVER.replace("?? 0", "?? 200000")},
    }
    for subject, files in states.items():
        (folder / "broken").unlink(missing_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        git(folder, "add", "--all")
        git(folder, "commit", "-qm", subject)
    git(folder, "tag", "good", "HEAD~4")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.usefixtures("history")
def test_commit_that_made_a_server_slower_is_found(cli: Cli) -> None:
    # The end of a comparison is its precision, or its threshold: its duration, at which a search may stay undecided, is
    # only reached on a machine whose cores stall.
    load = ("--connections", 4, "--duration", 90, "--precision", 0.5, "--set", f"thresholds={{{ON_A_BUSY_MACHINE}}}")
    done = cli("bisect", "good", "HEAD", *SERVED, *load)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].endswith(" (Compute more) is the first bad commit."), done.err
    assert lines[1].startswith("The bad end has 0.")
    assert "(Break the build): app at " in next(line for line in lines if line.startswith("Skipped: "))
    progress = [line for line in done.err.splitlines() if " of about " in line]
    assert [line.partition("(")[2].partition(")")[0] for line in progress] == [
        "Compute more", "Break the build", "Add notes", "Comment",
    ]  # fmt: skip
    is_decided = progress[-1].endswith("good; 1 suspect")
    assert is_decided or progress[-1].endswith("good by its point alone (undecided); 1 suspect"), (
        "a busy machine may leave it undecided"
    )


@pytest.mark.usefixtures("history")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("good", "HEAD"), "name --build and --run"),
        (("HEAD", "good", *SERVED), "HEAD is not an ancestor of good"),
        (("good", "none", *SERVED), "no ref 'none'"),
        (("good", "HEAD", *SERVED, "--metric", "memory"), "'memory' is not a column of `trials`"),
        (("good", "HEAD", "--build", "make", "--run", "./app {prt}"), "{prt}"),
        (("good", "HEAD", *SERVED, "--set", "load.none=1"), "load.none"),
    ],
)
def test_mistakes_are_named_before_a_lab_is_started(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    done = cli("bisect", *arguments)
    assert done.code == 2, done.err
    assert message in done.err
