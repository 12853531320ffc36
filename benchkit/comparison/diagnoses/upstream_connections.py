"""Diagnosis upstream-connections: a server opens a connection to the one behind it for each request."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean, stands_out

LEAST = 0.5
"""Connections for each request from which on most requests open one."""


def _opened(cell: CellEvidence) -> float | None:
    """Return the connections opened to the servers behind for each request; None: there is none, or it is unknown."""
    behind = [name for name in cell.services if name != cell.entry]
    if not behind:
        return None
    accepted = [cell.per_request("connections_accepted_total", name) for name in behind]
    opened = max((values for values in accepted if len(values)), key=lambda values: values.mean(), default=np.empty(0))
    if not len(opened):
        opened = cell.per_request("tcp_active_opens_total", host_wide=True)
        if cell.shares_load_host and not cell.keeps_connections:
            opened = opened - 1.0  # the load opens one for each request
    return mean(opened)


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    number = _opened(cell)
    if number is not None and stands_out(number, _opened(other), LEAST):
        yield Symptom(
            service=cell.entry,
            text="opens a connection to its upstream for nearly every request",
            evidence=f"{number:.2f} connections per request",
            next_step="Keep connections to the upstream: nginx needs `keepalive` there, and before 1.29.7 "
            "`proxy_http_version 1.1` with an empty `Connection` header.",
        )


DIAGNOSIS = Diagnosis("upstream-connections", _find)
