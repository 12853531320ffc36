"""The real load tools over TLS and HTTP/2, against nginx on loopback, whose log tells what arrived."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchkit.loadtools.registry import TOOLS
from benchkit.models.load import Load
from benchkit.models.protocol import HttpProtocol, TlsOptions, is_http2, is_tls
from benchkit.services.certificates import RunCertificate
from tests.support.loadtools.fixtures import PERCENTILES_ONLY, run_generator
from tests.support.loadtools.tls_server import LISTEN, TlsServer, tls_server

SINGLE_HTTP2 = {"hey", "vegeta", "bombardier"}
"""Tools whose requests share one connection of HTTP/2."""
WAITING = {"oha", "k6", "bombardier"}
"""Tools that wait for the answers to their last requests: they state as many as the server counts."""
NAMES: dict[HttpProtocol, str] = {"http1": "HTTP/1.1", "https1": "HTTP/1.1", "h2": "HTTP/2.0", "h2c": "HTTP/2.0"}


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    """A server whose TLS sessions can be resumed."""
    with tls_server(tmp_path_factory.mktemp("nginx"), TlsOptions(key="rsa-2048")) as server:
        yield server


def _load(tool: str, protocol: HttpProtocol, **more: Any) -> Load:  # noqa: ANN401 - any field of a load
    """Return a small load: for a count of requests where the tool can, on several connections where it can."""
    amount: dict[str, Any] = {"request_count": 120, "duration_s": None}
    if "request_count" not in TOOLS[tool].options:
        amount = {"duration_s": 1}
    if tool == "openloop":
        amount["rate"] = 400
    single = is_http2(protocol) and tool in SINGLE_HTTP2
    streams = 4 if is_http2(protocol) and tool != "k6" else 1
    return Load.model_validate({"tool": tool, "connections": 1 if single else 3, "streams": streams, **amount, **more})


@pytest.mark.parametrize(
    ("tool", "protocol"),
    [
        (name, each)
        for name, tool in TOOLS.items()
        for each in sorted(tool.protocols)
        if each in LISTEN.keys() - {"http1"}
    ],
)
def test_a_load_reaches_the_server_in_the_protocol_and_is_measured(
    tool: str, protocol: HttpProtocol, nginx: TlsServer, tmp_path: Path
) -> None:
    before = len(nginx.log(protocol))
    load = _load(tool, protocol)
    output = run_generator(load, nginx.target(protocol), tmp_path)
    result, measured, requests = output.result, output.measurement, nginx.log(protocol)[before:]
    assert result.complete, result
    assert (measured is None) == (tool in PERCENTILES_ONLY)
    assert not result.failed
    assert not result.non_2xx
    assert result.requests
    if measured is not None:
        assert measured.complete
        assert measured.histograms["raw"].total == result.requests
    unanswered = 0 if tool in WAITING else load.in_flight  # at the end
    assert result.requests <= len(requests) <= result.requests + unanswered
    assert {each.protocol for each in requests} == {"HTTP/1.0" if tool == "ab" else NAMES[protocol]}
    # A worker of hey (Go's http.Transport) opens a connection, and takes another's where that is free first.
    most = 2 * load.connections if tool == "hey" else load.connections
    assert load.connections <= len({each.connection for each in requests}) <= most
    tls_versions, ciphers = ({getattr(each, name) for each in requests} for name in ("tls_version", "cipher"))
    assert tls_versions == {"TLSv1.3" if is_tls(protocol) else "-"}
    assert len(ciphers) == 1
    if tool in {"ab", "h2load", "openloop"}:
        stated = result.negotiated
        assert stated is not None
        assert (stated.protocol, stated.tls_version) == (protocol, "1.3" if is_tls(protocol) else None)
        assert (stated.cipher or "-") in ciphers
        assert stated.key == ("rsa-2048" if tool == "ab" else None)


@pytest.mark.parametrize("tool", [name for name, tool in TOOLS.items() if tool.tls and name != "h2load"])
def test_new_connections_resume_sessions_with_the_tools_that_do(tool: str, nginx: TlsServer, tmp_path: Path) -> None:
    """Compare the handshakes of a server that lets clients resume with what the tool states of itself."""
    before = len(nginx.log("https1"))
    load, target, tls = _load(tool, "https1", keepalive=False), nginx.target("https1"), TOOLS[tool].tls
    assert tls is not None
    target = replace(target, tls=TlsOptions(resumption=tls.resumes))  # the server issues tickets in any case
    assert run_generator(load, target, tmp_path).result.requests
    requests = nginx.log("https1")[before:]
    assert len({each.connection for each in requests}) == len(requests) > 3 * load.connections
    resumed = sum(each.resumed for each in requests)
    assert resumed == (len(requests) - load.connections if tls.resumes else 0)


@pytest.mark.parametrize("tool", [name for name, tool in TOOLS.items() if tool.tls])
def test_only_tools_that_verify_refuse_a_certificate_of_an_unknown_authority(
    tool: str, nginx: TlsServer, tmp_path: Path
) -> None:
    before = len(nginx.log("https1"))
    other = tmp_path / "other.pem"
    other.write_bytes(RunCertificate("elsewhere", None, "ecdsa-p256", "certificate").read())
    target = replace(nginx.target("https1"), tls=TlsOptions(certificate=str(other)))
    result = run_generator(_load(tool, "https1"), target, tmp_path).result
    tls = TOOLS[tool].tls
    assert tls is not None
    requests = nginx.log("https1")[before:]
    assert bool(requests) == (not tls.verifies)
    if tls.verifies:
        assert result.errors.other == result.failed


def test_h2load_takes_no_other_protocol_than_the_one_asked_for(nginx: TlsServer, tmp_path: Path) -> None:
    wrong = replace(nginx.target("h2"), authority=nginx.target("https1").authority)
    result = run_generator(_load("h2load", "h2"), wrong, tmp_path).result
    assert (result.failed, result.rps, result.negotiated) == (120, 0, None)


def test_h2load_has_that_many_streams_in_flight_on_each_connection(nginx: TlsServer, tmp_path: Path) -> None:
    """Expect the mean number in flight of Little's law, less a part of the time for opening connections."""
    load = _load("h2load", "h2", streams=16, connections=2, request_count=None, duration_s=3)
    output = run_generator(load, nginx.target("h2"), tmp_path)
    result, measured = output.result, output.measurement
    assert result.rps is not None
    assert result.latency.mean_s is not None
    assert 16 < result.rps * result.latency.mean_s < 40
    assert measured is not None
    assert result.requests is not None
    assert 0 <= measured.histograms["raw"].total - result.requests <= load.in_flight  # those that end with the run
