"""Prefixes that logs put before lines, and what must not be taken for one."""

from __future__ import annotations

import pytest

from benchkit.loadtools.preparation import prepare
from tests.support.paths import TESTS

WRK = (TESTS / "fixtures" / "load" / "wrk" / "v410-plain.txt").read_text()
HEY = (TESTS / "fixtures" / "load" / "hey" / "v014-plain.txt").read_text()

PREFIXES = {
    "compose": "web_1  | ",
    "compose-times": "bench-1  | 2026-01-31T10:11:12.123456789Z ",
    "kubectl-timestamps": "2026-01-31T10:11:12.123456789Z ",
    "kubectl-prefix": "[pod/load-7f9c/wrk] ",
    "kubectl-both": "[pod/load-7f9c/wrk] 2026-01-31T10:11:12.123456789+01:00 ",
    "k9s": "2026-01-31T10:11:12.123456789Z wrk ",
    "actions": "2026-01-31T10:11:12.1234567Z ",
    "actions-of-gh": "bench\tRun wrk\t2026-01-31T10:11:12.1234567Z ",
    "gitlab": "2026-01-31T10:11:12.123456Z 01O ",
    "jenkins": "[2026-01-31T10:11:12.123Z] ",
    "journald": "Jan 31 10:11:12 load-1 wrk[4711]: ",
    "journald-iso": "2026-01-31T10:11:12+0100 load-1 wrk[4711]: ",
    "logger": "[Fri Jan 30 2026 10:11:12 GMT+0100 (CET)] INFO ",
    "level": "2026-01-31 10:11:12,123 INFO ",
    "concurrently": "[bench] ",
    "quotation": "> ",
    "comment": "// ",
    "pipe": "| ",
}


@pytest.mark.parametrize("text", [WRK, HEY], ids=["wrk", "hey"])
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=list(PREFIXES))
def test_a_prefix_of_each_line_is_removed_and_named(prefix: str, text: str) -> None:
    prepared = prepare("".join(f"{prefix}{line}\n" for line in text.splitlines()))
    assert prepared.text.rstrip() == text.rstrip()
    assert {note.code for note in prepared.notes} == {"prefix-removed"}
    assert prefix.split(maxsplit=1)[0] in prepared.notes[0].message


def test_lines_of_the_author_between_those_of_a_log_stay() -> None:
    lines = ["== first ==", *(f"web_1  | {line}" for line in WRK.splitlines()), "", "== second =="]
    assert prepare("\n".join(lines)).text.splitlines() == ["== first ==", *WRK.splitlines(), "", "== second =="]


def test_colour_codes_are_removed_and_named() -> None:
    prepared = prepare("".join(f"\x1b[36mwrk-1  |\x1b[0m {line}\r\n" for line in WRK.splitlines()))
    assert prepared.text.rstrip() == WRK.rstrip()
    assert [note.code for note in prepared.notes] == ["colours-removed", "prefix-removed"]


@pytest.mark.parametrize(
    "text",
    [
        WRK,
        "2024-01-01 10:00:00,  100,  1.00\n" * 5,  # rows of siege's log file
        "Error distribution:\n  [10]\tGet \n  [200]\tPost \n  [5]\tPut \n",
        "1499876018809,2384,ipify,200,OK\n" * 5,
        "[  1.5 ms,  2 ms]  10\n" * 5,
        "a\nb",
    ],
)
def test_figures_are_no_prefixes(text: str) -> None:
    assert prepare(text) == (text, ())
