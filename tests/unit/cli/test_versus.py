"""Mistakes in a comparison of servers: named before a lab is started."""

from __future__ import annotations

import pytest

from tests.support.cli.fixtures import Cli, transcript
from tests.support.snapshots import Snapshot

MISTAKES = [
    (),
    ("http://a/x", "http://b/y"),
    ("one", "two", "--ref", "main"),
    ("--build", "make", "--run", "./app", "--ref", "main"),
    ("one", "two", "--names", "a"),
    ("one", "two", "--header", "plain"),
    ("./one", "./two", "--header-env", "Cookie: NO_SUCH"),
    ("no-such-server", "./two"),
    ("./one", "./two", "--tool", "nothing"),
    ("./one {prt}", "./two"),
    ("./one", "./two", "--method", "get it"),
    ("./one", "./two", "--set", "load.connections=0"),
    ("./one", "./two", "--request", "GET / now"),
    ("./one", "./two", "--request", "/a", "--path", "/b"),
    ("cd x && ./one", "./two"),
    ("ftp://host", "./two"),
]


@pytest.mark.usefixtures("here")
def test_mistakes(cli: Cli, snapshot: Snapshot) -> None:
    shown = transcript(cli, *(("versus", *arguments) for arguments in MISTAKES))
    assert shown.count("exit code 2") == len(MISTAKES)
    assert "lab:" not in shown
    snapshot(shown)
