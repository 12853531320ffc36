"""Certificates of servers: made for each run by its own authority, or the file that verifies an external server."""

from __future__ import annotations

import functools
import hashlib
import threading
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from benchkit.document import SourceMap
from benchkit.errors import InputError, UnsupportedError
from benchkit.models.protocol import CertificateKey, TlsOptions
from benchkit.services.controller_files import LocalFile
from benchkit.services.placement import Endpoint, is_address
from benchkit.services.service import ControllerFile, ServiceFile

if TYPE_CHECKING:
    import trustme

FOLDER = "tls"
"""Folder of the certificate, within a service's folder."""
PRIVATE_FILE = 0o600

_LOCK = threading.Lock()
"""Held while certificates are made: all of this process have one authority."""


@dataclass(frozen=True)
class RunAuthority(ControllerFile):
    """The certificate of the authority that signs all certificates of this process."""

    def read(self) -> bytes:
        """Return the certificate (PEM)."""
        with _LOCK:
            return _authority().cert_pem.bytes()


@dataclass(frozen=True)
class RunCertificate(ControllerFile):
    """A certificate that the run's authority signs, or its private key."""

    host: str
    """DNS name that it is valid for: `server_name`, or the name of its host in the inventory."""
    address: str | None
    """Address that it is valid for; None: none."""
    key: CertificateKey
    part: Literal["certificate", "key"]

    def read(self) -> bytes:
        """Return the certificate, or its private key (PEM)."""
        with _LOCK:
            issued = _issued(self.host, self.address, self.key)
        return (issued.cert_chain_pems[0] if self.part == "certificate" else issued.private_key_pem).bytes()


@functools.cache
def _authority() -> trustme.CA:
    import trustme  # noqa: PLC0415 - slow, and only TLS needs it

    return trustme.CA(organization_name="benchkit: authority of one run")


@functools.cache
def _issued(host: str, address: str | None, kind: CertificateKey) -> trustme.LeafCert:
    import trustme  # noqa: PLC0415

    key_type = trustme.KeyType.ECDSA if kind == "ecdsa-p256" else trustme.KeyType.RSA  # of P-256, and of 2048 bits
    return _authority().issue_cert(*([address] if address else []), host, key_type=key_type)


@dataclass(frozen=True)
class TlsPaths:
    """The files of a service's TLS on its host."""

    certificate: PurePosixPath
    key: PurePosixPath
    authority: PurePosixPath
    """Certificates that verify it."""


def tls_paths(folder: PurePosixPath) -> TlsPaths:
    """Return the files of the TLS of a service with this folder."""
    inner = folder / FOLDER
    return TlsPaths(inner / "certificate.pem", inner / "key.pem", inner / "ca.pem")


def tls_files(endpoint: Endpoint, folder: PurePosixPath) -> tuple[ServiceFile, ...]:
    """Return the files of a service with this endpoint; none without TLS."""
    tls, paths = endpoint.tls, tls_paths(folder)
    if tls is None:
        return ()
    name = tls.server_name or endpoint.host
    return (
        ServiceFile(paths.certificate, RunCertificate(name, endpoint.address, tls.key, "certificate")),
        ServiceFile(paths.key, RunCertificate(name, endpoint.address, tls.key, "key"), PRIVATE_FILE),
        authority_file(tls, paths.authority),
    )


def authority_file(tls: TlsOptions, path: PurePosixPath) -> ServiceFile:
    """Return the file with the certificates that verify a service with these options."""
    return ServiceFile(path, RunAuthority() if tls.certificate is None else LocalFile(Path(tls.certificate)))


def authority_name(tls: TlsOptions) -> str:
    """Return the name of `authority_file` on load hosts: files whose contents may differ have different names."""
    if tls.certificate is None:
        return "ca.pem"
    return f"ca-{hashlib.sha256(tls.certificate.encode()).hexdigest()[:12]}.pem"


def verified_name(endpoint: Endpoint) -> str:
    """Return a DNS name that the certificate of a service is valid for.

    Raises UnsupportedError where the URL of an external server names an address only.
    """
    name = endpoint.server_name or endpoint.host
    if is_address(name):
        raise UnsupportedError(
            f"https://{endpoint.authority} names no host: nginx verifies an upstream by its host name"
        )
    return name


def require_no_certificate(tls: TlsOptions, source: SourceMap) -> None:
    """Raise InputError for a certificate of a service that benchkit starts: it makes one for each run."""
    if tls.certificate is not None:
        message = "not allowed: benchkit makes the certificate of a server that it starts; it is for external servers"
        raise InputError(source.fault(("certificate",), message))


def resolve_trust(tls: TlsOptions, source: SourceMap) -> TlsOptions:
    """Return the options of an external server, with the path of the file that verifies it.

    Raises InputError naming file, line and field where the file cannot be read.
    """
    if tls.certificate is None:
        message = "is missing: the file (PEM) that verifies the server, its own certificate or its authority's"
        raise InputError(source.fault(("certificate",), message))
    path = source.file(tls.certificate, "certificate")
    with source.located("certificate"):
        LocalFile(path).read()
    return tls.model_copy(update={"certificate": str(path)})
