"""A server that others deploy: benchkit sends load to its URL, and knows nothing of its host."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Annotated, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from benchkit.document import SourceMap
from benchkit.models.protocol import HttpProtocol, TlsOptions, is_tls
from benchkit.services.backend import BackendOptions
from benchkit.services.placement import MAX_PORT, Endpoint

EXTERNAL = "external"
"""The value of `backend` in scenarios."""

_URL = re.compile(r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[0-9]{1,5}))?/?")
PORTS = {"http": 80, "https": 443}
"""Port of a URL that names none (RFC 9110, 4.2)."""


def _validate_url(url: str) -> str:
    if "@" in url:
        raise ValueError(
            "a URL must not contain user and password, as it is stored: give a header `Authorization: {env: NAME}`"
        )
    match = _URL.fullmatch(url)
    if match is None or not 0 < int(match["port"] or PORTS[match["scheme"]]) <= MAX_PORT:
        raise ValueError(
            f"found {url!r}; allowed: http[s]://HOST or http[s]://HOST:PORT; the load has the path (load.path)"
        )
    if match["host"].startswith("["):
        ipaddress.IPv6Address(match["host"].strip("[]"))
    return url


class ExternalOptions(BackendOptions):
    """Options of a server that others deploy; checks that need its host are skipped."""

    url: Annotated[
        str, AfterValidator(_validate_url), WithJsonSchema({"type": "string", "pattern": f"^{_URL.pattern}$"})
    ] = Field(
        description="where it listens, without a path",
        examples=["http://192.0.2.10:8080"],
    )
    protocol: HttpProtocol | None = Field(
        default=None,
        description="protocol that it speaks; absent: http1, or https1 where the URL begins with https",
        examples=["h2"],
    )
    tls: TlsOptions = Field(
        default_factory=TlsOptions,
        description="its TLS, as it is set up there, which every trial checks; `certificate` is the file that verifies "
        "it, its own or its authority's",
        examples=[{"certificate": "authority.pem", "version": "1.2"}],
    )

    @property
    def effective_protocol(self) -> HttpProtocol:
        """The protocol that it speaks: as given, else HTTP/1.1 by the scheme of its URL."""
        return self.protocol or ("https1" if self.url.startswith("https:") else "http1")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if is_tls(self.effective_protocol) != self.url.startswith("https:"):
            raise ValueError(
                f"protocol: {self.effective_protocol} does not fit {self.url}: https1, h2 and h3 need https"
            )
        return self


@dataclass(frozen=True)
class ExternalService:
    """A server that others deploy."""

    name: str
    url: str
    protocol: HttpProtocol
    tls: TlsOptions | None
    """Options of its TLS, with the file that verifies it as `certificate`; None without TLS."""
    source: SourceMap = field(compare=False, repr=False)
    """Lines of its options in the scenario, for messages."""

    @property
    def endpoint(self) -> Endpoint:
        """Its socket, as every host reaches it."""
        match = _URL.fullmatch(self.url)
        if match is None:
            raise ValueError(f"{self.url}: not the URL of a validated option")
        host = match["host"].strip("[]")
        port = int(match["port"] or PORTS[match["scheme"]])
        return Endpoint(host, self.protocol, address=host, port=port, tls=self.tls)
