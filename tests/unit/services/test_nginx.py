"""nginx for each purpose: the rendered configuration, its check by nginx, and invalid options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from benchkit.document import parse_document
from benchkit.errors import FieldError, InputError, UnsupportedError
from benchkit.models.protocol import Protocol
from benchkit.services.backend import RenderRequest
from benchkit.services.nginx import NGINX, parse_version_output
from benchkit.services.placement import Endpoint, HostProgram, ServicePlacement
from benchkit.services.service import Service
from tests.support.services import placements
from tests.support.services.placements import config_text

PLACE = replace(
    placements.PLACE,
    address="127.0.0.1",
    cpus=(1, 3),
    folder=PurePosixPath("/w/front"),
    user="root",
    root=True,
    programs={"nginx": placements.NGINX},
)


def render(
    fields: str, *, place: ServicePlacement = PLACE, protocol: Protocol = "http1", unix: bool = False
) -> Service:
    document = parse_document(f"backend: nginx\nlisten: 18080\n{fields}", "scenario.yaml")
    options = NGINX.resolve(document.validated(NGINX.options), document.source)
    app = (
        Endpoint("sut", protocol, path=PurePosixPath("/w/app/app.sock"))
        if unix
        else Endpoint("sut", protocol, "127.0.0.1", 9001)
    )
    return NGINX.render(
        RenderRequest("front", options, place, Endpoint("sut", "http1", "127.0.0.1", 18080), {"app": app})
    )


def place_with_nginx(program: str) -> ServicePlacement:
    """Return the place with an nginx that prints this version."""
    return replace(PLACE, programs={"nginx": HostProgram("/opt/nginx", (), program)})


def test_fastcgi_has_the_standard_parameters_and_a_connection_pool() -> None:
    config = config_text(render("upstream: app", protocol="fastcgi", unix=True))
    assert "server unix:../app/app.sock;\n        keepalive 300;" in config
    assert "fastcgi_pass backend;\n            fastcgi_keep_conn on;" in config
    assert config.count("fastcgi_param ") == 19
    stock = Path("/etc/nginx/fastcgi_params")
    if stock.is_file():
        names = {line.split()[1] for line in stock.read_text().splitlines() if line.startswith("fastcgi_param")}
        newer = {"REMOTE_USER", "HTTP_HOST"}  # added after the study, and by Debian
        assert names - newer == {line.split()[1] for line in config.splitlines() if "fastcgi_param " in line}
    assert "fastcgi_keep_conn off;" in config_text(render("upstream: app\nupstream_keepalive: 0", protocol="fastcgi"))


def test_a_version_to_build_needs_a_clone_and_has_no_tls() -> None:
    with pytest.raises(UnsupportedError, match=r"no clone of nginx at .*/no-nginx") as error:
        render("status: true\noptional: true\nsource: {git: no-nginx, ref: release-1.29.7}")
    assert str(error.value.hint).startswith("git clone https://github.com/nginx/nginx /")
    with pytest.raises(InputError, match="neither TLS"):
        render("status: true\nprotocol: https1\nsource: {ref: release-1.29.7}")


def test_workers_have_the_host_s_account_for_servers_where_root_starts_nginx() -> None:
    accounts = {("www-data", "www-data"): "user www-data www-data;", None: "user root;"}
    for account, line in accounts.items():
        assert line in config_text(render("status: true", place=replace(PLACE, service_account=account)))
    assert "user " not in config_text(render("status: true", place=replace(PLACE, root=False)))


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("multi_accept: false", "multi_accept off;"),
        ("accept_mutex: false", "accept_mutex off;"),
        ("workers: 3", "worker_processes 3;"),
        ("keepalive_requests: 5", "keepalive_requests 5;"),
        ("worker_connections: 20000", "worker_connections 20000;"),
        ("backlog: 65535", "listen 127.0.0.1:18080 backlog=65535;"),
        ("backlog: 65535\nreuseport: true", "listen 127.0.0.1:18080 backlog=65535 reuseport;"),
    ],
)
def test_options_become_directives(field: str, line: str) -> None:
    assert line in config_text(render(f"status: true\n{field}"))
    assert line not in config_text(render("status: true"))


def test_an_optional_nginx_that_a_host_lacks_is_unsupported_and_no_program_that_it_must_have() -> None:
    with pytest.raises(UnsupportedError, match="sut has no tengine"):
        render("status: true\nbinary: tengine\noptional: true")
    fields = "backend: nginx\nlisten: 1\nstatus: true\noptional: true"
    assert NGINX.programs(parse_document(fields, "s.yaml").validated(NGINX.options)) == ()
    assert render("lua_bytes: 7\noptional: true").config_tests[0].is_optional
    assert not render("status: true").config_tests[0].is_optional


def test_virtual_hosts_have_upstreams_of_their_own_and_several_upstreams_take_turns() -> None:
    config = config_text(render("upstream: [app, app]\nvirtual_hosts: {two.example: app}\nbacklog: 99"))
    first = "    upstream backend {\n        server 127.0.0.1:9001;\n        server 127.0.0.1:9001;\n        keepalive 300;\n    }"
    assert first in config
    assert "    upstream backend_2 {\n        server 127.0.0.1:9001;\n        keepalive 300;\n    }" in config
    assert config.count("listen 127.0.0.1:18080") == 2
    assert config.count("backlog=99") == 1  # nginx rejects options of a socket that are given twice
    assert config.index("server_name _;") < config.index("server_name two.example;")
    assert config.count("proxy_pass http://backend;") == config.count("proxy_pass http://backend_2;") == 1


def test_requests_below_a_path_go_to_a_service_of_their_own() -> None:
    config = config_text(
        render("upstream: app\npaths: {/users: app, /orders/new: app}\nvirtual_hosts: {two.example: app}")
    )
    for number, path in enumerate(("/users", "/orders/new"), 1):
        assert config.count(f"    upstream path_{number} {{\n        server 127.0.0.1:9001;") == 1
        assert config.count(f"location {path} {{\n            proxy_pass http://path_{number};") == 2  # in both hosts
    assert config.count("server_name") == 2
    with pytest.raises(FieldError, match=r"passed on only over HTTP/1\.1"):
        render("upstream: app\npaths: {/users: app}", protocol="fastcgi")


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("nginx version: nginx/1.22.1\n", (1, 22, 1)),
        ("Tengine version: Tengine/2.1.0 (nginx/1.6.2)\n", (1, 6, 2)),
        ("Tengine version: Tengine/2.3.2\nnginx version: nginx/1.17.3\n", (1, 17, 3)),
        ("nginx version: openresty/1.27.1.1\n", (1, 27, 1)),
        ("Angie version: Angie/1.12.1\nnginx version: nginx/1.31.2\n", (1, 31, 2)),
        ("Python 3.13.1\n", None),
    ],
)
def test_the_version_of_a_fork_is_that_of_its_core(output: str, expected: tuple[int, ...] | None) -> None:
    assert parse_version_output(output) == expected
