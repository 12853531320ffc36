"""Messages of the installed program."""

from __future__ import annotations

import subprocess

from tests.support.cli.fixtures import Cli


def test_the_help_lists_all_commands(cli: Cli) -> None:
    listed = cli("--help").out
    for command in ("demo", "validate", "plan", "run", "report", "parse", "lab", "hosts", "results"):
        assert f"\n  {command} " in listed


def test_a_traceback_only_with_debug(program: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*program, "run", "quickstart", "--debug"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "InputError: BENCHKIT_LAB: no lab " in done.stderr
