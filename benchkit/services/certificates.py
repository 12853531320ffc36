"""Certificates of services that speak TLS: an authority and certificates made for one run, or the user's own.

Keys and certificates that are made stay in the memory of this process: the controller writes no key, and the next run
has new ones. On a host a key is a secret (mode 0600), which the host's agent removes with the changes of the
connection, also after a crash. Load hosts get only the certificate of the authority.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, TypeAlias

from benchkit.document import SourceMap
from benchkit.errors import FieldError, InputError, UnsupportedError
from benchkit.models.protocol import CertificateKey, TlsOptions
from benchkit.services.controller_files import LocalFile
from benchkit.services.placement import Endpoint, is_address
from benchkit.services.service import ControllerFile, ServiceFile

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    Extensions: TypeAlias = list[tuple[x509.ExtensionType, bool]]
    PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

VALIDITY = timedelta(days=30)
"""Longer than any run; a run that is resumed later has new certificates."""
CLOCK_TOLERANCE = timedelta(days=1)
"""Time by which a host's clock may be behind the controller's."""
FOLDER = "tls"
"""Folder of the certificate, within a service's folder."""
PRIVATE_FILE = 0o600
OTHERS = 0o077
"""Permissions of everybody but the owner of a file (chmod(2))."""
RSA_EXPONENT = 65537

PemPart = Literal["certificate", "key"]


