"""Protocols of services: what each backend speaks, and how nginx and the servers are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from benchkit.errors import UnsupportedError
from benchkit.scenario.read import read_experiment
from benchkit.services.placement import HostProgram, ServicePlacement
from benchkit.services.rendering import ServiceSpec, render_services
from benchkit.services.service import Service
from tests.support.services import placements
from tests.support.services.placements import config_text

PLACE = replace(
    placements.PLACE,
    cpus=(0,),
    programs={
        "node": placements.NODE,
        "nginx": placements.NGINX,
        "caddy": HostProgram("/usr/bin/caddy", (2, 11)),
    },
)
NGINX_1_25 = {"nginx": HostProgram("/opt/nginx", (1, 25, 1), "nginx version: nginx/1.25.1")}


def render(tmp_path: Path, entry: str, more: str = "", place: ServicePlacement = PLACE) -> tuple[Service, ...]:
    """Return the services of a stack: `app`, which is the entry, and `back`."""
    path = tmp_path / "one.yaml"
    path.write_text(
        f"name: one\ntitle: t\nquestion: q\nstacks:\n  it:\n    entry: app\n    services:\n      app: {{{entry}}}\n{more}"
        "load: {tool: wrk, connections: 4, duration_s: 1}\nblocks: 2\n"
    )
    services = read_experiment(str(path)).cells[0].services

    def place_of(spec: ServiceSpec) -> ServicePlacement:
        return replace(place, folder=PurePosixPath("/w") / spec.name)

    return render_services(services, place_of)


@pytest.mark.parametrize(
    ("service", "message"),
    [
        ("backend: gnet, listen: 8080, protocol: https1", r"gnet does not speak it \(it speaks: http1\)"),
        ("backend: fasthttp, listen: 8080, protocol: h2", r"fasthttp does not speak it \(it speaks: http1, https1\)"),
        ("backend: nethttp, listen: 8080, protocol: h2, tls: {ciphers: TLS_AES_128_GCM_SHA256}", "suites of TLS 1.3"),
        ("backend: nethttp, listen: 8080, protocol: h3, tls: {version: '1.2'}", r"QUIC includes TLS 1\.3"),
        ("backend: nethttp, listen: unix, protocol: h3", "needs a UDP port"),
        ("backend: node, listen: 8080, protocol: h3", "node does not speak it"),
    ],
)
def test_what_a_backend_cannot_speak_is_unsupported(tmp_path: Path, service: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        render(tmp_path, service)


def test_servers_are_told_their_protocol_and_certificate(tmp_path: Path) -> None:
    tls = "tls: {version: '1.2', ciphers: ECDHE-ECDSA-AES128-GCM-SHA256, resumption: false}"
    for backend in ("nethttp", "node"):
        (service,) = render(tmp_path, f"backend: {backend}, listen: 8443, protocol: h2, {tls}")
        argv = service.process.argv
        start = argv.index("-protocol")
        assert argv[start : start + 11] == (
            *("-protocol", "h2", "-tls-certificate", "/w/app/tls/certificate.pem", "-tls-key", "/w/app/tls/key.pem"),
            *("-tls-version", "1.2", "-tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256", "-tls-resumption=false"),
        )
        assert [file.path.name for file in service.files[-3:]] == ["certificate.pem", "key.pem", "ca.pem"]
        (plain,) = render(tmp_path, f"backend: {backend}, listen: 8080")
        assert not [argument for argument in plain.process.argv if "tls" in argument or "protocol" in argument]


def test_nginx_speaks_tls_and_http2_in_the_syntax_of_its_version(tmp_path: Path) -> None:
    text = "backend: nginx, file_bytes: 10, listen: 8443, protocol: h2"
    (service,) = render(tmp_path, text)
    assert (
        "        listen 10.0.0.1:8443 ssl http2;\n        server_name _;\n        ssl_certificate tls/certificate.pem;\n"
        in config_text(service)
    )
    for line in (
        "ssl_certificate_key tls/key.pem;",
        "ssl_protocols TLSv1.3;",
        "ssl_session_tickets on;",
        "access_log tls/resumed.log line buffer=1k flush=10ms if=$is_resumed_handshake;",
    ):
        assert f"        {line}\n" in config_text(service)
    assert service.admin is not None
    assert dict(service.admin.handshake_logs) == {
        "full": PurePosixPath("/w/app/tls/full.log"),
        "resumed": PurePosixPath("/w/app/tls/resumed.log"),
    }
    assert set(service.fresh_files) == set(service.admin.handshake_logs.values())
    (newer,) = render(tmp_path, text, place=replace(PLACE, programs=NGINX_1_25))
    assert "        listen 10.0.0.1:8443 ssl;\n        server_name _;\n        http2 on;\n" in config_text(newer)
    quic = "backend: nginx, file_bytes: 10, listen: 8443, protocol: h3, workers: %d"
    for workers, listen in ((1, "8443 quic;"), (2, "8443 quic reuseport;")):
        (h3,) = render(tmp_path, quic % workers, place=replace(PLACE, programs=NGINX_1_25))
        assert f"        listen 10.0.0.1:{listen}\n" in config_text(h3)
        assert h3.config_tests[0].is_optional  # a binary without http_v3_module is found by it
    (h2c,) = render(tmp_path, "backend: nginx, file_bytes: 10, listen: 8080, protocol: h2c")
    assert "listen 10.0.0.1:8080 http2;" in config_text(h2c)
    assert "ssl" not in config_text(h2c)
    for version, line in (("1.3", "ssl_conf_command Ciphersuites A;"), ("1.2", "ssl_ciphers A;")):
        tls = f"protocol: https1, tls: {{version: '{version}', ciphers: A, resumption: false}}"
        (service,) = render(tmp_path, f"backend: nginx, file_bytes: 10, listen: 8443, {tls}")
        assert line in config_text(service)
        assert "ssl_session_tickets off;\n        ssl_session_cache off;" in config_text(service)


def test_nginx_verifies_an_upstream_over_tls_and_speaks_no_http2_to_it(tmp_path: Path) -> None:
    front = "backend: nginx, upstream: back, listen: 8080"
    back = "      back: {backend: nethttp, listen: 9000, protocol: %s, tls: {version: '1.2'}}\n"
    service, _ = render(tmp_path, front, back % "https1")
    assert (
        "proxy_pass https://backend;\n            proxy_ssl_trusted_certificate tls/upstream-ca.pem;\n"
        in config_text(service)
    )
    assert (
        "proxy_ssl_verify on;\n            proxy_ssl_name sut;\n            proxy_ssl_protocols TLSv1.2;"
        in config_text(service)
    )
    assert PurePosixPath("/w/app/tls/upstream-ca.pem") in [file.path for file in service.files]
    with pytest.raises(UnsupportedError, match=r"back speaks h2c; nginx is configured here for http1"):
        render(tmp_path, front, back % "h2c")


def test_early_data_is_of_http3_alone(tmp_path: Path) -> None:
    flags = {}
    for protocol in ("h2", "h3"):
        (app,) = render(tmp_path, f"backend: nethttp, listen: 8443, protocol: {protocol}, tls: {{early_data: true}}")
        assert app.process is not None
        flags[protocol] = "-tls-early-data" in app.process.argv
    assert flags == {"h2": False, "h3": True}
    nginx = "backend: nginx, listen: 8443, file_bytes: 12, protocol: h3, tls: {early_data: true}"
    with pytest.raises(UnsupportedError, match=r"tls\.early_data: benchkit does not configure nginx to take it"):
        render(tmp_path, nginx)
