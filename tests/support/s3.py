"""An S3 server on the loopback interface: moto's, which keeps buckets in memory, with counters of what it sends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

BUCKET = "results"
KEY, SECRET = "AKIABENCHKITTEST", "not-to-be-found-in-any-file"

NO_CONFIGURATION = MappingProxyType(
    {
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
    }
)
"""Environment of a client that finds nothing of this machine's user, and that gives up at once."""


@dataclass
class S3:
    """The server, with the requests that it has answered."""

    endpoint: str
    requests: list[tuple[str, str, int]] = field(default_factory=list)
    """Method, path and number of bytes of the answer's body."""
    before: Callable[[str, str], None] = field(default=lambda _method, _path: None)
    """Called with method and path of each request before it has any effect."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment of its clients, as every S3 client reads it."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            **NO_CONFIGURATION,
        }

    def client(self) -> Any:  # noqa: ANN401 - made by boto3 at run time
        """Return a client of the server, with boto3."""
        import boto3  # noqa: PLC0415 - slow, as moto is

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def objects(self, prefix: str) -> dict[str, bytes]:
        """Return the contents of all objects whose names begin so."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        names = [each["Key"] for page in pages for each in page.get("Contents", [])]
        return {name: client.get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in names}

    def sent_bytes(self) -> int:
        """Return the number of bytes of all answers since the list was cleared."""
        return sum(size for _, _, size in self.requests)


@contextlib.contextmanager
def s3_server() -> Iterator[S3]:
    """Serve S3 with an empty bucket, `BUCKET`, until the block ends."""
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 - takes a second, which most runs of the tests need not
        DomainDispatcherApplication,
        create_backend_app,
    )
    from werkzeug.serving import WSGIRequestHandler, make_server  # noqa: PLC0415

    class Silent(WSGIRequestHandler):
        """Handler that logs no requests."""

        def log(self, *_: object) -> None:
            """Log nothing."""

    application = DomainDispatcherApplication(create_backend_app)
    served = S3("")

    def counting(environ: dict[str, Any], start: Any) -> Iterable[bytes]:  # noqa: ANN401 - WSGI's function
        served.before(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        answer = b"".join(application(environ, start))
        served.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"], len(answer)))
        return [answer]

    server = make_server("127.0.0.1", 0, counting, threaded=True, request_handler=Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    served.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        served.client().create_bucket(Bucket=BUCKET)
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
