"""nginx on loopback with a port for each protocol; its log has what every request's connection negotiated."""

from __future__ import annotations

import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchkit.loadtools.tool import Target
from benchkit.models.protocol import HttpProtocol, TlsOptions, is_tls
from benchkit.services.certificates import RunCertificate
from tests.support.ports import free_ports
from tests.support.waiting import wait_until

LISTEN: dict[HttpProtocol, str] = {"http1": "", "https1": " ssl", "h2": " ssl http2", "h2c": " http2"}
_CONFIG = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  log_format tls '$server_port $connection $server_protocol $ssl_protocol $ssl_cipher $ssl_session_reused';
  access_log {folder}/access.log tls;
  client_body_temp_path {folder}/bodies;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000;
  ssl_certificate {folder}/certificate.pem;
  ssl_certificate_key {folder}/key.pem;
  ssl_protocols TLSv{version};
  ssl_session_tickets {tickets};
  ssl_session_cache off;
{servers}}}
"""
_STATUS = "  server {{ listen 127.0.0.1:{port}; access_log off; location / {{ stub_status; }} }}\n"
_SERVER = "  server {{ listen 127.0.0.1:{port}{listen}; location / {{ return 200 'hello world\\n'; }} }}\n"


@dataclass(frozen=True)
class LoggedRequest:
    """A request in nginx's log; `-` stands for what its connection does not have."""

    port: int
    connection: str
    protocol: str
    tls_version: str
    cipher: str
    resumed: bool


@dataclass(frozen=True)
class TlsServer:
    """A running nginx, whose port for each protocol is in `ports`."""

    folder: Path
    ports: dict[HttpProtocol, int]
    tls: TlsOptions
    status_port: int

    def target(self, protocol: HttpProtocol) -> Target:
        """Return the port of a protocol as the target of a load."""
        return Target(f"127.0.0.1:{self.ports[protocol]}", protocol, self.tls if is_tls(protocol) else None)

    def log(self, protocol: HttpProtocol) -> list[LoggedRequest]:
        """Return the requests to the port of a protocol, once all clients have closed their connections.

        nginx logs a request after it has sent the answer, and one without an answer when its connection is closed.
        """
        wait_until(self._is_idle)
        requests = []
        for line in (self.folder / "access.log").read_text().splitlines():
            port, connection, http, version, cipher, resumed = line.split(" ")
            request = LoggedRequest(int(port), connection, http, version, cipher, resumed == "r")
            if request.port == self.ports[protocol]:
                requests.append(request)
        return requests

    def _is_idle(self) -> bool:
        """Return True if this request for nginx's own page has the only connection."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}/", timeout=60) as page:
            return bool(page.read().startswith(b"Active connections: 1 "))


@contextmanager
def tls_server(folder: Path, tls: TlsOptions) -> Iterator[TlsServer]:
    """Run nginx with its files in `folder` until the block ends."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    assert nginx is not None
    folder.mkdir(parents=True, exist_ok=True)
    identity = "localhost", "127.0.0.1", tls.key
    (folder / "certificate.pem").write_bytes(RunCertificate(*identity, "certificate").read())
    (folder / "key.pem").write_bytes(RunCertificate(*identity, "key").read())
    *numbers, status_port = free_ports(len(LISTEN) + 1)
    ports = dict(zip(LISTEN, numbers, strict=True))
    config = folder / "nginx.conf"
    config.write_text(
        _CONFIG.format(
            folder=folder,
            version=tls.version,
            tickets="on" if tls.resumption else "off",
            servers="".join(
                [_SERVER.format(port=port, listen=LISTEN[name]) for name, port in ports.items()]
                + [_STATUS.format(port=status_port)]
            ),
        )
    )
    server = TlsServer(folder, ports, tls, status_port)
    with subprocess.Popen([nginx, "-c", str(config), "-e", str(folder / "error.log")]) as process:
        try:
            wait_until(lambda: all(map(_is_open, [*numbers, status_port])))
            yield server
        finally:
            process.terminate()


def _is_open(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
