"""The protocols of a hop: HTTP/1.1 and HTTP/2, each with and without TLS, HTTP/3; TLS options; what was negotiated."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from benchkit.models.base import Frozen

HttpProtocol = Literal["http1", "https1", "h2", "h2c", "h3"]
"""HTTP/1.1, HTTP/1.1 over TLS, HTTP/2 over TLS, HTTP/2 without TLS (with prior knowledge, RFC 9113, 3.3).

HTTP/3 (RFC 9114) is spoken at once to the UDP port, without discovery by `Alt-Svc`."""

Protocol = HttpProtocol | Literal["fastcgi", "ssh", "postgres"]
"""Every protocol that a service may speak."""

TlsVersion = Literal["1.2", "1.3"]

CertificateKey = Literal["ecdsa-p256", "rsa-2048"]
"""Kind of the key of a certificate."""

Alpn = Literal["http/1.1", "h2", "h3"]
"""Name of a protocol in the handshake of TLS (ALPN, RFC 7301)."""

DnsName = Annotated[
    str,
    StringConstraints(
        strict=True,
        max_length=253,
        pattern=r"^([A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9])?\.)*[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?$",
    ),
]
"""Name of a host (RFC 1123, 2.1); its last part begins with a letter, which no address does."""

CertificateFile = Annotated[str, StringConstraints(strict=True, min_length=1, pattern=r"^[^\x00]+$")]


def is_tls(protocol: Protocol) -> bool:
    """Return True for HTTP over TLS, or over QUIC, which has TLS inside."""
    return protocol in {"https1", "h2", "h3"}


def is_http2(protocol: Protocol) -> bool:
    """Return True for HTTP/2, with or without TLS."""
    return protocol in {"h2", "h2c"}


def has_streams(protocol: Protocol) -> bool:
    """Return True where a connection can have many requests in flight: HTTP/2 and HTTP/3."""
    return is_http2(protocol) or protocol == "h3"


def alpn(protocol: Protocol) -> Alpn:
    """Return the name that TLS has for the version of HTTP of a protocol."""
    if protocol == "h3":
        return "h3"
    return "h2" if is_http2(protocol) else "http/1.1"


class TlsOptions(Frozen):
    """TLS of a service; without effect where its protocol has none."""

    version: TlsVersion = Field(default="1.3", description="the only version of TLS that it negotiates")
    key: CertificateKey = Field(default="ecdsa-p256", description="key of the certificate that benchkit makes")
    resumption: bool = Field(default=True, description="issue session tickets, with which clients resume")
    early_data: bool = Field(
        default=False,
        description="take the first request of a resumed connection of HTTP/3 within its handshake (0-RTT); an attacker can repeat it",
    )
    ciphers: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_+:-]+$")] | None = Field(
        default=None,
        description="allowed cipher suites by OpenSSL's names, with colons between",
        examples=["ECDHE-ECDSA-AES128-GCM-SHA256"],
    )
    certificate: CertificateFile | None = Field(
        default=None, description="of an external server, the file (PEM) that verifies it", examples=["authority.pem"]
    )
    server_name: DnsName | None = Field(
        default=None,
        description="name that clients ask for (SNI), verify, and send as `Host`; absent: the address, or the URL's host",
        examples=["my.example"],
    )


class Negotiated(Frozen):
    """Protocol, TLS version, cipher suite and key of a connection, as one of its ends states them."""

    protocol: HttpProtocol | None = Field(default=None, description="version of HTTP, with or without TLS")
    tls_version: str | None = Field(default=None, description="version of TLS, such as `1.3`; None: no TLS, or unknown")
    cipher: str | None = Field(default=None, description="cipher suite by OpenSSL's name; None: no TLS, or unknown")
    key: str | None = Field(
        default=None, description="kind of the certificate's key, such as `rsa-2048`; None: likewise"
    )
