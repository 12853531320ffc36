"""Access logs in the formats of servers and browsers, and lists of targets."""

from __future__ import annotations

import gzip
import json

import pytest

from benchkit.errors import InputError
from benchkit.plugins.traffic.logs import LoggedRequest, read_log
from tests.support.paths import TESTS

AT_S = 1_770_000_000.0
LOCAL_TIME = "02/Feb/2026:02:40:00 +0000"
COMBINED = f'192.0.2.7 - - [{LOCAL_TIME}] "GET /items/7?page=2 HTTP/1.1" 200 512 "https://a.example/" "curl/8"'
EXPECTED = LoggedRequest(
    "GET", "/items/7?page=2", AT_S, 200, 512, headers={"Referer": "https://a.example/", "User-Agent": "curl/8"}
)
CADDY = {
    "ts": AT_S + 0.25,
    "request": {"method": "PUT", "uri": "/a", "headers": {"Accept": ["text/html"], "Cookie": ["sid=1"]}},
    "bytes_read": 34,
    "status": 204,
    "size": 0,
}
HAR = {
    "log": {
        "entries": [
            {
                "startedDateTime": "2026-02-02T02:40:00.500Z",
                "request": {
                    "method": "POST",
                    "url": "https://a.example/cart?x=1",
                    "bodySize": 17,
                    "headers": [{"name": "Accept", "value": "*/*"}],
                },
                "response": {"status": 201, "content": {"size": 90}, "bodySize": 2},
            }
        ]
    }
}


@pytest.mark.parametrize(
    "data", [COMBINED.encode(), gzip.compress(f"{COMBINED}\n".encode(), mtime=0), f"{COMBINED}\r\n".encode()]
)
def test_the_combined_format_is_read_without_being_named(data: bytes) -> None:
    log = read_log(data)
    assert (log.form, log.requests, log.unread, log.is_in_whole_seconds) == ("combined", [EXPECTED], 0, True)


@pytest.mark.parametrize(
    ("form", "line", "expected"),
    [
        (
            r'\S+ \[(?P<time>[^\]]+)\] (?P<method>\S+) (?P<target>\S+) (?P<status>\d+) "(?P<accept_language>[^"]*)"',
            '192.0.2.7 [2026-02-02T02:40:00+00:00] POST /a 201 "de, en"',
            LoggedRequest("POST", "/a", AT_S, 201, headers={"Accept-Language": "de, en"}),
        ),
        ("common", f'192.0.2.7 - bob [{LOCAL_TIME}] "HEAD / HTTP/1.1" 200 -', LoggedRequest("HEAD", "/", AT_S, 200)),
        (
            r"(?P<time>[^|]+)\|(?P<request>[^|]+)\|(?P<status>\d+)",
            f"{AT_S:.3f}|GET /a HTTP/2.0|200",
            LoggedRequest("GET", "/a", AT_S, 200),
        ),
    ],
)
def test_a_format_is_a_name_or_a_regular_expression(form: str, line: str, expected: LoggedRequest) -> None:
    assert read_log(line.encode(), form).requests == [expected]


def test_a_target_with_a_quote_is_no_request() -> None:
    with pytest.raises(InputError, match="no line of 1 has a request"):
        read_log(COMBINED.replace("/items", '/\\"items').encode())


def test_lines_of_json_are_read_by_common_names() -> None:
    lines = [
        {"time": "2026-02-02T02:40:00Z", "request": "GET /a HTTP/1.1", "status": "200", "body_bytes_sent": 3},
        {"timestamp": AT_S, "http_method": "GET", "path": "/b", "status_code": 404},
    ]
    log = read_log("\n".join(map(json.dumps, lines)).encode())
    assert log.requests == [LoggedRequest("GET", "/a", AT_S, 200, 3), LoggedRequest("GET", "/b", AT_S, 404)]


def test_caddy_and_har_state_headers_and_sizes_of_bodies() -> None:
    of_caddy = read_log(json.dumps(CADDY).encode())
    headers = {"Accept": "text/html", "Cookie": "sid=1"}
    assert of_caddy.requests == [LoggedRequest("PUT", "/a", AT_S + 0.25, 204, 0, 34, headers)]
    assert (of_caddy.form, of_caddy.is_in_whole_seconds) == ("Caddy", False)
    of_har = read_log(json.dumps(HAR, indent=1).encode())
    assert of_har.requests == [LoggedRequest("POST", "/cart?x=1", AT_S + 0.5, 201, 2, 17, {"Accept": "*/*"})]
    assert of_har.form == "HAR"


@pytest.mark.parametrize(
    ("data", "form", "why"),
    [
        (b"", None, "the log is empty"),
        (b"hello\n", None, "no line of 1 has a request in the format 'combined'"),
        (b"hello\n", "(?P<status>.*)", "has no request"),
        (b"hello\n", "(", "not a regular expression"),
        (gzip.compress(COMBINED.encode(), mtime=0)[:-12], None, "damaged"),
        (b"{" * 100_000, None, "no line of 1 has a request"),
    ],
)
def test_what_is_no_log_is_refused(data: bytes, form: str | None, why: str) -> None:
    with pytest.raises(InputError, match=why.replace("'", ".")):
        read_log(data, form)


@pytest.mark.parametrize(
    ("name", "form", "requests", "unread", "note"),
    [
        ("har-third-parties", "HAR", ["GET / 200 100 0", "GET /app.js 200 100 0"], 0, "to 3 other hosts"),
        ("log-compose-prefix", "combined", ["GET /a 200 512 None", "GET /b 200 512 None"], 1, None),
        ("log-envoy-text", "envoy", ["GET /a 200 512 0", "POST /b 204 0 154"], 0, None),
        ("log-haproxy", "haproxy", ["GET /a?x=1 200 None None", "POST /b 200 None None"], 0, None),
        ("log-iis-w3c", "W3C extended log", ["GET /a.aspx?id=1 200 None None", "POST /b.aspx 302 None None"], 0, None),
        (
            "log-request-length",
            "JSON lines",
            ["GET /a?x=1 200 512 None", "POST /b 201 12 None"],
            0,
            "with their headers",
        ),
        ("log-traefik-json", "JSON lines", ["GET /a?x=1 200 512 None", "GET /b 404 64 None"], 0, None),
        ("log-vhost-combined", "vhost_combined", ["GET /a 200 None None", "GET /b 200 None None"], 0, "to 2 hosts"),
        ("urls-of-targets", "list of targets", ["GET /a?x=1 None None None", "POST /b None None None"], 0, "body.json"),
    ],
)
def test_logs_of_public_threads(name: str, form: str, requests: list[str], unread: int, note: str | None) -> None:
    log = read_log((TESTS / "fixtures" / "field" / f"{name}.txt").read_bytes())
    shown = [
        f"{each.method} {each.target} {each.status} {each.response_bytes} {each.request_bytes}" for each in log.requests
    ]
    assert (log.form, shown, log.unread) == (form, requests, unread)
    notes = list(log.all_notes())
    assert notes == [] if note is None else note in notes[0]


def test_requests_to_one_host_are_taken() -> None:
    log = read_log((TESTS / "fixtures" / "field" / "log-vhost-combined.txt").read_bytes(), host="api.shop.test")
    assert [each.target for each in log.requests] == ["/b"]
    assert list(log.all_notes()) == ["omitted, to 1 other host (www.shop.test): 1"]
