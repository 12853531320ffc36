"""Prefixes that logs put before lines, and what must not be taken for one."""

from __future__ import annotations

import html
import json
from collections.abc import Callable

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


def _numbered(text: str, form: str) -> str:
    return "".join(form.format(number, line) for number, line in enumerate(text.splitlines(keepends=True), 9))


PAGES: dict[str, Callable[[str], str]] = {
    "entities-read": html.escape,
    "tags-removed": lambda text: f'<div><pre class="x"><code>{text.rstrip()}</code></pre></div>\n',
    "encoding-restored": lambda text: text.replace("\u00b5", "\u252c\u00c1").replace("\u2502", "\u00e2\u201d\u201a"),
    "line-numbers-removed": lambda text: _numbered(text, "{:4d} | {}"),
    "docker-log-read": lambda text: "".join(
        json.dumps({"log": line, "stream": "stdout"}) + "\n" for line in text.splitlines(keepends=True)
    ),
    "prefix-removed": lambda text: "".join(f"+{line}" for line in text.splitlines(keepends=True)),
}
GATLING_PAGE = """\
---- Global Information --------------------------------------------------------
> request count                                       7481 (OK=4962   KO=2519  )
> min response time                                     68 (OK=123    KO=68    )
> max response time                                  22295 (OK=3387   KO=22295 )
> mean response time                                   124 (OK=146    KO=81    )
> mean requests/sec                                 37.219 (OK=24.687 KO=12.532)
================================================================================
"""
VEGETA_PAGE = """\
Requests      [total, rate, throughput]  6000, 100.02, 100.02
Duration      [total, attack, wait]      59.990650162s, 59.989999661s, 650.501\u00b5s
Latencies     [mean, 50, 95, 99, max]    653.597\u00b5s, 654.05\u00b5s, 725.378\u00b5s, 900.028\u00b5s, 3.56416ms
Success       [ratio]                    100.00%
Status Codes  [code:count]               200:6000
Error Set:
"""


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("entities-read", GATLING_PAGE),
        *((code, VEGETA_PAGE) for code in PAGES if code != "entities-read"),
        *((code, WRK) for code in ("tags-removed", "line-numbers-removed", "docker-log-read", "prefix-removed")),
        ("tags-removed", GATLING_PAGE),
    ],
)
def test_what_a_page_adds_is_removed_and_named(code: str, text: str) -> None:
    (result,), (plain,) = (read_runs(each, where="page") for each in (PAGES[code](text), text))
    assert code in {note.code for note in result.notes}
    assert result.model_copy(update={"notes": ()}) == plain.model_copy(update={"notes": ()})


@pytest.mark.parametrize(
    "text",
    [
        '<?xml version="1.0"?>\n<testResults>\n<sample t="1" lb="a &lt; b &gt; <br/>"/>\n</testResults>\n',
        '{"body": "&quot;"}\n',
        '{"htmlName": "t >= 800 ms <br> t < 1200 ms", "body": "<pre>x</pre>"}\n',
        '{"log": 5}\n{"log": "x"}\n',
        '{"log": "x"\n',
        "10 a\n11 b\n12 c\n14 d\n15 e\n16 f\n",
        "+++ b/notes\n" * 5,
    ],
)
def test_other_markup_stays(text: str) -> None:
    assert prepare(text) == (text, ())


def test_strings_of_json_keep_their_quotation_marks() -> None:
    assert prepare('{"a": "&lt;b&quot;"}').text == '{"a": "<b&quot;"}'


def test_k6_is_no_process_of_a_journal() -> None:
    line = "2024-05-02T10:11:13.123456Z 01O http_reqs......................: 8739    11.648/s\n"
    assert prepare(line * 4).text == "http_reqs......................: 8739    11.648/s\n" * 4


def test_a_log_in_an_unknown_log_is_read() -> None:
    inner = [f"2024-05-02T10:11:{number:02d}.123Z {line}" for number, line in enumerate(WRK.splitlines(), 10)]
    log = "\n".join(f"I0502 10:11:13.04       1 main.go:42] {line}" for line in inner)
    (result,) = read_runs(log + "\n", where="log")
    assert result.requests == read_runs(WRK, where="plain")[0].requests


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("**requests: 960 total**", "requests: 960 total"),
        ("status codes: **961 2xx**, 0 3xx", "status codes: 961 2xx, 0 3xx"),
        ("| **p99** | **3** ms |", "| p99 | 3 ms |"),
        ("GET /a/**/b/**", None),
        ("2 ** 3 ** 4", None),
    ],
)
def test_bold_text_is_plain(text: str, plain: str | None) -> None:
    prepared = prepare(text)
    assert prepared.text == (plain or text)
    assert [note.code for note in prepared.notes] == (["emphasis-removed"] if plain else [])


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
    ("text", "notes"),
    [
        (
            "".join(
                f'<span class="line"><span>{line.replace("%", "&#37;")}</span></span>\n' for line in WRK.splitlines()
            ),
            ["entities-read", "tags-removed"],
        ),
        (json.dumps({"argv": ["wrk"], "stdout": WRK, "stderr": ""}, indent=1), ["strings-read"]),
        (json.dumps({"stdout": WRK.rstrip(), "rc": 0}), ["strings-read"]),
        ("ok: [load-1] => " + json.dumps({"msg": WRK.splitlines()}, indent=4), ["strings-read"]),
    ],
    ids=["HTML", "JSON", "JSON in one line", "Ansible"],
)
def test_pages_and_strings_of_json_are_read(text: str, notes: list[str]) -> None:
    (result,), (plain,) = read_runs(text, where="here"), read_runs(WRK, where="here")
    assert [note.code for note in result.notes[len(plain.notes) :]] == notes
    assert result.model_copy(update={"notes": plain.notes}) == plain
