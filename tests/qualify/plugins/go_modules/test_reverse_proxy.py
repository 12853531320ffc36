"""The reverse proxy in front of a module proxy: requests of each user to a real nginx, with a stub as module proxy."""

from __future__ import annotations

import base64
import http.client
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from benchkit.plugins.go_modules.reverse_proxy import (
    MODULE_SITE,
    ReverseProxyOptions,
    SiteCertificate,
    password_of,
)
from benchkit.services import deploy
from benchkit.services.backend import RenderRequest
from benchkit.services.placement import Endpoint, ServicePlacement
from benchkit.services.service import ControllerFile, Service
from tests.support.ports import free_port

USERS = {
    "alice": {"may_pull": ["mycompany.com/go"]},
    "bob": {"may_pull": ["mycompany.com/go/module1", "mycompany.com/go/lib-*"]},
    "eve": {},
}
PRIVATE = ["mycompany.com/go", "Secret.example"]


class ModuleProxyStub(BaseHTTPRequestHandler):
    """A server that answers every request with 200 and records its path and header."""

    requests: list[tuple[str, Mapping[str, str]]]

    def do_GET(self) -> None:
        self.requests.append((self.path, dict(self.headers)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class RunningProxy:
    """A running nginx, and the requests that reached the module proxy."""

    def __init__(
        self, service: Service, requests: list[tuple[str, Mapping[str, str]]], process: subprocess.Popen[bytes]
    ) -> None:
        self.service = service
        self.requests = requests
        self.process = process

    def request(
        self, path: str, user: str | None = None, password: str | None = None, method: str = "GET"
    ) -> tuple[int, bytes]:
        endpoint = self.service.endpoint
        if endpoint.protocol == "https1":
            trusted = ssl.create_default_context(cadata=SiteCertificate(endpoint, "authority").read().decode())
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                str(endpoint.address), endpoint.port, context=trusted, timeout=60
            )
        else:
            connection = http.client.HTTPConnection(str(endpoint.address), endpoint.port, timeout=60)
        headers = {}
        if user is not None:
            password = password_of(endpoint, user) if password is None else password
            headers["Authorization"] = f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"
        connection.putrequest(method, path, skip_host=False)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, content


@pytest.fixture
def start_proxy(place: Callable[..., ServicePlacement], tmp_path: Path) -> Iterator[Callable[..., RunningProxy]]:
    """Function that starts a reverse proxy with the given options."""
    requests: list[tuple[str, Mapping[str, str]]] = []
    module_proxy = ThreadingHTTPServer(("127.0.0.1", 0), type("Stub", (ModuleProxyStub,), {"requests": requests}))
    threading.Thread(target=module_proxy.serve_forever, args=(0.01,), daemon=True).start()
    running: list[subprocess.Popen[bytes]] = []
    port = free_port()

    def start(folder: Path = tmp_path, **options: object) -> RunningProxy:
        checked = ReverseProxyOptions.model_validate(
            {"backend": "module-site", "listen": port, "proxy": "proxy", **options}
        )
        place_here = replace(place("site", folder, address="127.0.0.1"), user="root", root=True)
        endpoint = Endpoint("one", MODULE_SITE.protocol(checked), "127.0.0.1", port)
        peers = {"proxy": Endpoint("one", "http1", "127.0.0.1", module_proxy.server_address[1])}
        service = MODULE_SITE.render(RenderRequest("site", checked, place_here, endpoint, peers))
        for file in service.files:
            Path(file.path).parent.mkdir(parents=True, exist_ok=True)
            content = file.content.read() if isinstance(file.content, ControllerFile) else file.content
            assert isinstance(content, bytes)
            Path(file.path).write_bytes(content)
        subprocess.run(service.setup_commands[0].argv, cwd=service.folder, check=True)
        for path in deploy.socket_files(service):
            Path(path).unlink(missing_ok=True)
        running.append(subprocess.Popen(service.process.argv, cwd=service.folder, process_group=0))
        proxy = RunningProxy(service, requests, running[-1])
        deadline = time.monotonic() + 60
        while True:
            try:
                proxy.request("/x")
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            else:
                return proxy

    yield start
    for process in running:
        process.terminate()
        process.wait(60)
    module_proxy.shutdown()
    module_proxy.server_close()


pytestmark = [
    pytest.mark.skipif(shutil.which("nginx", path="/usr/sbin:/usr/bin") is None, reason="no nginx"),
]

M1, M2, LIB = (f"/mycompany.com/go/{name}/@v/v1.0.0.info" for name in ("module1", "module2", "lib-net"))
PUBLIC = "/github.com/%21burnt%21sushi/toml/@v/v1.0.0.zip"
CAPITAL = "/!secret.example/x/@v/list"


@pytest.mark.parametrize("serve_files", [False, True], ids=["by-the-proxy", "by-files"])
def test_users_get_the_modules_they_have_rights_to_and_no_other_request_reaches_the_proxy(
    start_proxy: Callable[..., RunningProxy], *, serve_files: bool
) -> None:
    started = start_proxy(users=USERS, private=PRIVATE, serve_files=serve_files)
    table = {
        "alice": {M1: 200, M2: 200, LIB: 200, PUBLIC: 200, CAPITAL: 404},
        "bob": {M1: 200, M2: 404, LIB: 200, PUBLIC: 200, CAPITAL: 404},
        "eve": {M1: 404, M2: 404, LIB: 404, PUBLIC: 200, CAPITAL: 404},
    }
    statuses = {user: {path: started.request(path, user)[0] for path in paths} for user, paths in table.items()}
    assert statuses == table
    allowed = [path for paths in table.values() for path, status in paths.items() if status == 200]
    assert [path for path, _ in started.requests] == allowed
    assert not any("Authorization" in headers for _, headers in started.requests)


def test_requests_without_valid_credentials_get_401_for_every_path(start_proxy: Callable[..., RunningProxy]) -> None:
    started = start_proxy(users=USERS, private=PRIVATE, serve_files=True)
    for path in (M1, PUBLIC, "/mycompany.com/go/nothing/@v/list"):
        assert started.request(path)[0] == 401
        assert started.request(path, "alice", "wrong")[0] == 401
        assert started.request(path, "mallory", "x")[0] == 401
        assert started.request(path, "", "")[0] == 401
    assert started.requests == []


SPELLINGS = (
    "/mycompany.com/go/module1/../module2/@v/list",
    "/github.com/x/../../mycompany.com/go/module2/@v/list",
    "//mycompany.com/go/module2/@v/list",
    "/./mycompany.com/go/module2/@v/list",
    "/mycompany.com//go/module2/@v/list",
    "/mycompany.com/%67o/module2/@v/list",
    "/mycompany.com%2fgo%2fmodule2/@v/list",
    "/mycompany.com/go/module1/%2e%2e/module2/@v/list",
    "/mycompany.com/go/module1/@v/list?x=/mycompany.com/go/module2",
    "/mycompany.com/go/module1/@v/list%0d%0aX-Y:%20z",
    "/mycompany.com/go/module1/@v/list%00",
    "/mycompany.com/go/module2;/@v/list",
    "/MyCompany.com/go/module2/@v/list",
    "/mycompany.com/go/Module2/@v/list",
    "/mycompany.com/go/@v/list",
    "/mycompany.com/@v/v1.0.0.info",
    "/mycompany.com/@latest",
    "/",
)


def test_no_spelling_of_a_path_circumvents_the_rights(start_proxy: Callable[..., RunningProxy]) -> None:
    started = start_proxy(users=USERS, private=PRIVATE, serve_files=True)
    statuses = {path: started.request(path, "bob")[0] for path in SPELLINGS}
    assert set(statuses.values()) <= {400, 404}, statuses
    assert started.requests == []


def test_requests_for_checksum_databases_are_not_passed_on(start_proxy: Callable[..., RunningProxy]) -> None:
    database = "/sumdb/sum.example.org/supported"
    started = start_proxy(users=USERS, private=PRIVATE)
    assert started.request(database)[0] in {401, 404}
    status, text = started.request(database, "alice")
    assert (status, text) == (404, b"not found: this server does not pass requests to checksum databases on\n")
    assert started.request(f"{database}/../../../{M1}", "eve")[0] in {400, 404}
    assert started.requests == []


def test_cached_versions_are_served_from_files_to_users_with_the_right(
    start_proxy: Callable[..., RunningProxy], tmp_path: Path
) -> None:
    started = start_proxy(users=USERS, private=PRIVATE, serve_files=True)
    cache = tmp_path / "proxy" / "cache" / "pkg" / "mod" / "cache" / "download"
    for path in (
        M2,
        PUBLIC.replace("%21", "!"),
        "/mycompany.com/go/module2/@v/list",
        "/mycompany.com/go/module2/@v/main.info",
    ):
        file = cache / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"on disk")
    assert started.request(M2, "alice") == (200, b"on disk")
    assert started.request(PUBLIC, "bob") == (200, b"on disk")
    assert started.request(M2, "bob")[0] == 404
    assert started.request(M2)[0] == 401
    assert started.requests == []
    for moving in ("/mycompany.com/go/module2/@v/list", "/mycompany.com/go/module2/@v/main.info"):
        assert started.request(moving, "alice") == (200, b"ok")


def test_only_hashes_of_passwords_are_on_the_proxy_host(start_proxy: Callable[..., RunningProxy], state: Path) -> None:
    started = start_proxy(users=USERS, private=PRIVATE)
    endpoint = started.service.endpoint
    text = password_of(endpoint, "alice")
    for path in Path(started.service.folder).rglob("*"):
        assert not path.is_file() or text.encode() not in path.read_bytes()
    lines = (Path(started.service.folder) / "passwords").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == ["alice", "bob", "eve"]
    assert all(line.partition(":")[2].startswith("{SSHA}") for line in lines)
    kept = list((state / "benchkit" / "kept").iterdir())
    assert any(path.name.startswith("netrc-alice") and text in path.read_text() for path in kept)
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
    trusted = [path.read_text() for path in kept if path.name.startswith("authority-of")]
    assert ["PRIVATE" in each for each in trusted] == [False]
    assert text not in repr(started.service)
