"""Single requests from a host to a server, in any version of HTTP, by our load generator's probe mode.

The program is `backends/openloop`, built on the controller and placed on the host. It reads requests from its standard
input, so that secret headers stand on no command line.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from pydantic import Base64Bytes, Field, ValidationError

from benchkit.errors import HostError, HostStateError
from benchkit.files import BACKENDS
from benchkit.hosts.host import Host
from benchkit.models.base import Frozen
from benchkit.models.protocol import Negotiated, is_tls
from benchkit.services.go_build import GoSource
from benchkit.services.placement import Endpoint, ServicePlacement
from benchkit.services.service import EXECUTABLE, ServiceFile

PROGRAM = "openloop"
START_S = 5.0
"""Time for the program beyond that for the responses."""
BATCH_BYTES = 1 << 20
"""Requests that are sent by one process."""
OUTPUT_BYTES = 6 << 20


class HttpAnswer(Frozen):
    """A response, with every byte counted (terms of RFC 9110)."""

    status: int
    header_bytes: int
    """Size of status line and fields, up to the empty line, as HTTP/1.1 writes them."""
    headers: tuple[tuple[str, str], ...] = ()
    body_bytes: int = 0
    body_sha256: str = ""
    body_start: Base64Bytes = Field(default=b"", validate_default=False)
    """First bytes of the body."""
    has_text: bool = True
    """True if the body has the text that the request names."""
    complete: bool = True
    """True if the whole body arrived."""
    closes: bool = False
    """True if the server closes the connection after the response."""
    negotiated: Negotiated = Negotiated(protocol="http1")


@dataclass(frozen=True)
class ProbeRequest:
    """A request to send once."""

    method: str
    path: str
    headers: Sequence[tuple[str, str]]
    """All of them, with `Host`; over HTTP/2 and HTTP/3, those of a connection are left out."""
    body: bytes = b""
    contains: str = ""
    """Text that is searched for in the body of the response."""

    @property
    def message(self) -> bytes:
        """The request as HTTP/1.1 sends it."""
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body


class _Failure(Frozen):
    kind: str
    message: str


class _Line(HttpAnswer):
    status: int = 0
    header_bytes: int = 0
    failure: _Failure | None = None


def probe_program(place: ServicePlacement) -> ServiceFile:
    """Return the program, to be placed in a folder of a host."""
    source = GoSource(BACKENDS / PROGRAM, place.goos, place.goarch)
    return ServiceFile(place.folder / PROGRAM, source, EXECUTABLE)


def send_requests(
    host: Host,
    program: PurePosixPath,
    endpoint: Endpoint,
    requests: Sequence[ProbeRequest],
    *,
    ca_file: PurePosixPath | None = None,
    timeout_s: float = 10.0,
    shown_bytes: int = 0,
) -> list[HttpAnswer]:
    """Send each request from `host` over a new connection, and return the responses in their order.

    Over TLS the server chooses between the endpoint's version of HTTP and HTTP/1.1, as with browsers. `ca_file` on the
    host verifies its certificate. Raises HostError naming the first request that is not answered within `timeout_s`.
    """
    argv = [str(program), "probe", f"-address={endpoint.authority}", f"-protocol={endpoint.protocol}"]
    argv += [f"-timeout={timeout_s:g}s", f"-shown={shown_bytes}"]
    if is_tls(endpoint.protocol):
        name = endpoint.server_name or endpoint.address or endpoint.host
        argv += [f"-ca={ca_file}", f"-server-name={name}"]
    answers: list[HttpAnswer] = []
    for batch in _batches(requests):
        done = host.processes.run(
            argv,
            stdin=json.dumps([_form(each) for each in batch]).encode(),
            timeout_s=START_S + timeout_s * len(batch),
            max_bytes=OUTPUT_BYTES,
        )
        if not done.ok:
            raise HostError("the HTTP probe failed", where=host.name, why=done.printed or str(done.ended))
        try:
            lines = [_Line.model_validate_json(line) for line in done.stdout.splitlines()]
        except ValidationError as error:
            raise HostError("the HTTP probe printed no answer", where=host.name, why=str(error)) from None
        for line in lines:
            if line.failure is not None:
                request = requests[len(answers)]
                kind = HostStateError if line.failure.kind == "host-state" else HostError
                what = f"{endpoint.authority} does not answer {request.method} {request.path}"
                raise kind(what, where=host.name, why=line.failure.message)
            answers.append(line)
    return answers


def _batches(requests: Iterable[ProbeRequest]) -> Iterator[list[ProbeRequest]]:
    batch: list[ProbeRequest] = []
    size = 0
    for each in requests:
        if batch and size + len(each.message) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.message)
    if batch:
        yield batch


def _form(request: ProbeRequest) -> dict[str, str]:
    message = base64.b64encode(request.message).decode()
    return {"Method": request.method, "Bytes": message, "Contains": request.contains}
