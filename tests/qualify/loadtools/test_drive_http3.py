"""The load tools over HTTP/3, against the Go server on loopback, whose page tells what arrived."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchkit.files import BACKENDS
from benchkit.loadtools.registry import TOOLS
from benchkit.loadtools.tool import Target
from benchkit.models.load import Load
from benchkit.models.protocol import TlsOptions
from benchkit.services.certificates import RunCertificate
from benchkit.services.go_build import GoSource
from tests.support.loadtools.fixtures import GOARCH, run_generator

HTTP3 = [name for name, tool in TOOLS.items() if "h3" in tool.protocols]


@dataclass(frozen=True)
class Http3Server:
    """The Go server, by its two addresses."""

    authority: str
    admin: str

    def counts(self) -> dict[str, int]:
        """Return the requests, the handshakes and the connections that it has counted."""
        with urllib.request.urlopen(f"http://{self.admin}/debug/vars") as page:
            found: dict[str, Any] = json.load(page)
        return {
            "requests": found["requests"],
            "handshakes": found["tls"]["handshakes"],
            "connections": found["connections"]["accepted"],
            "resumed": found["tls"]["resumed"],
        }

    def increase(self, before: Mapping[str, int]) -> dict[str, int]:
        """Return what it has counted since."""
        return {name: number - before[name] for name, number in self.counts().items()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http3Server]:
    """A server whose certificate is valid for its address."""
    folder = tmp_path_factory.mktemp("h3")
    paths = {part: folder / f"{part}.pem" for part in ("certificate", "key")}
    for part, path in paths.items():
        path.write_bytes(RunCertificate("localhost", "127.0.0.1", "ecdsa-p256", part).read())  # type: ignore[arg-type]
    program = GoSource(BACKENDS / "nethttp" / "h3", sys.platform, GOARCH).read()
    argv = [str(program), "-protocol", "h3", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0"]
    argv += ["-tls-certificate", str(paths["certificate"]), "-tls-key", str(paths["key"]), "-tls-early-data"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        addresses: dict[str, str] = {}
        while len(addresses) < 2:
            name, found, address = process.stderr.readline().strip().partition(" on ")
            if found:
                addresses[name] = address
        yield Http3Server(addresses["listening"], addresses["admin"])
        process.terminate()


def skip_without_http3(tool: str) -> None:
    """Skip the test where h2load is built without ngtcp2: it then warns of an option of QUIC."""
    if tool == "h2load" and shutil.which("h2load"):
        argv = ["h2load", "--npn-list=h3", "--qlog-file-base=/dev/null", "-n1", "-T1", "-N1", "https://127.0.0.1:1/"]
        if (
            "only effective in quic"
            in subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30).stderr
        ):
            pytest.skip("h2load is built without ngtcp2")


OPEN_AT_THE_END = {"h2load": 1}
"""Requests per stream that a tool may leave open at the end of its time: answered, but counted by the server alone."""


@pytest.mark.parametrize("streams", [1, 8])
@pytest.mark.parametrize("tool", HTTP3)
def test_server_and_tool_count_the_same_requests(tool: str, streams: int, server: Http3Server, tmp_path: Path) -> None:
    skip_without_http3(tool)
    before = server.counts()
    load = Load(tool=tool, connections=3, streams=streams, duration_s=3)  # opening connections is a small part
    began_s = time.monotonic()
    result = run_generator(load, Target(server.authority, "h3", TlsOptions()), tmp_path).result
    took_s = time.monotonic() - began_s
    counted = server.increase(before)
    assert 0 <= counted.pop("requests") - (result.requests or 0) <= OPEN_AT_THE_END.get(tool, 0) * load.in_flight
    assert counted == {"handshakes": 3, "connections": 3, "resumed": 0}
    assert (result.complete, result.failed, result.non_2xx) == (True, 0, 0)
    assert result.requests
    assert result.duration_s
    assert 2.95 < result.duration_s < took_s, "to the last answer, which a busy machine delays"
    assert result.rps == pytest.approx(result.requests / result.duration_s)
    assert result.rps is not None
    assert result.latency.mean_s is not None
    in_flight = result.rps * result.latency.mean_s  # by Little's law, less a part of the time for opening connections
    assert 0.3 * load.in_flight < in_flight < 1.1 * load.in_flight


def test_openloop_holds_a_rate_and_states_when_it_sent(server: Http3Server, tmp_path: Path) -> None:
    load = Load(tool="openloop", connections=2, streams=4, rate=200, duration_s=1.5, arrivals="poisson")
    began_s = time.monotonic()
    output = run_generator(load, Target(server.authority, "h3", TlsOptions()), tmp_path)
    assert output.result.requests == 300
    assert output.result.duration_s is not None
    assert 1.2 < output.result.duration_s < time.monotonic() - began_s, "1.5 s by its rate, and to the last answer"
    assert output.result.negotiated is not None
    assert (output.result.negotiated.protocol, output.result.negotiated.tls_version) == ("h3", "1.3")
    assert output.measurement is not None
    assert output.measurement.histograms["raw"].total == 300
    assert output.measurement.lag is not None
    assert output.measurement.lag.total == 300


@pytest.mark.parametrize(
    ("tls", "resumed"),
    [(TlsOptions(resumption=False), 0), (TlsOptions(), 38), (TlsOptions(early_data=True), 38)],
    ids=["full", "resumed", "early"],
)
def test_openloop_opens_a_connection_for_each_request(
    tls: TlsOptions, resumed: int, server: Http3Server, tmp_path: Path
) -> None:
    before = server.counts()
    load = Load(tool="openloop", connections=2, keepalive=False, rate=40, duration_s=1)
    result = run_generator(load, Target(server.authority, "h3", tls), tmp_path).result
    assert server.increase(before) == {"requests": 40, "handshakes": 40, "connections": 40, "resumed": resumed}
    notes = [note.message for note in result.notes]
    assert notes == (["38 of 40 handshakes had early data"] if tls.early_data else [])
