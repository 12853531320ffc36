"""Prefixes that logs put before lines, and what must not be taken for one."""

from __future__ import annotations

import json

import pytest

from benchkit.loadtools.formats import read_runs
from benchkit.loadtools.preparation import prepare
from tests.support.loadtools.outputs import recorded
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


BANNERS = {
    "compose": (["[+] Running 2/2", "Attaching to wrk-1"], "wrk-1  | ", ["wrk-1 exited with code 0"]),
    "kubectl": (['Defaulted container "wrk" out of: wrk, proxy'], "2026-01-31T10:11:12.123456789Z ", []),
    "actions": (["Current runner version: '2.311.0'"], "2026-01-31T10:11:12.1234567Z ", ["##[error]Process completed"]),
    "journald": (["-- Boot 0123456789abcdef --"], "Jan 31 10:11:12 load-1 wrk[4711]: ", ["-- End --"]),
    "jenkins": (["Started by user admin"], "10:11:12  ", ["Finished: SUCCESS"]),
    "mail": (["On Monday Joe wrote:", ""], "> ", ["Thanks!"]),
    "npm": ([], "npm info ", []),
    "stern": (["+ load-7f9c > wrk"], "load-7f9c wrk ", []),
    "swarm": ([], "bench_wrk.1.abcdefghij@node1    | ", []),
    "turbo": (["• Running bench"], "web:bench: ", [" Tasks:    1 successful, 1 total"]),
    "concurrently": (["$ concurrently"], "[bench] ", ["[bench] exited"]),
    "ts": (["$ wrk | ts"], "Jan 31 10:11:12 ", []),
    "syslog": ([], "<14>1 2026-01-31T10:11:12.123Z host wrk 4711 - - ", []),
    "teamcity": ([], "[10:11:12] :\t [Step 1/1] ", []),
    "go-test": (["=== RUN   TestLoad"], "    load_test.go:42: ", ["--- PASS: TestLoad (10.00s)", "PASS"]),
    "indented": (["TASK [run wrk] ****"], "    ", ["PLAY RECAP"]),
}
READ = ("wrk/v410-plain", "hey/v014-plain", "fortio/v163-json", "oha/v1-json", "gatling/v39-console")


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("kind", BANNERS)
def test_banners_of_a_log_have_no_prefix(kind: str, name: str) -> None:
    before, prefix, after = BANNERS[kind]
    lines = recorded(name).rstrip("\n").split("\n")
    text = "\n".join([*before, *(prefix + line for line in lines), *after]) + "\n"
    (result,), (plain,) = read_runs(text, where="log"), read_runs(recorded(name), where="plain")
    assert result.model_copy(update={"notes": ()}) == plain.model_copy(update={"notes": ()})


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


@pytest.mark.parametrize(
    "text",
    [
        "".join(f'<span class="line"><span>{line.replace("%", "&#37;")}</span></span>\n' for line in WRK.splitlines()),
        json.dumps({"argv": ["wrk"], "stdout": WRK, "stderr": ""}, indent=1),
        "ok: [load-1] => " + json.dumps({"msg": WRK.splitlines()}, indent=4),
    ],
    ids=["HTML", "JSON", "Ansible"],
)
def test_pages_and_strings_of_json_are_read(text: str) -> None:
    (result,), (plain,) = read_runs(text, where="here"), read_runs(WRK, where="here")
    assert [note.code for note in result.notes[len(plain.notes) :]] == ["markup-removed"]
    assert result.model_copy(update={"notes": plain.notes}) == plain
