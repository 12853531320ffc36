"""A single request before the load, whose response is stored."""

from __future__ import annotations

from benchkit.errors import ServiceError
from benchkit.models.load import Load
from benchkit.models.trial import ProbeRecord
from benchkit.run.steps.trial_state import Trial
from benchkit.services import deploy

HTTP_TIMEOUT_S = 10.0
FIRST_ERROR_STATUS = 400
"""Lowest status that fails the trial (RFC 9110, 15.5)."""


def probe_response(trial: Trial) -> None:
    """Send one request from the first load host, and keep the response."""
    load, host = trial.cell.load, trial.load_hosts[0]
    endpoint = next(
        each.service.endpoint for each in trial.running_services if each.service.name == trial.cell.spec.entry
    )
    response = host.sockets.http(
        deploy.socket_of(endpoint),
        load.path,
        method=load.method,
        headers=_probe_headers(load, endpoint.authority),
        body=(load.body or "").encode(),
        timeout_s=HTTP_TIMEOUT_S,
    )
    if response.status >= FIRST_ERROR_STATUS:
        raise ServiceError(f"{trial.cell.target} answers {response.status}", where=host.name)
    trial.probe = ProbeRecord(
        status=response.status,
        header_bytes=response.header_bytes,
        headers=response.headers,
        body_bytes=response.body_bytes,
        body_sha256=response.body_sha256,
    )


def _probe_headers(load: Load, authority: str) -> list[tuple[str, str]]:
    """Return the headers of the load, with the target's Host where they have none (RFC 9112, 3.2: exactly one).

    The response states whether the connection is closed, which changes its length, so the probe asks as the load does.
    """
    names = {name.lower() for name in load.headers}
    host = [] if "host" in names else [("Host", authority)]
    close = [] if load.keepalive or "connection" in names else [("Connection", "close")]
    return [*host, *close, *load.headers.items()]
