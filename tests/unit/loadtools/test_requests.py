"""Requests of a load: their forms, how each tool is given them, and what it cannot send."""

from __future__ import annotations

import base64
import json
from pathlib import PurePosixPath
from typing import Any

import pytest

from benchkit.loadtools.generators.execution import PlacedGenerator
from benchkit.loadtools.generators.generator import plan_generators
from benchkit.loadtools.registry import TOOLS
from benchkit.loadtools.tool import Target
from benchkit.loadtools.tools.wrk import REQUESTS
from benchkit.models.load import MAX_CLASSES, Load
from benchkit.models.request import Request, SecretValue, request_cycle
from tests.support.loadtools.fixtures import place

TARGET = Target("10.0.0.2:8080")
ORIGIN = TARGET.origin
PAGE: dict[str, Any] = {"path": "/a", "weight": 2, "headers": {"X-A": 'say "a\\b"'}}
UPLOAD: dict[str, Any] = {"method": "POST", "path": "/b", "body": "k=v"}


def _load(tool: str, *requests: dict[str, Any], **fields: Any) -> Load:  # noqa: ANN401 - any field of a load
    return Load.model_validate({"tool": tool, "connections": 4, "duration_s": 5, "requests": requests, **fields})


def test_headers_of_the_load_go_to_all_requests_which_may_override_them() -> None:
    load = _load("wrk", {"headers": {"x-a": "own"}}, {"path": "/b"}, headers={"X-A": "common", "X-B": "1"})
    assert [dict(request.headers) for request in load.request_mix] == [
        {"X-B": "1", "x-a": "own"},
        {"X-A": "common", "X-B": "1"},
    ]


@pytest.mark.parametrize("headers", [{"Content-Length": "3"}, {"content-length": "3"}])
def test_a_length_follows_from_the_body(headers: dict[str, str]) -> None:
    load = Load.model_validate({"tool": "wrk", "connections": 1, "method": "POST", "body": "k=v", "headers": headers})
    assert [(dict(each.headers), each.content_length) for each in load.request_mix] == [({}, 3)]
    lengths = {
        method: Request.model_validate({"method": method}).content_length for method in ("GET", "POST", "DELETE")
    }
    assert lengths == {"GET": None, "POST": 0, "DELETE": None}


def test_a_stored_load_is_read_again_as_it_was() -> None:
    load = _load("wrk", PAGE, {"path": "/c", "body_file": "big.bin", "expect": {"status": 404}})
    assert Load.model_validate_json(load.model_dump_json()) == load


def test_repetitions_are_spread_evenly() -> None:
    requests = [Request(path=f"/{name}", weight=weight) for name, weight in (("a", 0.5), ("b", 0.3), ("c", 0.2))]
    cycle = request_cycle(requests)
    assert cycle is not None
    assert "".join(request.path[1] for request in cycle) == _smooth((5, 3, 2))


def _smooth(counts: tuple[int, ...]) -> str:
    """Return the order of smooth weighted round-robin, by its definition: the one that lags most comes next."""
    order, total = "", sum(counts)
    for turn in range(1, total + 1):
        lags = [count * turn / total - order.count(name) for name, count in zip("abc", counts, strict=True)]
        order += "abc"[lags.index(max(lags))]
    return order


WRK_SCRIPT = r"""local limits = {0.66666666666666663, 1}
local function formatted(content)
   return {
      wrk.format("GET", "/a", {["X-A"] = "say \"a\\b\"", ["Connection"] = "close"}, nil),
      wrk.format("POST", "/b", {["Connection"] = "close"}, content("body.2")),
   }
end
"""


def test_wrk_is_given_a_script() -> None:
    load = _load("wrk", PAGE, UPLOAD, histogram=False, keepalive=False)
    assert TOOLS["wrk"].command(load, TARGET)[-3:] == ["-s", "benchkit.lua", ORIGIN]
    files = TOOLS["wrk"].files(load, TARGET)
    assert files["benchkit.lua"].decode() == WRK_SCRIPT + REQUESTS.read_text()
    assert files["body.2"] == b"k=v"
    recording = TOOLS["wrk"].files(load.model_copy(update={"histogram": True}), TARGET)["benchkit.lua"]
    assert recording.startswith(files["benchkit.lua"])
    assert b"function done(summary, latency)" in recording


def test_vegeta_is_given_targets() -> None:
    files = TOOLS["vegeta"].files(_load("vegeta", PAGE, UPLOAD), TARGET)
    page, upload = f'GET {ORIGIN}/a\nX-A: say "a\\b"\n', f"POST {ORIGIN}/b\n@body.2\n"
    assert files == {"vegeta.targets": f"{page}\n{upload}\n{page}".encode(), "body.2": b"k=v"}


