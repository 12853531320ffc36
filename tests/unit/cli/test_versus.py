"""`benchkit versus` from the command line: real servers in a lab of the command's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.cli.fixtures import CommandResult

Cli = Callable[..., CommandResult]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the servers"),
        (("http://a/x", "http://b/y"), "several paths: /x, /y"),
        (("one", "two", "--ref", "main"), "refs need --build and --run"),
        (("--build", "make", "--run", "./app", "--ref", "main"), "name two refs"),
        (("one", "two", "--names", "a"), "1 names for 2 commands"),
        (("one", "two", "--header", "plain"), "--header: number 1 is not of the form 'NAME: VALUE'"),
        (("./one", "./two", "--header-env", "Cookie: NO_SUCH"), "{env: NO_SUCH}: this environment variable is not set"),
        (("no-such-server", "./two"), "no-such-server is missing on this machine"),
        (("./one", "./two", "--duration", "5"), "5 s are too short to compare 2 servers"),
        (("./one", "./two", "--tool", "nothing"), "nothing"),
        (("./one {prt}", "./two"), "benchkit: one: no placeholder {prt}"),
        (("./one", "./two", "--method", "get it"), "benchkit: --method: found 'get it'"),
        (("./one", "./two", "--set", "load.connections=0"), "--set load.connections=0: load.connections"),
        (("./one", "./two", "--request", "GET / now"), "is not of the form 'METHOD PATH'"),
        (("./one", "./two", "--request", "/a", "--path", "/b"), "omit --path and --method"),
        (("cd x && ./one", "./two"), "sh -c 'cd x && ./one'"),
    ],
)
def test_mistakes_are_named_before_a_lab_is_started(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    done = cli("versus", *arguments)
    assert done.code == 2
    assert message in done.err
