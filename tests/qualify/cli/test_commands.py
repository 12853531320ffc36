"""Commands: a process imports only the one it runs, and suggests one for an unknown name."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

from benchkit.cli.app import app
from benchkit.cli.commands import COMMANDS, SECTIONS
from tests.support.cli.fixtures import Cli

MODULES = sorted({each.target.partition(":")[0] for each in COMMANDS.values()})


def test_a_command_imports_none_of_the_others() -> None:
    program = (
        "import sys; from typer.testing import CliRunner; from benchkit.cli.app import app\n"
        "assert CliRunner().invoke(app, ['parse', '--help']).exit_code == 0\n"
        f"print(*{{home for home in {MODULES!r} if home in sys.modules}})"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [COMMANDS["parse"].target.partition(":")[0]]


def test_every_command_has_its_help_in_the_order_of_the_list(cli: Cli) -> None:
    shown = cli("--help").out
    lines = [line for title, names in SECTIONS.items() for line in (f"{title}:", *(f"  {name} " for name in names))]
    at = [shown.index(f"\n{line}") for line in lines]
    assert at == sorted(at)
    for name in COMMANDS:
        help_text = CliRunner().invoke(app, [name, "--help"]).output
        assert f" {name} [OPTIONS]" in help_text.partition("\n")[0]