@dataclass(frozen=True)
class KeyPair:
    """A certificate with its chain, and its private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class RunAuthority(ControllerFile):
    """The certificate of the authority that signs all certificates of this process."""

    def read(self) -> bytes:
        """Return the certificate (PEM)."""
        with _LOCK:
            return _pair(*_authority()).certificate


@dataclass(frozen=True)
class RunCertificate(ControllerFile):
    """A certificate that the run's authority signs, or its private key."""

    host: str
    """DNS name that it is valid for: `server_name`, or the name of its host in the inventory."""
    address: str | None
    """Address that it is valid for; None: none."""
    key: CertificateKey
    part: PemPart

    def read(self) -> bytes:
        """Return the certificate, or its private key (PEM)."""
        with _LOCK:
            pair = _run_pair(self.host, self.address, self.key)
        return pair.certificate if self.part == "certificate" else pair.key


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
    """Return the files of a service with this endpoint; none without TLS.

    Raises FieldError where a certificate of the user is not valid for its name or address.
    """
    tls, paths = endpoint.tls, tls_paths(folder)
    if tls is None:
        return ()
    certificate: ControllerFile
    key: ControllerFile
    if tls.certificate is not None and tls.private_key is not None:
        _require_name(Path(tls.certificate), endpoint)
        certificate, key = LocalFile(Path(tls.certificate)), LocalFile(Path(tls.private_key))
    else:
        name = tls.server_name or endpoint.host
        certificate = RunCertificate(name, endpoint.address, tls.key, "certificate")
        key = RunCertificate(name, endpoint.address, tls.key, "key")
    return (
        ServiceFile(paths.certificate, certificate),
        ServiceFile(paths.key, key, PRIVATE_FILE),
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

    Raises UnsupportedError where the user's certificate, or the URL of an external server, names addresses only.
    """
    tls = endpoint.tls
    if endpoint.server_name is not None:
        return endpoint.server_name
    if tls is None or tls.certificate is None:
        return endpoint.host
    is_external = tls.private_key is None
    if is_external:
        names = [] if is_address(endpoint.host) else [endpoint.host]
    else:
        names, _ = _subject_names(_load_certificate(Path(tls.certificate)))
    if (name := next((name for name in names if not name.startswith("*")), None)) is None:
        found = f"https://{endpoint.authority}" if is_external else tls.certificate
        raise UnsupportedError(f"{found} names no host: nginx verifies an upstream by its host name")
    return name


def resolve_tls(tls: TlsOptions, source: SourceMap) -> TlsOptions:
    """Return the options with the paths of the user's certificate and key, both validated, from the scenario's file.

    `source` has the lines of the options. Raises InputError naming file, line and field where a file cannot be read or
    is no PEM, or the certificate is not valid today. It is also raised for a key that others may read or that does not
    fit.
    """
    if tls.certificate is None:
        return tls
    if tls.private_key is None:
        raise InputError(source.fault(("certificate",), "certificate and private_key need each other"))
    certificate, key = source.file(tls.certificate, "certificate"), source.file(tls.private_key, "private_key")
    _validate_certificate(certificate, source)
    _validate_key(key, certificate, source)
    return tls.model_copy(update={"certificate": str(certificate), "private_key": str(key)})


def resolve_trust(tls: TlsOptions, source: SourceMap) -> TlsOptions:
    """Return the options of an external server, with the path of the file that verifies it, validated.

    Raises InputError naming file, line and field where the file is missing or not valid today.
    """
    if tls.certificate is None:
        message = "is missing: the file (PEM) that verifies the server, its own certificate or its authority's"
        raise InputError(source.fault(("certificate",), message))
    if tls.private_key is not None:
        raise InputError(
            source.fault(("private_key",), "not allowed: benchkit does not start this server, and needs no key")
        )
    certificate = source.file(tls.certificate, "certificate")
    _validate_certificate(certificate, source)
    return tls.model_copy(update={"certificate": str(certificate)})


_LOCK = threading.Lock()
"""Held while certificates are made: all of this process have one authority."""


@functools.cache
def _authority() -> tuple[x509.Certificate, PrivateKey]:
    from cryptography import x509  # noqa: PLC0415

    key = _create_key("ecdsa-p256")
    extensions: Extensions = [
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (_key_usage(signs_certificates=True), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    ]
    return _sign("benchkit: authority of one run", key, extensions), key


@functools.cache
def _run_pair(host: str, address: str | None, kind: CertificateKey) -> KeyPair:
    """Return a certificate with the address and the name of the host as subject alternative names (RFC 5280)."""
    from cryptography import x509  # noqa: PLC0415

    (authority, signer), key = _authority(), _create_key(kind)
    names = [x509.DNSName(host), *([] if address is None else [x509.IPAddress(ipaddress.ip_address(address))])]
    extensions: Extensions = [
        *_server_extensions(names),
        (_key_usage(signs_certificates=False), True),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ]
    return _pair(_sign(f"benchkit: {host}", key, extensions, issuer=(authority.subject, signer)), key)


def create_self_signed(address: str, name: str, validity: timedelta) -> KeyPair:
    """Return a certificate for an address that its own key signs; `name` is its common name."""
    from cryptography import x509  # noqa: PLC0415

    key, names = _create_key("ecdsa-p256"), [x509.IPAddress(ipaddress.ip_address(address))]
    return _pair(_sign(name, key, _server_extensions(names), validity=validity), key)


def _server_extensions(names: Sequence[x509.GeneralName]) -> Extensions:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    return [
        (x509.SubjectAlternativeName(names), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
    ]


def _sign(
    name: str,
    key: PrivateKey,
    extensions: Extensions,
    *,
    issuer: tuple[x509.Name, PrivateKey] | None = None,
    validity: timedelta = VALIDITY,
) -> x509.Certificate:
    """Return a certificate of a key with this common name; without an issuer, it is self-signed."""
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name[:64])])
    issuer_name, signer = issuer or (subject, key)
    number, now = x509.random_serial_number(), datetime.now(UTC)
    builder = x509.CertificateBuilder(
        issuer_name, subject, key.public_key(), number, now - CLOCK_TOLERANCE, now + validity
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, is_critical)
    return builder.sign(signer, SHA256())


def _pair(certificate: x509.Certificate, key: PrivateKey) -> KeyPair:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat  # noqa: PLC0415

    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(certificate.public_bytes(Encoding.PEM), private)


def _create_key(kind: CertificateKey) -> PrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415

    if kind == "ecdsa-p256":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(RSA_EXPONENT, int(kind.removeprefix("rsa-")))


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the uses of a key: signatures in handshakes, or of certificates (RFC 5280, 4.2.1.3).

    RSA keys need no key encipherment: suites without forward secrecy, which encrypt with the key, are not offered.
    """
    from cryptography import x509  # noqa: PLC0415

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _load_certificate(path: Path) -> x509.Certificate:
    from cryptography import x509  # noqa: PLC0415

    content = LocalFile(path).read()
    try:
        return x509.load_pem_x509_certificate(content)
    except ValueError:
        raise InputError(f"{path} has no certificate in PEM") from None


def _validate_certificate(path: Path, source: SourceMap) -> None:
    with source.located("certificate"):
        certificate = _load_certificate(path)
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not first <= datetime.now(UTC) <= last:
        message = f"{path} is only valid from {first:%Y-%m-%d} to {last:%Y-%m-%d}"
        hint = "renew it, or leave both out: benchkit makes one"
        raise InputError(source.fault(("certificate",), message), hint=hint)


def _validate_key(path: Path, certificate: Path, source: SourceMap) -> None:
    """Raise InputError for a key that others may read, that needs a password, or that is not the certificate's."""
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    with source.located("private_key"):
        content = LocalFile(path).read()
    mode = path.stat().st_mode & 0o777
    if mode & OTHERS:
        message = f"{path} may be used by others than its owner (mode {mode:o})"
        raise InputError(source.fault(("private_key",), message), hint=f"chmod 600 {path}")
    try:
        key = load_pem_private_key(content, password=None)
    except (TypeError, ValueError):
        message = f"{path} has no private key in PEM without a password"
        raise InputError(source.fault(("private_key",), message)) from None
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(*form) != _load_certificate(certificate).public_key().public_bytes(*form):
        raise InputError(source.fault(("private_key",), f"{path} is not the key of {certificate}"))


def _require_name(path: Path, endpoint: Endpoint) -> None:
    """Raise FieldError where a certificate of the user is not valid for the name or address that clients verify."""
    names, addresses = _subject_names(_load_certificate(path))
    wanted = endpoint.server_name or endpoint.address
    if wanted is None or wanted in addresses or any(_covers(name, wanted) for name in names):
        return
    found = ", ".join((*addresses, *names)) or "no host"
    name = next((name.replace("*", "www") for name in names), None)
    raise FieldError(
        "tls",
        f"{path} is not valid for {wanted}, where {endpoint.host} serves: it names {found}",
        hint="add the address to its subject alternative names: load tools connect to it"
        if name is None or endpoint.server_name is not None
        else f"set `server_name: {name}` in tls: clients then connect to the address and verify that name",
    )


def _covers(pattern: str, name: str) -> bool:
    """Return True if a DNS name of a certificate, which may begin with `*.`, is valid for a name (RFC 9525, 6.3)."""
    pattern, name = pattern.lower(), name.lower()
    return pattern == name or (pattern.startswith("*.") and name.partition(".")[2] == pattern[2:])


def _subject_names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    from cryptography import x509  # noqa: PLC0415

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [], []
    return names.get_values_for_type(x509.DNSName), [str(each) for each in names.get_values_for_type(x509.IPAddress)]
