"""A MinIO server on the loopback interface, with its own record of each request that it answered.

The program is not part of benchkit: `go build github.com/minio/minio` in a Go module that requires it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support.s3 import BUCKET, KEY, S3, SECRET

START_S = 30.0
SETTLED_S = 1.0
"""Time without a further record after which all have arrived."""


@contextlib.contextmanager
def minio_server(program: str, folder: Path) -> Iterator[S3]:
    """Serve S3 from a folder with an empty bucket, `BUCKET`, until the block ends."""
    served = S3("")
    with _audit_log(served) as log, socket.create_server(("127.0.0.1", 0)) as free:
        host, port = free.getsockname()
        free.close()
        address = f"{host}:{port}"
        environment = {
            **os.environ,
            "MINIO_ROOT_USER": KEY,
            "MINIO_ROOT_PASSWORD": SECRET,
            "MINIO_BROWSER": "off",
            "MINIO_UPDATE": "off",
            "MINIO_AUDIT_WEBHOOK_ENABLE_BENCH": "on",
            "MINIO_AUDIT_WEBHOOK_ENDPOINT_BENCH": log,
        }
        served.endpoint = f"http://{address}"
        with subprocess.Popen(
            [program, "server", "--quiet", "--address", address, folder], env=environment, stdout=subprocess.DEVNULL
        ) as process:
            try:
                _wait_until_open(host, port)
                served.client().create_bucket(Bucket=BUCKET)
                yield served
            finally:
                process.terminate()


def wait_for_records(served: S3) -> None:
    """Wait until MinIO has sent the records of all requests that it has answered."""
    known = -1
    while known != len(served.requests):
        known = len(served.requests)
        time.sleep(SETTLED_S)


def _wait_until_open(host: str, port: int) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection((host, port), START_S).close()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


@contextlib.contextmanager
def _audit_log(served: S3) -> Iterator[str]:
    """Receive the records of a server's audit log; yield the URL to send them to."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for record in content if isinstance(content, list) else [content]:
                api = record["api"]
                path = f"/{api.get('bucket', '')}/{api.get('object', '')}"
                served.requests.append((api["name"], path, int(api.get("tx", 0))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