def test_openloop_is_given_requests_as_they_are_sent() -> None:
    files = TOOLS["openloop"].files(_load("openloop", PAGE, UPLOAD, keepalive=False), TARGET)
    requests = [
        (each["Method"], base64.b64decode(each["Bytes"]).decode()) for each in json.loads(files["openloop.requests"])
    ]
    end = "Connection: close\r\n\r\n"
    page = f'GET /a HTTP/1.1\r\nHost: {TARGET.authority}\r\nX-A: say "a\\b"\r\n{end}'
    upload = f"POST /b HTTP/1.1\r\nHost: {TARGET.authority}\r\nContent-Length: 3\r\n{end}k=v"
    assert requests == [("GET", page), ("POST", upload), ("GET", page)]
    own_host = _load("openloop", {"method": "PUT", "path": "/", "headers": {"host": "a.example"}})
    (only,) = json.loads(TOOLS["openloop"].files(own_host, TARGET)["openloop.requests"])
    assert base64.b64decode(only["Bytes"]) == b"PUT / HTTP/1.1\r\nhost: a.example\r\nContent-Length: 0\r\n\r\n"


def test_openloop_is_given_the_classes_of_requests_and_their_sizes() -> None:
    sized = {"path": "/c", "kind": "page", "expect": {"size": [3, 9]}}
    load = _load("openloop", {"path": "/a", "kind": "page"}, UPLOAD, sized)
    assert load.classes == ("page", "POST /b")
    requests = json.loads(TOOLS["openloop"].files(load, TARGET)["openloop.requests"])
    assert [(each["Class"], each["Size"]) for each in requests] == [(1, None), (2, None), (1, [3, 9])]
    assert _load("openloop", UPLOAD).classes == ()
    assert _load("openloop", sized).classes == ("page",)
    many = [{"path": f"/{number}"} for number in range(MAX_CLASSES + 1)]
    assert _load("openloop", *many).classes == ()
    assert len(_load("openloop", *many[1:]).classes) == MAX_CLASSES


def test_ab_is_given_one_request_whose_content_type_it_does_not_double() -> None:
    load = _load("ab", {**UPLOAD, "method": "PATCH", "headers": {"content-type": "text/csv", "A": "b"}})
    words = ["-p", "body.1", "-m", "PATCH", "-T", "text/csv", "-H", "A: b", f"{ORIGIN}/b"]
    assert TOOLS["ab"].command(load, TARGET)[-len(words) :] == words
    assert TOOLS["ab"].files(load, TARGET) == {"body.1": b"k=v"}


UNCARRIED: dict[str, tuple[Load, str]] = {
    "ab sends one": (_load("ab", PAGE, UPLOAD), "ab sends one request, not 2"),
    "hey sends one": (_load("hey", PAGE, UPLOAD), "hey sends one request, not 2"),
    "siege sends one": (_load("siege", PAGE, UPLOAD), "siege sends one request, not 2"),
    "h2load has one method and body": (
        _load("h2load", {"method": "PUT"}, UPLOAD),
        "h2load sends several requests that differ in their paths alone",
    ),
    "an incomplete list on each connection": (
        _load("h2load", {"path": "/a", "weight": 2}, {"path": "/b"}, duration_s=None, request_count=40),
        "each connection of h2load goes through its list: set duration_s",
    ),
    "siege ends a body at a zero": (
        _load("siege", {**UPLOAD, "body": "a\0b"}),
        "request 1, POST /b: body: siege ends a body at its first zero byte",
    ),
    "too long a list": (
        _load("vegeta", {"path": "/a", "weight": 0.9999}, {"path": "/b", "weight": 0.0001}),
        "vegeta has no weights, and a list that repeats requests by weight has more than 1000 items",
    ),
}


@pytest.mark.parametrize("case", UNCARRIED)
def test_what_a_tool_cannot_send_is_an_unsupported_field_of_the_requests(case: str) -> None:
    load, why = UNCARRIED[case]
    unsupported_fields = TOOLS[load.tool].unsupported_fields(load)
    assert "; ".join(unsupported.why for unsupported in unsupported_fields) == why
    assert {unsupported.field for unsupported in unsupported_fields} == {"requests"}
    assert all(unsupported.concerns_requests for unsupported in unsupported_fields)


VALUE = 'Bearer 1f7e "very" \\secret'
IN_ARGUMENTS = frozenset({"ab", "hey", "h2load", "siege", "oha", "bombardier"})
"""Tools that take headers as arguments alone."""


@pytest.mark.parametrize(
    ("tool", "histogram"), [*((tool, True) for tool in TOOLS), *((tool, False) for tool in TOOLS if tool != "vegeta")]
)
def test_secret_headers_are_in_private_files_where_a_tool_reads_headers_from_one(tool: str, *, histogram: bool) -> None:
    headers = {"Authorization": SecretValue(env="TOKEN").with_value(VALUE)}
    load = Load.model_validate(
        {"tool": tool, "connections": 1, "duration_s": 1, "headers": headers, "histogram": histogram}
    )
    (generator,) = plan_generators(load, TARGET, [place("load")])
    assert VALUE not in repr((generator, generator.argv))
    assert any(VALUE in argument for argument in generator.command) == (tool in IN_ARGUMENTS)
    assert any("{env: TOKEN}" in argument for argument in generator.argv) == (tool in IN_ARGUMENTS)
    placed = PlacedGenerator(generator, PurePosixPath("/w"), PurePosixPath("/w/rows"))
    modes = {PurePosixPath(file.path).name: file.mode for file in placed.input_files()}
    private = {name for name, mode in modes.items() if mode == 0o600}
    assert bool(private) == (tool not in IN_ARGUMENTS)
    assert generator.as_warm_up().secret_files == private
