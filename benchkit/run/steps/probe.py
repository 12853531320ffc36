"""Each request of the load sent once before it: the responses are compared with those expected, and stored."""

from __future__ import annotations

from benchkit.errors import ServiceError
from benchkit.hosts.sockets import HttpAnswer
from benchkit.models.clean_text import clean
from benchkit.models.headers import has_header
from benchkit.models.load import Load
from benchkit.models.request import Request
from benchkit.models.trial import ProbeRecord
from benchkit.run.steps.trial_state import Trial
from benchkit.services import deploy

HTTP_TIMEOUT_S = 10.0
FIRST_ERROR_STATUS = 400
"""Lowest status that fails the trial where none is expected (RFC 9110, 15.5)."""
MAX_BODY = 1 << 20
"""Bytes of a body in which an expected text is searched for."""
SHOWN_CHARACTERS = 200


def probe_responses(trial: Trial) -> None:
    """Send each request once from the first load host, and keep the responses.

    Raises ServiceError, naming the request and what differs, for a response that is not the expected one.
    """
    load, host = trial.cell.load, trial.load_hosts[0]
    endpoint = trial.cell.entry
    if endpoint is None:
        raise AssertionError(f"{trial.cell.cell_id} is unsupported")
    for request in load.request_mix:
        response = host.sockets.http(
            deploy.socket_of(endpoint),
            request.path,
            method=request.method,
            headers=probe_headers(load, request, endpoint.authority),
            body=request.content or b"",
            timeout_s=HTTP_TIMEOUT_S,
            max_body=MAX_BODY if request.expect.contains is not None else SHOWN_CHARACTERS,
        )
        if faults := response_faults(request, response):
            raise ServiceError(
                f"{endpoint.authority} answers {request} otherwise than expected: {'; '.join(faults)}",
                where=host.name,
                why=_shown_body(response),
                hint="correct the request, the server, or what the scenario expects",
            )
        trial.probes += (
            ProbeRecord(
                status=response.status,
                header_bytes=response.header_bytes,
                headers=response.headers,
                body_bytes=response.body_bytes,
                body_sha256=response.body_sha256,
            ),
        )


def response_faults(request: Request, response: HttpAnswer) -> list[str]:
    """Return what differs between a response and the expected one; empty where nothing does."""
    expect, faults = request.expect, []
    if expect.status is None and response.status >= FIRST_ERROR_STATUS:
        faults.append(f"status {response.status}, expected one below {FIRST_ERROR_STATUS}")
    if expect.status is not None and response.status != expect.status:
        faults.append(f"status {response.status}, expected {expect.status}")
    if expect.contains is not None and expect.contains.encode() not in response.body:
        part = "its body" if response.body_bytes <= len(response.body) else f"the first {len(response.body)} bytes"
        faults.append(f"{expect.contains!r} is not in {part}")
    if expect.sha256 is not None and not response.complete:
        faults.append("the body did not arrive whole, so that its SHA-256 is unknown")
    elif expect.sha256 is not None and response.body_sha256 != expect.sha256:
        faults.append(f"SHA-256 {response.body_sha256}, expected {expect.sha256}")
    return faults


def probe_headers(load: Load, request: Request, authority: str) -> list[tuple[str, str]]:
    """Return the headers of a request, with the target's Host where it has none (RFC 9112, 3.2: exactly one).

    The response states whether the connection is closed, which changes its length, so the probe asks as the load does.
    """
    host = [] if has_header(request.headers, "host") else [("Host", authority)]
    close = [] if load.keepalive or has_header(request.headers, "connection") else [("Connection", "close")]
    return [*host, *close, *request.headers.items()]


def _shown_body(response: HttpAnswer) -> str | None:
    """Return the start of a body for messages; None for an empty one."""
    text = clean(response.body[:SHOWN_CHARACTERS].decode(errors="replace"))
    return f"the body begins with {text!r}" if text else None
