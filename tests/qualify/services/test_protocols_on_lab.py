"""Every server in every protocol that it speaks, in one run: what was negotiated, and the answers of the load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import benchkit
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab
from benchkit.services.certificates import RunAuthority
from tests.bench.real_runs import run_once
from tests.support.builders import load, read_scenario

TRUST = {"certificate": "authority.pem"}
VERIFYING = load(tool="vegeta", rate=100, connections=1, duration_s=0.3)
"""A load of the tool that verifies certificates, in all four protocols."""


def one(**options: object) -> dict[str, Any]:
    """Return a stack of one server."""
    return {"entry": "app", "services": {"app": {"listen": 8443, **options}}}


def behind_nginx(protocol: str, upstream: dict[str, Any]) -> dict[str, Any]:
    """Return a stack of a server behind nginx, which speaks this protocol to clients."""
    front = {"backend": "nginx", "listen": 8443, "upstream": "app", "protocol": protocol}
    return {"entry": "front", "services": {"app": upstream, "front": front}}


def stacks(address: str) -> dict[str, dict[str, Any]]:
    """Return the stacks, whose names begin with the protocol of their entry."""
    own = {"backend": "nethttp", "listen": 8444, "protocol": "h2"}
    there = {"backend": "external", "url": f"https://{address}:8444", "protocol": "h2", "tls": TRUST}
    return {
        "h2c-nethttp": one(backend="nethttp", protocol="h2c"),
        "https1-fasthttp": one(backend="fasthttp", protocol="https1"),
        **{f"{name}-node": one(backend="node", workers=2, protocol=name) for name in ("https1", "h2", "h2c")},
        **{f"{name}-nginx": one(backend="nginx", file_bytes=12, protocol=name) for name in ("h2", "h2c")},
        "h2-fcgi": behind_nginx("h2", {"backend": "fcgi", "listen": "unix"}),
        "https1-upstream": behind_nginx("https1", {"backend": "nethttp", "listen": 8444, "protocol": "https1"}),
        "h2-external": {"entry": "there", "services": {"app": own, "there": there}},
    }


def trials_of(
    hosts: Hosts,
    folder: Path,
    load: dict[str, Any] = VERIFYING,
    **scenario: Any,  # noqa: ANN401 - fields of a scenario
) -> pd.DataFrame:
    """Run a scenario once; return its trials, none of which may have spoken another protocol or have errors."""
    experiment = read_scenario(folder, load=load, blocks=1, **scenario)
    run_id = run_once(folder / "store", experiment, hosts)
    found = benchkit.load("verdicts", store=folder / "store", run_id=run_id)
    texts = found[found["check"].isin(["protocol-mismatch", "errors"])]["text"]
    assert texts.empty, "\n".join(texts)
    trials = benchkit.load("trials", store=folder / "store", run_id=run_id)
    assert len(trials) == len(experiment.cells)
    assert (trials["requests"] > 0).all()
    encrypted = trials["protocol"].isin(["https1", "h2", "h3"])
    assert trials["tls_version"].fillna("none").tolist() == ["1.3" if each else "none" for each in encrypted]
    return trials


def test_servers_speak_the_protocol_that_is_asked_of_them(lab: Lab, tmp_path: Path) -> None:
    with connect_all(lab.inventory()) as hosts:
        address = hosts["sut"].spec.address
        (tmp_path / "authority.pem").write_bytes(RunAuthority().read())
        every = stacks(address)
        trials = trials_of(hosts, tmp_path, stacks=every, factors={"stack": [*every]})
    asked = [stack.partition("-")[0] for stack in trials["factor_stack"]]
    assert trials["protocol"].tolist() == asked


HTTP3 = load(tool="openloop", connections=4, streams=4, duration_s=2)
"""Two seconds: the page of the server's counters is read once in each."""


def test_server_and_tool_count_the_same_requests_over_http3(lab: Lab, tmp_path: Path) -> None:
    stack = {"go": one(backend="nethttp", protocol="h3")}
    with connect_all(lab.inventory()) as hosts:
        run_id = run_once(tmp_path, read_scenario(tmp_path, load=HTTP3, stacks=stack, blocks=1), hosts)
    loaded = {name: benchkit.load(name, store=tmp_path, run_id=run_id) for name in ("trials", "telemetry", "verdicts")}
    (trial,) = loaded["trials"].to_dict("records")
    assert (trial["protocol"], trial["tls_version"], trial["resumed_share"]) == ("h3", "1.3", 0)
    of_server = loaded["telemetry"][loaded["telemetry"]["service"] == "app"].groupby("metric")["value"].max()
    probes = 3  # twice before the load and once in its middle
    assert of_server["requests_total"] == trial["requests"] + probes
    assert of_server["connections_accepted_total"] == HTTP3["connections"] + probes
    assert of_server["tls_handshakes_total"] == HTTP3["connections"] + probes
    by_table = {"protocol-mismatch", "errors", "littles-law", "missing-connections", "overran", "unequal-responses"}
    texts = loaded["verdicts"][loaded["verdicts"]["check"].isin(by_table)]["text"]
    assert texts.empty, "\n".join(texts)


NAMED_SERVER = """
import ssl, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        good = (self.connection.server_hostname, self.headers["Host"]) == ("my.example", "my.example")
        self.send_response(200 if good else 421)
        self.send_header("Content-Length", "2")
        self.send_header("Connection", "keep-alive")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_request(self, *args):
        pass
def note_name(connection, name, context):
    names[connection] = name
class Connection(ssl.SSLSocket):
    server_hostname = property(lambda self: names.get(self), lambda self, name: None)
names = {}
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.minimum_version = ssl.TLSVersion.TLSv1_3
context.sslsocket_class = Connection
context.set_alpn_protocols(["http/1.1"])
context.sni_callback = note_name
context.load_cert_chain(sys.argv[3], sys.argv[4])
server = ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""
"""A server that answers 421 (Misdirected Request) where the handshake or `Host` has another name than its own."""


@pytest.mark.parametrize("tool", ["h2load", "hey", "ab"])
def test_a_server_with_a_name_of_its_own_is_asked_for_by_that_name(lab: Lab, tmp_path: Path, tool: str) -> None:
    tls = {"server_name": "my.example"}
    run = ["python3", "-c", NAMED_SERVER, "{host}", "{port}", "{certificate}", "{certificate_key}"]
    scenario = read_scenario(
        tmp_path,
        stacks={"one": one(backend="command", protocol="https1", tls=tls, run=run)},
        load=load(tool=tool, connections=2, duration_s=1),
        blocks=1,
    )
    with connect_all(lab.inventory()) as hosts:
        run_id = run_once(tmp_path / "store", scenario, hosts)
    (trial,) = benchkit.load("trials", store=tmp_path / "store", run_id=run_id).to_dict("records")
    assert trial["requests"] > 0
    assert not trial["non_2xx"]
    assert (trial["protocol"], trial["tls_version"]) == ("https1", "1.3")
