"""The pages of `scenarios/audits`: each has the output of the commands that it names. `make audits` writes it again."""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path

from benchkit.cli.app import run_command
from tests.support.paths import ROOT

AUDITS = ROOT / "scenarios" / "audits"
PAGES = sorted(AUDITS.glob("*.md"))
_OUTPUT = re.compile(r"(<!-- (benchkit audit [^\n]*) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def commands(page: Path) -> Iterator[str]:
    """Yield the commands whose outputs a page has."""
    yield from (match[2] for match in _OUTPUT.finditer(page.read_text()))


def made_again(page: Path) -> str:
    """Return a page with the outputs that its commands have now."""

    def output(match: re.Match[str]) -> str:
        printed = io.StringIO()
        with chdir(AUDITS), redirect_stdout(printed):
            code = run_command(shlex.split(match[2])[1:])
        assert code == 0, f"{match[2]}: exit code {code}"
        return f"{match[1]}\n{printed.getvalue()}\n{match[4]}"

    return _OUTPUT.sub(output, page.read_text())


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(made_again(each))
