"""nginx in each of its purposes: what is rendered, what nginx itself says of it, and what bad input gets."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from benchkit.document import parse_document
from benchkit.errors import FieldError, InputError, UnsupportedError
from benchkit.services.backend import RenderRequest
from benchkit.services.deploy import explain_rejection
from benchkit.services.endpoint import Endpoint, Protocol
from benchkit.services.nginx import NGINX
from benchkit.services.placement import Program, ServicePlacement
from benchkit.services.service import Service

PURPOSES = {
    "http": "upstream: app",
    "fastcgi": "upstream: app",
    "files": "file_bytes: 1600",
    "status": "status: true",
}
PLACE = ServicePlacement(
    host="sut",
    address="127.0.0.1",
    cpus=(1, 3),
    folder=PurePosixPath("/w/front"),
    user="root",
    root=True,
    goos="linux",
    goarch="amd64",
    nofile=20000,
    programs={"nginx": Program("/usr/sbin/nginx", (1, 22, 1), "nginx version: nginx/1.22.1")},
)


def rendered(
    fields: str, *, place: ServicePlacement = PLACE, protocol: Protocol = "http", unix: bool = False
) -> Service:
    document = parse_document(f"backend: nginx\nlisten: 18080\n{fields}", "scenario.yaml")
    options = NGINX.resolve(document.validated(NGINX.options), document.source)
    app = (
        Endpoint("sut", protocol, path=PurePosixPath("/w/app/app.sock"))
        if unix
        else Endpoint("sut", protocol, "127.0.0.1", 9001)
    )
    return NGINX.render(
        RenderRequest("front", options, place, Endpoint("sut", "http", "127.0.0.1", 18080), {"app": app})
    )


def config_of(service: Service) -> str:
    content = service.files[0].content
    assert isinstance(content, bytes)
    return content.decode()


def said_by(program: str) -> ServicePlacement:
    """The place with another nginx."""
    return replace(PLACE, programs={"nginx": Program("/opt/nginx", (), program)})


def test_fastcgi_has_the_stock_parameters_and_a_pool() -> None:
    config = config_of(rendered("upstream: app", protocol="fastcgi", unix=True))
    assert "server unix:/w/app/app.sock;\n        keepalive 300;" in config
    assert "fastcgi_pass backend;\n            fastcgi_keep_conn on;" in config
    assert config.count("fastcgi_param ") == 19
    stock = Path("/etc/nginx/fastcgi_params")
    if stock.is_file():
        names = {line.split()[1] for line in stock.read_text().splitlines() if line.startswith("fastcgi_param")}
        since = {"REMOTE_USER", "HTTP_HOST"}  # later than the study, and Debian's
        assert names - since == {line.split()[1] for line in config.splitlines() if "fastcgi_param " in line}
    assert "fastcgi_keep_conn off;" in config_of(rendered("upstream: app\nupstream_keepalive: 0", protocol="fastcgi"))


def test_an_upstream_of_another_protocol_is_refused_by_its_field() -> None:
    with pytest.raises(FieldError, match="app speaks ssh; nginx is configured here for http and fastcgi") as caught:
        rendered("upstream: app", protocol="ssh")
    assert caught.value.field == "upstream"


def test_a_file_is_placed_with_the_body_of_the_other_servers() -> None:
    service = rendered("file_bytes: 1600")
    page = service.files[1]
    assert page.path == PurePosixPath("/w/front/html/index.html")
    assert isinstance(page.content, bytes)
    assert len(page.content) == 1600
    assert page.content.startswith(b"Hello World\nHello World\n")
    assert "root html;" in config_of(service)


def test_the_status_page_is_what_is_measured_and_another_is_for_the_watcher() -> None:
    service = rendered("status: true")
    assert config_of(service).count("stub_status;") == 2
    assert service.admin is not None
    assert service.admin.kind == "nginx"
    assert service.admin.endpoint.path == PurePosixPath("/w/front/_status.sock")
    assert "listen unix:/w/front/_status.sock;" in config_of(service)


def test_a_folder_too_deep_for_a_socket_is_not_watched(tmp_path: Path) -> None:
    deep = PurePosixPath(tmp_path) / ("d" * 90)
    service = rendered("status: true", place=replace(PLACE, folder=deep))
    assert service.admin is None
    assert "unix:" not in config_of(service)


def test_workers_are_what_it_can_keep_busy_and_can_be_pinned() -> None:
    service = rendered("status: true\nworkers: 3\npin_workers: true")
    assert service.parallelism == 3
    assert "worker_processes 3;\nworker_cpu_affinity 10 1000 10;\n" in config_of(service)
    assert "affinity" not in config_of(rendered("status: true"))
    assert rendered("status: true").parallelism == 2


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("multi_accept: false", "multi_accept off;"),
        ("accept_mutex: true", "accept_mutex on;"),
        ("keepalive: false", "keepalive_timeout 0;"),
        ("keepalive_timeout_s: 7", "keepalive_timeout 7;"),
        ("keepalive_requests: 5", "keepalive_requests 5;"),
        ("worker_connections: 20000", "worker_connections 20000;"),
        ("nofile: 3000", "worker_rlimit_nofile 3000;"),
        ("sendfile: false", "sendfile off;"),
        ("backlog: 65535", "listen 127.0.0.1:18080 backlog=65535;"),
        ("backlog: 65535\nreuseport: true", "listen 127.0.0.1:18080 backlog=65535 reuseport;"),
    ],
)
def test_options_become_directives(field: str, line: str) -> None:
    assert line in config_of(rendered(f"status: true\n{field}"))
    assert line not in config_of(rendered("status: true"))


def test_no_file_cache_is_no_directive() -> None:
    assert "open_file_cache" not in config_of(rendered("status: true\nopen_file_cache: 0"))


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("Tengine version: Tengine/2.2.3 (nginx/1.8.1)", "    reuse_port on;\n}"),
        ("Tengine version: Tengine/2.3.0 nginx version: nginx/1.15.9", "listen 127.0.0.1:18080 reuseport;"),
        ("Angie version: Angie/1.7.0", "listen 127.0.0.1:18080 reuseport;"),
    ],
)
def test_reuseport_is_said_as_the_binary_wants_it(said: str, wanted: str) -> None:
    config = config_of(rendered("status: true\nreuseport: true", place=said_by(said)))
    assert wanted in config
    assert config.count("reuseport;") + config.count("reuse_port on;") == 1
    assert "reuse" not in config_of(rendered("status: true", place=said_by(said)))


def test_an_nginx_that_cannot_reuse_ports_carries_no_such_cell() -> None:
    with pytest.raises(UnsupportedError, match=r"reuseport: sut has nginx 1.8.1; nginx supports it from 1.9.1 on"):
        rendered("status: true\nreuseport: true", place=said_by("nginx version: nginx/1.8.1"))


def test_a_binary_of_the_inventory_takes_nginxs_place() -> None:
    other = Program("/opt/nginx/sbin/nginx", (1, 27, 4), "nginx version: nginx/1.27.4")
    place = replace(PLACE, programs={**PLACE.programs, "nginx-1.27": other})
    assert rendered("status: true\nbinary: nginx-1.27", place=place).process.argv[0] == "/opt/nginx/sbin/nginx"
    assert rendered("status: true", place=place).process.argv[0] == "/usr/sbin/nginx"
    options = parse_document("backend: nginx\nlisten: 1\nstatus: true\nbinary: x", "s.yaml").validated(NGINX.options)
    assert NGINX.programs(options) == ("x",)


@pytest.mark.parametrize("said", ["Apache/2.4", None])
def test_what_is_no_nginx_is_refused_by_name_and_place(said: str | None) -> None:
    program = Program("/opt/x", (), said, named_by="named by hosts.yaml:3: hosts.sut.programs.nginx")
    with pytest.raises(InputError) as caught:
        rendered("status: true", place=replace(PLACE, programs={"nginx": program}))
    assert "/opt/x on sut is not nginx: `-v` prints" in str(caught.value)
    assert "hosts.yaml:3" in str(caught.value)
    assert ("architecture" in str(caught.value)) is (said is None)


def test_more_open_files_than_the_user_may_have() -> None:
    with pytest.raises(UnsupportedError, match="nofile 20001: root on sut may have 20000 at most"):
        rendered("status: true\nnofile: 20001")
    assert rendered("status: true\nnofile: 500").process.nofile == 500


@pytest.mark.parametrize("fields", ["file_bytes: 12\nstatus: true", "upstream: app\nfile_bytes: 1", "workers: 2"])
def test_one_purpose_at_a_time(fields: str) -> None:
    with pytest.raises(InputError, match="needs one of upstream, file_bytes, status, template"):
        rendered(fields)


@pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="nginx is not installed")
@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize(
    "more", ["", "reuseport: true\nbacklog: 99\npin_workers: true\naccept_mutex: true\nopen_file_cache: 0"]
)
def test_nginx_itself_takes_every_purpose(tmp_path: Path, purpose: str, more: str) -> None:
    protocol: Protocol = "fastcgi" if purpose == "fastcgi" else "http"
    place = replace(PLACE, folder=PurePosixPath(tmp_path))
    service = rendered(f"{PURPOSES[purpose]}\n{more}", place=place, protocol=protocol)
    (tmp_path / "nginx.conf").write_text(config_of(service))
    check = subprocess.run(service.checks[0].argv, capture_output=True, text=True, check=False)
    assert (check.returncode, check.stderr) == (0, "")


def template(folder: Path, text: str) -> str:
    (folder / "mine.conf.j2").write_text(text)
    return f"template: {folder}/mine.conf.j2"


def test_a_template_of_ones_own_extends_ours(tmp_path: Path) -> None:
    (tmp_path / "part.conf").write_text("# {{ options.backlog }} from beside\n")
    text = (
        '{% extends "benchkit/http.conf.j2" %}\n{% block location %}\n{{ super() }}\nproxy_buffering off;\n'
        '{% include "part.conf" %}\n{% endblock %}\n'
    )
    service = rendered(f"upstream: app\nbacklog: 5\n{template(tmp_path, text)}")
    assert "proxy_pass http://backend;" in config_of(service)
    assert "proxy_buffering off;\n# 5 from beside\n" in config_of(service)
    assert service.checks[0].field == "template"
    assert service.admin is not None


def test_a_template_without_our_status_page_has_no_admin(tmp_path: Path) -> None:
    service = rendered(template(tmp_path, "daemon off; # {{ listen }} {{ workers }}\n"))
    assert config_of(service) == "daemon off; # 127.0.0.1:18080 2\n"
    assert service.admin is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("daemon off;\n{{ wrkers }}\n", "mine.conf.j2:2: 'wrkers' is undefined"),
        ("daemon off;\n{% if %}\n", "mine.conf.j2:2: "),
        ("{{ 1 / 0 }}\n", "mine.conf.j2:1: division by zero"),
        ("{{ options.workers() }}\n", "mine.conf.j2:1: 'str' object is not callable"),
        ("{{ ().__class__.__bases__ }}\n", "unsafe"),
        ('{% include "../secret" %}\n', "../secret"),
        ("{% for i in range(10 ** 9) %}x{% endfor %}\n", "mine.conf.j2:1: Range too big"),
        ('{% extends "benchkit/htp.conf.j2" %}\n', "benchkit/htp.conf.j2"),
    ],
)
def test_a_template_that_cannot_be_filled_in_names_its_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path.parent / "secret").write_text("not for templates")
    with pytest.raises(InputError) as caught:
        rendered(template(tmp_path, text))
    assert "the template cannot be rendered" in str(caught.value)
    assert message in str(caught.value)


def test_a_template_that_is_not_there_names_file_line_and_field(tmp_path: Path) -> None:
    document = parse_document("backend: nginx\nlisten: 1\ntemplate: none.j2\n", str(tmp_path / "scenario.yaml"))
    with pytest.raises(InputError) as caught:
        NGINX.resolve(document.validated(NGINX.options), document.source)
    assert str(caught.value) == (
        f"{tmp_path}/scenario.yaml:3: template: cannot read {tmp_path}/none.j2: No such file or directory"
    )


def test_nginxs_words_are_shown_beside_the_line_they_speak_of() -> None:
    said = (
        '2026/01/01 10:00:00 [emerg] 7#7: unknown directive "retrun" in /w/front/nginx.conf:2\n'
        "nginx: configuration file /w/front/nginx.conf test failed"
    )
    assert explain_rejection(said, "nginx.conf", "daemon off;\n    retrun 200;\n") == (
        '2026/01/01 10:00:00 [emerg] 7#7: unknown directive "retrun" in nginx.conf:2: `retrun 200;`'
    )
    assert explain_rejection("no permission", "nginx.conf", "x") == "no permission"
