"""The load tools over HTTP/3, against the Go server on loopback, whose page tells what arrived."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
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
from benchkit.services.go_build import build
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
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http3Server]:
    """A server whose certificate is valid for its address."""
    folder = tmp_path_factory.mktemp("h3")
    paths = {part: folder / f"{part}.pem" for part in ("certificate", "key")}
    for part, path in paths.items():
        path.write_bytes(RunCertificate("localhost", "127.0.0.1", "ecdsa-p256", part).read())  # type: ignore[arg-type]
    program = build(BACKENDS / "nethttp" / "h3", goos=sys.platform, goarch=GOARCH).path
    argv = [str(program), "-protocol", "h3", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0"]
    argv += ["-tls-certificate", str(paths["certificate"]), "-tls-key", str(paths["key"])]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        addresses: dict[str, str] = {}
        while len(addresses) < 2:
            name, found, address = process.stderr.readline().strip().partition(" on ")
            if found:
                addresses[name] = address
        yield Http3Server(addresses["listening"], addresses["admin"])
        process.terminate()


@pytest.mark.parametrize("streams", [1, 8])
@pytest.mark.parametrize("tool", HTTP3)
def test_server_and_tool_count_the_same_requests(tool: str, streams: int, server: Http3Server, tmp_path: Path) -> None:
    before = server.counts()
    load = Load(tool=tool, connections=3, streams=streams, duration_s=1)
    result = run_generator(load, Target(server.authority, "h3", TlsOptions()), tmp_path).result
    counted = {name: number - before[name] for name, number in server.counts().items()}
    assert counted == {"requests": result.requests, "handshakes": 3, "connections": 3}
    assert (result.complete, result.failed, result.non_2xx) == (True, 0, 0)
    assert result.duration_s == pytest.approx(1, abs=0.05)
    assert result.requests
    assert result.duration_s
    assert result.rps == pytest.approx(result.requests / result.duration_s)
    assert result.rps is not None
    assert result.latency.mean_s is not None
    in_flight = result.rps * result.latency.mean_s  # by Little's law, less a part of the time for opening connections
    assert 0.6 * load.in_flight < in_flight < 1.1 * load.in_flight
