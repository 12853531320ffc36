"""The target of a load: the socket that its requests go to, and the protocol in which they are sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.models.protocol import HttpProtocol, TlsOptions, is_tls


@dataclass(frozen=True)
class Target:
    """The entry of a cell as its generators reach it."""

    authority: str
    """Address and port: `10.0.0.2:8080`."""
    protocol: HttpProtocol = "http1"
    tls: TlsOptions | None = None
    """Options of the entry's TLS; None without TLS."""
    ca_file: PurePosixPath | None = None
    """File on the load hosts with the certificates (PEM) that verify the entry's; None without TLS."""

    @property
    def server_name(self) -> str | None:
        """Name to ask for in the handshake of TLS, to verify, and to send as `Host`; None: that of the authority."""
        return None if self.tls is None else self.tls.server_name

    @property
    def origin(self) -> str:
        """URL without a path: `https://10.0.0.2:8080` (RFC 6454)."""
        return f"{'https' if is_tls(self.protocol) else 'http'}://{self.authority}"
