"""Probes: each request of the load sent twice before it, once in its middle and once after it.

A trial fails if its first responses are not the expected ones. Later responses are stored and judged: they show whether
bodies vary by themselves, and whether the server answers under load as before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal

from benchkit.errors import HostError, HostStateError, LoadToolError, LostError, ServiceError
from benchkit.loadtools.registry import get_tool
from benchkit.models.load import Load
from benchkit.models.request import CONTENT_LENGTH, Request, has_header, revealed
from benchkit.models.trial import ProbeRecord, ProbeRound
from benchkit.run.steps.state import Trial
from benchkit.safe_text import clean
from benchkit.services import deploy
from benchkit.services.http_probe import PROGRAM, HttpAnswer, ProbeRequest, send_requests
from benchkit.services.placement import Endpoint

HTTP_TIMEOUT_S = 10.0
LATER_TIMEOUT_S = 2.0
"""Timeout of a response during the load or after it. A server with a queue may take longer; its response is then
unknown."""
FIRST_ERROR_STATUS = 400
"""Lowest status that fails the trial where none is expected (RFC 9110, 15.5)."""
BUSY_STATUSES = frozenset({429, 502, 503, 504})
"""Statuses of a rate limiter, and of a gateway whose own server is still starting (RFC 6585, 4; RFC 9110, 15.6)."""
BUSY_PAUSES_S = (0.5, 1.0, 2.0)
"""Pauses after which such a server is asked again, before its response fails the trial."""
FORBIDDEN = 403
SHOWN_CHARACTERS = 200


def probe_responses(trial: Trial) -> None:
    """Send each request twice from the first load host, and keep the responses.

    Raises ServiceError, naming request and differences, for an unexpected response. Raises LoadToolError if the server
    closes a connection that the load tool needs open.
    """
    trial.probes = _expected_responses(trial)
    trial.probe_rounds += (ProbeRound(moment="before", responses=_expected_responses(trial)),)


def probe_after(trial: Trial) -> None:
    """Send each request once more after the load; different responses are recorded, and judged later."""
    _add_round(trial, "after")


def probe_during(trial: Trial) -> None:
    """Send each request once during the load."""
    _add_round(trial, "during")


def drain(trial: Trial) -> None:
    """Wait until the server has answered each request twice: those that the warm-up left in its queue come before.

    Raises HostError where it takes longer than `HTTP_TIMEOUT_S`.
    """
    for _ in range(2):
        _send(trial, HTTP_TIMEOUT_S)


def _expected_responses(trial: Trial) -> tuple[ProbeRecord, ...]:
    mix = trial.cell.load.request_mix
    try:
        responses = _send(trial, HTTP_TIMEOUT_S)
        for pause_s in BUSY_PAUSES_S:
            if not any(_is_busy(*each) for each in zip(mix, responses, strict=True)):
                break
            time.sleep(pause_s)
            responses = _send(trial, HTTP_TIMEOUT_S)
    except (LostError, HostStateError):
        raise
    except HostError as error:
        if not trial.cell.spec.external:
            raise
        raise ServiceError(
            error.what,
            where=error.where,
            why=error.why,
            hint="start the server, or correct its URL: `localhost` means the load host",
        ) from error
    for request, response in zip(mix, responses, strict=True):
        _require_expected(trial, request, response)
    return tuple(map(_record, responses))


def _is_busy(request: Request, response: HttpAnswer) -> bool:
    return response.status in BUSY_STATUSES and request.expect.status != response.status


def _require_expected(trial: Trial, request: Request, response: HttpAnswer) -> None:
    load, where = trial.cell.load, trial.load_hosts[0].name
    if faults := response_faults(request, response):
        raise ServiceError(
            f"unexpected response of {_endpoint(trial).authority} to {request}: {'; '.join(faults)}",
            where=where,
            why="; ".join(_details(trial, response)) or None,
            hint=_hint(trial, response),
        )
    if response.closes and load.keepalive and "keepalive" not in get_tool(load.tool).options:
        raise LoadToolError(
            f"{_endpoint(trial).authority} closes the connection after its response to {request}",
            where=where,
            why=f"{load.tool} needs open connections, and does not end while it opens one again",
            hint="use a tool that opens new ones: `tool: hey` in the load, or --tool hey",
        )


def _add_round(trial: Trial, moment: Literal["during", "after"]) -> None:
    mix = trial.cell.load.request_mix
    try:
        responses = _send(trial, LATER_TIMEOUT_S)
    except HostError as error:  # a lost host, too: the next step raises it
        round_ = ProbeRound(moment=moment, failure=str(error))
    else:
        pairs = zip(mix, responses, strict=True)
        faults = tuple(f"{request}: {fault}" for request, each in pairs for fault in response_faults(request, each))
        round_ = ProbeRound(moment=moment, responses=tuple(map(_record, responses)), faults=faults)
    trial.probe_rounds += (round_,)


def _send(trial: Trial, timeout_s: float) -> list[HttpAnswer]:
    endpoint, load, generator = _endpoint(trial), trial.cell.load, trial.cell.generators[0]
    requests = [
        ProbeRequest(
            each.method,
            each.path,
            probe_headers(load, each, endpoint.host_header),
            each.content or b"",
            each.expect.contains or "",
        )
        for each in load.request_mix
    ]
    return send_requests(
        trial.load_hosts[0],
        next(file.path for file in generator.programs if file.path.name == PROGRAM),
        endpoint,
        requests,
        ca_file=generator.target.ca_file,
        timeout_s=timeout_s,
        shown_bytes=SHOWN_CHARACTERS,
    )


def _endpoint(trial: Trial) -> Endpoint:
    if trial.cell.entry is None:
        raise AssertionError(f"{trial.cell.cell_id} is unsupported")
    return trial.cell.entry


def _record(response: HttpAnswer) -> ProbeRecord:
    return ProbeRecord(
        status=response.status,
        header_bytes=response.header_bytes,
        headers=response.headers,
        body_bytes=response.body_bytes,
        body_sha256=response.body_sha256,
        closes=response.closes,
        negotiated=response.negotiated,
    )


def response_faults(request: Request, response: HttpAnswer) -> list[str]:
    """Return the differences between a response and the expected one."""
    expect, faults = request.expect, []
    if expect.status is None and response.status >= FIRST_ERROR_STATUS:
        faults.append(f"status {response.status}, expected a status below {FIRST_ERROR_STATUS}")
    if expect.status is not None and response.status != expect.status:
        faults.append(f"status {response.status}, expected {expect.status}")
    if not response.has_text:
        faults.append(f"{expect.contains!r} is not in its body")
    if expect.sha256 is not None and not response.complete:
        faults.append("the body is incomplete, so that its SHA-256 is unknown")
    elif expect.sha256 is not None and response.body_sha256 != expect.sha256:
        faults.append(f"SHA-256 {response.body_sha256}, expected {expect.sha256}")
    return faults


def probe_headers(load: Load, request: Request, host_header: str) -> list[tuple[str, str]]:
    """Return the headers that a request is sent with: Host, the length of its body, and its own.

    Host is the target's unless the request states one (RFC 9112, 3.2). The probe keeps or closes the connection as the
    load does, because the length of the response header depends on it.
    """
    host = [] if has_header(request.headers, "host") else [("Host", host_header)]
    close = [] if load.keepalive or has_header(request.headers, "connection") else [("Connection", "close")]
    length = [] if request.content_length is None else [(CONTENT_LENGTH, str(request.content_length))]
    return [*host, *close, *length, *revealed(request.headers).items()]


def _details(trial: Trial, response: HttpAnswer) -> Iterator[str]:
    """Yield the start of a response's body, and the last lines of the services' logs."""
    if text := clean(response.body_start.decode(errors="replace")):
        yield f"the body begins with {text!r}"
    for running in trial.running_services:
        if lines := deploy.last_log_lines(trial.hosts[running.service.host], running.log):
            yield f"{running.service.name}: {lines}"


def _hint(trial: Trial, response: HttpAnswer) -> str:
    by_root = [each for each in trial.running_services if trial.hosts[each.service.host].facts.user == "root"]
    if response.status == FORBIDDEN and by_root:
        return (
            "check that its workers may read the files: those of a server started by root, such as nginx, run as another user, "
            "who may not enter benchkit's folder. Write `user root;` into nginx's configuration, or serve a folder that "
            "all users may read"
        )
    return "correct the request, the server, or what the scenario expects"
