"""One request before the load: what the cell sends."""

from __future__ import annotations

from benchkit.errors import HostError
from benchkit.models.load import Load
from benchkit.models.trial import ProbeRecord
from benchkit.run.steps.trial_state import Trial
from benchkit.services import deploy

HTTP_TIMEOUT_S = 10.0
FIRST_FAILURE = 400
"""A status from here on is no answer to be measured (RFC 9110, 15.5)."""


def probe_response(trial: Trial) -> None:
    """Ask once, from the first load host, and keep what was answered."""
    load, host = trial.cell.load, trial.load_hosts[0]
    endpoint = next(each.service.endpoint for each in trial.running if each.service.name == trial.cell.cell.entry)
    answer = host.sockets.http(
        deploy.socket_of(endpoint),
        load.path,
        method=load.method,
        headers=_as_the_load_asks(load, endpoint.authority),
        body=(load.body or "").encode(),
        timeout_s=HTTP_TIMEOUT_S,
    )
    if answer.status >= FIRST_FAILURE:
        raise HostError(f"{trial.cell.target} answers {answer.status}", where=host.name)
    trial.probe = ProbeRecord(
        status=answer.status,
        header_bytes=answer.header_bytes,
        headers=answer.headers,
        body_bytes=answer.body_bytes,
        body_sha256=answer.body_sha256,
    )


def _as_the_load_asks(load: Load, authority: str) -> list[tuple[str, str]]:
    """The headers of the load, with the target's own Host where they have none (RFC 9112, 3.2: exactly one).

    Servers tell in their answer that a connection is closed after it, which makes it longer or shorter.
    """
    names = {name.lower() for name in load.headers}
    host = [] if "host" in names else [("Host", authority)]
    close = [] if load.keepalive or "connection" in names else [("Connection", "close")]
    return [*host, *close, *load.headers.items()]
