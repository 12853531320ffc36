"""The argument lists of the load tools, as exact values, and the loads that each refuses."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any

import pytest

from benchkit.errors import InputError
from benchkit.loadtools.registry import TOOLS, get_tool
from benchkit.loadtools.tool import Target
from benchkit.loadtools.tools.hey import TEMPLATE
from benchkit.loadtools.tools.wrk import HISTOGRAM, SCRIPT
from benchkit.models.load import Load
from benchkit.models.protocol import HttpProtocol, TlsOptions

TARGET = Target("10.0.0.2:8080")
ORIGIN = TARGET.origin
URL = f"{ORIGIN}/"


def _load(tool: str, **more: Any) -> Load:  # noqa: ANN401 - any field of a load
    return Load.model_validate({"tool": tool, "connections": 4, "duration_s": 5, **more})


ATTACK = "vegeta attack -targets=vegeta.targets -output=stdout -redirects=-1 -connections=4 -max-connections=4"
SEND = "openloop -address=10.0.0.2:8080 -requests=openloop.requests -connections=4"
BEGINNINGS = {
    "ATTACK": ATTACK,
    "SEND": SEND,
    "SECURE": SEND.replace("8080", "8443"),
    "OHA": "oha --no-tui --no-color --output-format=json --disable-compression --redirect=0",
    "K6": "k6 run --quiet --no-color --no-usage-report --address=",
    "BOMB": "bombardier --connections=4 --latencies --print=result",
}
PLAIN = {"histogram": False}
COMMANDS: dict[str, tuple[dict[str, Any], str]] = {
    "wrk": ({}, "wrk -v -t1 -c4 -d5s --latency -s benchkit.lua"),
    "wrk-plain": (PLAIN, "wrk -v -t1 -c4 -d5s --latency"),
    "wrk-all": (
        {"threads": 2, "keepalive": False, "timeout_s": 3, "headers": {"X-A": "b"}, "extra_args": ("--foo",), **PLAIN},
        "wrk -v -t2 -c4 -d5s --latency -s benchkit.lua --timeout 3s --foo",
    ),
    "ab": ({}, "ab -q -r -l -c4 -t5 -n500000 -g /dev/stdout -k"),
    "ab-all": (
        {
            "duration_s": None,
            "request_count": 100,
            "keepalive": False,
            "method": "PUT",
            "timeout_s": 9,
            "headers": {"A": "b"},
            **PLAIN,
        },
        "ab -q -r -l -c4 -n100 -m PUT -s9 -H|A: b -H|Content-Length: 0",
    ),
    "hey": (PLAIN, "hey -c 4 -disable-redirects -z 5s"),
    "hey-all": (
        {"duration_s": None, "request_count": 100, "keepalive": False, "method": "POST", "body": "k=v", "rate": 10}
        | PLAIN,
        "hey -c 4 -disable-redirects -n 100 -disable-keepalive -m POST -q 2.5 -D body.1",
    ),
    "siege": ({}, "env HOME=. siege --rc=siege.conf -b -c4 -t5S"),
    "siege-all": (
        {"duration_s": None, "request_count": 100, "headers": {"A": "b"}, "extra_args": ("--no-parser",)},
        "env HOME=. siege --rc=siege.conf -b -c4 -r25 -H|A: b --no-parser",
    ),
    "vegeta": (
        {"rate": 100},
        "ATTACK -rate=100/1s -duration=5.000000000s",
    ),
    "vegeta-all": (
        {"duration_s": 4, "rate": 2.5, "keepalive": False, "timeout_s": 0.5},
        "ATTACK -rate=2500/1000s -duration=4.000000000s -keepalive=false -timeout=0.5s",
    ),
    "vegeta-full-speed": (
        {},
        "ATTACK -rate=0 -max-workers=4 -duration=5.000000000s",
    ),
    "h2load": ({}, "h2load --h1 -c4 -t1 -D5s --log-file=/dev/stdout"),
    "h2load-short": ({"duration_s": 0.25}, "h2load --h1 -c4 -t1 -D250ms --log-file=/dev/stdout"),
    "h2load-all": (
        {
            "duration_s": None,
            "request_count": 100,
            "threads": 2,
            "method": "PUT",
            "body": "k=v",
            "rate": 8,
            "timeout_s": 2,
        }
        | PLAIN,
        "h2load --h1 -c4 -t2 -n100 --rps=2 -N2s -dbody.1 -H|:method: PUT",
    ),
    "openloop": (
        {"rate": 2000},
        "SEND -stages=10000x500000ns",
    ),
    "openloop-all": (
        {
            "duration_s": 4,
            "rate": 2.5,
            "arrivals": "poisson",
            "keepalive": False,
            "timeout_s": 0.5,
            **PLAIN,
        },
        "SEND -stages=10x400000000ns -poisson -keepalive=false -timeout=0.5s -rows=false",
    ),
    "openloop-shape": (
        {"rate": 1000, "shape": {"base": 0.5, "start_s": 1, "length_s": 2}},
        "SEND -stages=500x2000000ns,2000x1000000ns,1000x2000000ns",
    ),
    "openloop-full-speed": ({}, "SEND -duration=5.000000000s -timeout=5s"),
    "oha": ({}, "OHA -c4 -z5000ms -w --worker-threads=1 -t5000ms"),
    "oha-all": (
        {
            "duration_s": None,
            "request_count": 100,
            "threads": 2,
            "keepalive": False,
            "method": "PUT",
            "body": "k=v",
            "headers": {"A": "b"},
            "rate": 2.5,
            "timeout_s": 0.5,
            "extra_args": ("--ipv4",),
        },
        (
            "OHA -c4 -n100 --worker-threads=2 -q2.5 --latency-correction --disable-keepalive -t500ms -mPUT -HA:~b "
            "-Dbody.1 --ipv4"
        ),
    ),
    "k6": ({}, "K6 --out=csv=fileName=-,timeFormat=unix_nano load.js"),
    "k6-plain": ({"extra_args": ("--verbose",), **PLAIN}, "K6 --verbose load.js"),
    "bombardier": ({}, "BOMB --format=json --duration=5s"),
    "bombardier-all": (
        {
            "duration_s": None,
            "request_count": 100,
            "keepalive": False,
            "method": "POST",
            "body": "k=v",
            "headers": {"A": "b"},
            "rate": 2000,
            "timeout_s": 0.5,
            **PLAIN,
        },
        (
            "BOMB --format=json --requests=100 --rate=2000 --timeout=0.5s --method=POST --header=A:~b "
            "--header=Connection:~close --body-file=body.1"
        ),
    ),
}
"""Name → (load, argument list without the URL); `|` joins an option to a value that may have blanks, `~` is a blank."""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_argument_list(name: str) -> None:
    fields, shown = COMMANDS[name]
    tool = name.partition("-")[0]
    expected = [part.replace("~", " ") for word in _words(shown) for part in word.split("|")]
    target = [] if tool in {"vegeta", "openloop", "k6"} else [URL]  # these read the URL from a file
    assert TOOLS[tool].command(_load(tool, **fields), TARGET) == [*expected, *target]


def _words(shown: str) -> list[str]:
    """Return the words of a command as written above; `-H|Name: value` is one word."""
    words: list[str] = []
    shown = shown.replace("ATTACK1", ATTACK.replace("connections=4", "connections=1"))
    for name, beginning in BEGINNINGS.items():
        shown = shown.replace(name, beginning)
    for word in shown.split(" "):
        if words and words[-1].startswith("-H|") and words[-1].endswith(":"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


TLS13 = TlsOptions(resumption=False)
CIPHER = TlsOptions(version="1.2", ciphers="ECDHE-RSA-AES256-GCM-SHA384")
PROTOCOLS: dict[str, tuple[HttpProtocol, TlsOptions | None, dict[str, Any], str]] = {
    "wrk": ("https1", TLS13, PLAIN, "wrk -v -t1 -c4 -d5s --latency"),
    "ab": ("https1", TLS13, PLAIN, "ab -q -r -l -c4 -t5 -n500000 -k"),
    "siege": ("https1", TLS13, {}, "env HOME=. siege --rc=siege.conf -b -c4 -t5S"),
    "hey": ("https1", TLS13, PLAIN, "hey -c 4 -disable-redirects -z 5s"),
    "hey-h2": (
        *("h2", TLS13),
        {"connections": 1, "streams": 8, "rate": 16, **PLAIN},
        "hey -c 8 -disable-redirects -h2 -z 5s -q 2",
    ),
    "vegeta": (
        *("https1", TLS13, {"rate": 100}),
        "ATTACK -rate=100/1s -duration=5.000000000s -root-certs=/w/ca.pem -http2=false",
    ),
    "vegeta-h2": (
        *("h2", TLS13, {"connections": 1, "streams": 8}),
        "ATTACK1 -rate=0 -max-workers=8 -duration=5.000000000s -root-certs=/w/ca.pem",
    ),
    "vegeta-h2c": (
        *("h2c", None, {"connections": 1, "rate": 50}),
        "ATTACK1 -rate=50/1s -duration=5.000000000s -h2c",
    ),
    "h2load": ("https1", TLS13, PLAIN, "h2load --h1 -c4 -t1 -D5s"),
    "h2load-h2": ("h2", TLS13, {"streams": 8, **PLAIN}, "h2load --npn-list=h2 -m8 -c4 -t1 -D5s"),
    "h2load-h2c": ("h2c", None, PLAIN, "h2load -m1 -c4 -t1 -D5s"),
    "h2load-cipher": (
        *("h2", CIPHER, PLAIN),
        "h2load --npn-list=h2 -m1 --ciphers=ECDHE-RSA-AES256-GCM-SHA384 -c4 -t1 -D5s",
    ),
    "h2load-suite": (
        *("https1", TlsOptions(ciphers="TLS_CHACHA20_POLY1305_SHA256"), PLAIN),
        "h2load --h1 --tls13-ciphers=TLS_CHACHA20_POLY1305_SHA256 -c4 -t1 -D5s",
    ),
    "oha": ("https1", TLS13, {}, "OHA -c4 -z5000ms -w --worker-threads=1 --cacert=/w/ca.pem -t5000ms"),
    "oha-h2c": ("h2c", None, {"streams": 8}, "OHA -c4 --http2 -p8 -z5000ms -w --worker-threads=1 -t5000ms"),
    "k6-h2": ("h2", TLS13, PLAIN, "K6 load.js"),
    "openloop": (
        "https1",
        TLS13,
        {},
        "SECURE -protocol=https1 -ca=/w/ca.pem -full-handshakes -duration=5.000000000s -timeout=5s",
    ),
    "openloop-h2": (
        *("h2", TLS13, {"streams": 8, "rate": 2}),
        "SECURE -protocol=h2 -streams=8 -ca=/w/ca.pem -full-handshakes -stages=10x500000000ns",
    ),
    "openloop-h3": (
        *("h3", TlsOptions(early_data=True), {"keepalive": False, "rate": 2}),
        "SECURE -protocol=h3 -streams=1 -ca=/w/ca.pem -early-data -stages=10x500000000ns -keepalive=false",
    ),
    "bombardier-h2": (
        *("h2", TLS13),
        {"connections": 1, "streams": 4, **PLAIN},
        "BOMB --format=json --duration=5s --http2 --insecure",
    ),
}
"""Name → (protocol, TLS, load, argument list without the URL)."""


NAMED = TlsOptions(resumption=False, server_name="my.example")
NAMED_COMMANDS = {
    "ab": "ab -q -r -l -c4 -t5 -n500000 -k -H Host:_my.example https://10.0.0.2:8443/",
    "hey": "hey -c 4 -disable-redirects -z 5s -host my.example https://10.0.0.2:8443/",
    "h2load": "h2load --h1 --connect-to=10.0.0.2:8443 -c4 -t1 -D5s https://my.example/",
    "oha": (
        "OHA -c4 -z5000ms -w --worker-threads=1 --cacert=/w/ca.pem --connect-to=my.example:443:10.0.0.2:8443 -t5000ms "
        "https://my.example/"
    ),
    "k6": "K6 load.js",
    "openloop": "SECURE -protocol=https1 -ca=/w/ca.pem -server-name=my.example -full-handshakes -duration=5.000000000s -timeout=5s -rows=false",
}
"""Tool → argument list for a server with a name in TLS; the other tools cannot ask for it."""


def _target(protocol: HttpProtocol, tls: TlsOptions | None) -> Target:
    return Target("10.0.0.2:8443", protocol, tls, None if tls is None else PurePosixPath("/w/ca.pem"))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_argument_list_for_a_protocol(name: str) -> None:
    protocol, tls, fields, shown = PROTOCOLS[name]
    tool, load, target = TOOLS[name.partition("-")[0]], _load(name.partition("-")[0], **fields), _target(protocol, tls)
    assert tool.unsupported_target(load, target) == ()
    url = f"{'https' if tls else 'http'}://10.0.0.2:8443/"
    end = [] if tool.name in {"vegeta", "openloop", "k6"} else [url]
    assert tool.command(load, target) == [*_words(shown), *end]
    if tool.name == "vegeta":
        assert tool.files(load, target)["vegeta.targets"] == f"GET {url}\n".encode()


@pytest.mark.parametrize("name", [name for name, tool in TOOLS.items() if tool.tls])
def test_a_name_in_tls_is_asked_for_or_refused(name: str) -> None:
    tool, target = TOOLS[name], _target("https1", NAMED)
    load = _load(name, **({"rate": 100} if name == "vegeta" else {} if name == "siege" else PLAIN))
    if name in NAMED_COMMANDS:
        assert tool.unsupported_target(load, target) == ()
        assert tool.command(load, target) == [word.replace("_", " ") for word in _words(NAMED_COMMANDS[name])]
    else:
        why = f"tls.server_name: {name} always asks for the address that it connects to"
        assert tool.unsupported_target(load, target) == (why,)


UNSUPPORTED: dict[str, tuple[str, HttpProtocol, TlsOptions | None, dict[str, Any], str]] = {
    "wrk has no HTTP/2": ("wrk", "h2", TLS13, {}, "wrk does not speak h2 (it speaks: http1, https1)"),
    "hey has no h2c": ("hey", "h2c", None, {"connections": 1}, "hey does not speak h2c (it speaks: h2, http1, https1)"),
    "HTTP/1 has no streams": (
        *("h2load", "https1", TLS13, {"streams": 2}),
        "streams: https1 has no streams, a connection has one request in flight",
    ),
    "hey opens one connection": (
        *("hey", "h2", TLS13, {"streams": 2}),
        "connections: each hey opens one connection of HTTP/2, not 4: set streams, and a process for each connection",
    ),
    "vegeta opens one connection": (
        *("vegeta", "h2c", None, {}),
        "connections: each vegeta opens one connection of HTTP/2, not 4: set streams, and a process for each connection",
    ),
    "vegeta at a rate has no number of streams": (
        *("vegeta", "h2", TLS13, {"connections": 1, "streams": 2, "rate": 9}),
        "streams: at a rate vegeta opens a stream for every request that is due, up to the server's limit",
    ),
    "nor at a rate that the run finds": (
        *("vegeta", "h2", TLS13, {"connections": 1, "streams": 2, "rate": {"share_of_slowest": 0.5}}),
        "streams: at a rate vegeta opens a stream for every request that is due, up to the server's limit",
    ),
    "openloop has no h2c": (
        "openloop",
        "h2c",
        None,
        {},
        "openloop does not speak h2c (it speaks: h2, h3, http1, https1)",
    ),
    "a new connection has one request": (
        *("openloop", "h2", TLS13, {"streams": 2, "keepalive": False}),
        "streams: with keepalive: false a connection has one request",
    ),
    "early data is of HTTP/3": (
        *("openloop", "h2", TlsOptions(early_data=True), {}),
        "tls.early_data: openloop sends no early data over h2",
    ),
    "HTTP/2 keeps connections": (
        *("hey", "h2", TLS13, {"connections": 1, "keepalive": False}),
        "keepalive: hey keeps its connections of HTTP/2 open",
    ),
    "ab never resumes": (
        *("ab", "https1", TlsOptions(), {"keepalive": False}),
        "tls.resumption: ab never resumes a session on a new connection: set it to false, or keep them",
    ),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_target_to_which_a_tool_cannot_send_the_load(name: str) -> None:
    tool, protocol, tls, fields, why = UNSUPPORTED[name]
    assert get_tool(tool).unsupported_target(_load(tool, **fields), _target(protocol, tls)) == (why,)


def test_a_plan_says_which_tools_verify_no_certificate() -> None:
    over_tls = {name: list(tool.plan_notes(_target("https1", TLS13))) for name, tool in TOOLS.items() if tool.tls}
    assert {name for name, notes in over_tls.items() if not notes} == {"vegeta", "openloop"}
    assert over_tls["wrk"] == [
        "wrk verifies no certificate, and cannot be told to: it sends its load to any server that answers."
    ]
    of_load = {"oha", "bombardier"}
    assert not any(list(tool.plan_notes(TARGET)) for name, tool in TOOLS.items() if name not in of_load)
    builds = {
        name
        for name, tool in TOOLS.items()
        if any(" speaks h3 only where it is " in note for note in tool.plan_notes(_target("h3", TLS13)))
    }
    assert builds == {"h2load"}


def test_k6_reads_the_load_from_a_file() -> None:
    mix = [{"path": "/a", "weight": 2}, {"method": "POST", "path": "/b", "body": "k=v", "headers": {"A": "b"}}]
    load = _load("k6", requests=mix, rate=2.5, keepalive=False, timeout_s=3)
    files = TOOLS["k6"].files(load, _target("https1", NAMED))
    document = json.loads(files["k6.load.json"])
    assert document["order"] == [0, 1, 0]
    assert document["requests"] == [
        {"method": "GET", "url": "https://my.example/a", "headers": {}, "body": None},
        {"method": "POST", "url": "https://my.example/b", "headers": {"A": "b"}, "body": "body.2"},
    ]
    assert files["body.2"] == b"k=v"
    assert document["params"] == {"timeout": "3000ms"}
    options = document["options"]
    assert (options["hosts"], options["noConnectionReuse"]) == ({"my.example": "10.0.0.2:8443"}, True)
    assert options["scenarios"]["load"] == {
        "executor": "constant-arrival-rate",
        "rate": 2500,
        "timeUnit": "1000s",
        "duration": "5000ms",
        "preAllocatedVUs": 4,
        "maxVUs": 4,
        "gracefulStop": "30s",
    }


def test_hey_is_called_with_the_template() -> None:
    command = TOOLS["hey"].command(_load("hey"), TARGET)
    assert command == ["hey", "-c", "4", "-disable-redirects", "-z", "5s", "-o", TEMPLATE, URL]


def test_the_files_that_a_command_names() -> None:
    vegeta = TOOLS["vegeta"].files(_load("vegeta", method="POST", body="k=v", headers={"A": "b"}), TARGET)
    assert vegeta == {"vegeta.targets": f"POST {URL}\nA: b\n@body.1\n".encode(), "body.1": b"k=v"}
    assert TOOLS["h2load"].files(_load("h2load", method="POST", body="k=v"), TARGET) == {"body.1": b"k=v"}
    config = TOOLS["siege"].files(_load("siege", connections=300, keepalive=False, timeout_s=4), TARGET)["siege.conf"]
    wanted = {"limit = 300", "connection = close", "timeout = 4", "logging = false", "verbose = true"}
    assert wanted <= set(config.decode().splitlines())
    assert b"verbose = false\n" in TOOLS["siege"].files(_load("siege", **PLAIN), TARGET)["siege.conf"]
    assert TOOLS["wrk"].files(_load("wrk"), TARGET) == {SCRIPT: HISTOGRAM.read_bytes()}
    assert TOOLS["wrk"].files(_load("wrk", **PLAIN), TARGET) == {}


REFUSED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "wrk takes whole seconds": ({"tool": "wrk", "duration_s": 1.5, "timeout_s": 0.5}, {"duration_s", "timeout_s"}),
    "wrk has no count and no rate": (
        {"tool": "wrk", "duration_s": None, "request_count": 9, "rate": 5},
        {"duration_s", "request_count", "rate"},
    ),
    "wrk needs a connection a thread": ({"tool": "wrk", "threads": 8}, {"threads"}),
    "ab has one thread and no rate": ({"tool": "ab", "threads": 2, "rate": 5}, {"threads", "rate"}),
    "ab has a limit": ({"tool": "ab", "connections": 20_001}, {"connections"}),
    "ab cannot make fewer than it opens": ({"tool": "ab", "duration_s": None, "request_count": 3}, {"request_count"}),
    "both a time and a count": ({"tool": "ab", "request_count": 8}, {"duration_s"}),
    "neither a time nor a count": ({"tool": "hey", "duration_s": None}, {"duration_s"}),
    "hey drops the remainder": ({"tool": "hey", "duration_s": None, "request_count": 9}, {"request_count"}),
    "hey is wrong past a million": ({"tool": "hey", "duration_s": None, "request_count": 1_000_004}, {"request_count"}),
    "siege repeats for each user": ({"tool": "siege", "duration_s": None, "request_count": 9}, {"request_count"}),
    "siege knows some methods": ({"tool": "siege", "method": "TRACE"}, {"method"}),
    "siege sends no body with GET": ({"tool": "siege", "body": "x"}, {"body"}),
    "vegeta has no count": (
        {"tool": "vegeta", "duration_s": None, "request_count": 9, "rate": 9},
        {"duration_s", "request_count"},
    ),
    "vegeta takes thousandths": ({"tool": "vegeta", "rate": 1 / 3}, {"rate"}),
    "h2load keeps connections": ({"tool": "h2load", "keepalive": False}, {"keepalive"}),
    "h2load sends no body with GET": ({"tool": "h2load", "body": "x"}, {"body"}),
    "vegeta has nothing but times": ({"tool": "vegeta", **PLAIN}, {"histogram"}),
    "wrk has one script": ({"tool": "wrk", "extra_args": ("-s", "my.lua")}, {"extra_args"}),
    "ab has one table": ({"tool": "ab", "extra_args": ("-g/tmp/x",)}, {"extra_args"}),
    "hey has one output": ({"tool": "hey", "extra_args": ("-o", "csv")}, {"extra_args"}),
    "k6 has no count": ({"tool": "k6", "request_count": 9}, {"request_count"}),
    "openloop frames its requests itself": ({"tool": "openloop", "headers": {"connection": "close"}}, {"headers"}),
    "others have no random arrivals": ({"tool": "vegeta", "rate": 9, "arrivals": "poisson"}, {"arrivals"}),
    "vegeta has no shapes": (
        {"tool": "vegeta", "rate": 9, "shape": {"start_s": 1, "length_s": 2}},
        {"shape"},
    ),
    "h2load takes milliseconds": ({"tool": "h2load", "duration_s": 0.2505}, {"duration_s"}),
    "h2load has one log": ({"tool": "h2load", "extra_args": ("--log-file=x",)}, {"extra_args"}),
    "h2load shares out its requests": ({"tool": "h2load", "duration_s": None, "request_count": 3}, {"request_count"}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_values_are_refused_by_field(case: str) -> None:
    fields, refused = REFUSED[case]
    load = _load(**fields)
    tool = get_tool(load.tool)
    assert {unsupported.field for unsupported in tool.unsupported_fields(load)} == refused
    with pytest.raises(InputError) as error:
        tool.command(load, TARGET)
    assert all(field in str(error.value) for field in refused)


def test_an_unknown_tool_is_refused_naming_all_tools() -> None:
    with pytest.raises(
        InputError, match=r"no load tool is called 'jmeter': .*wrk, ab, hey, siege, vegeta, h2load, openloop"
    ):
        get_tool("jmeter")
