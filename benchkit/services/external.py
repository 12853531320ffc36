"""A server that is there already: benchkit sends load to its URL, and neither starts nor watches it."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, Field, WithJsonSchema

from benchkit.document import SourceMap
from benchkit.models.protocol import Protocol
from benchkit.services.backend import BackendOptions
from benchkit.services.endpoint import MAX_PORT, Endpoint

EXTERNAL = "external"
"""The value of `backend` in scenarios."""

_URL = re.compile(r"http://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?/?")
HTTP_PORT = 80


def _check_url(url: str) -> str:
    match = _URL.fullmatch(url)
    if match is None or not 0 < int(match["port"] or HTTP_PORT) <= MAX_PORT:
        raise ValueError(f"found {url!r}; allowed: http://HOST or http://HOST:PORT; the load has the path (load.path)")
    if match["host"].startswith("["):
        ipaddress.IPv6Address(match["host"].strip("[]"))
    return url


class ExternalOptions(BackendOptions):
    """Options of a server that benchkit neither starts nor watches; every check that needs its host is skipped."""

    url: Annotated[
        str, AfterValidator(_check_url), WithJsonSchema({"type": "string", "pattern": f"^{_URL.pattern}$"})
    ] = Field(description="where it listens, without a path", examples=["http://192.0.2.10:8080"])


@dataclass(frozen=True)
class ExternalService:
    """A server that is there already."""

    name: str
    url: str
    source: SourceMap = field(compare=False, repr=False)
    """Lines of its options in the scenario, for messages."""

    @property
    def protocol(self) -> Protocol:
        """The protocol that it speaks."""
        return "http1"

    @property
    def endpoint(self) -> Endpoint:
        """Its socket, as every host reaches it."""
        match = _URL.fullmatch(self.url)
        if match is None:
            raise ValueError(f"{self.url}: not the URL of a checked option")
        host = match["host"].strip("[]")
        return Endpoint(host, "http1", address=host, port=int(match["port"] or HTTP_PORT))
