"""A self-signed certificate for an address: the controller keeps it, and instructions tell users to trust it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from benchkit.services.endpoint import Endpoint
from benchkit.services.secret_files import get_or_create, save_copy, secret_path
from benchkit.services.service import ControllerFile

VALIDITY = timedelta(days=3650)
CLOCK_TOLERANCE = timedelta(days=1)
"""Time by which a host's clock may be behind the controller's."""


@dataclass(frozen=True)
class CertificateFile(ControllerFile):
    """A certificate or its private key (PEM)."""

    server: Endpoint
    part: Literal["certificate", "key"]

    def read(self) -> bytes:
        """Return the certificate, or its private key."""
        pair = get_or_create(f"key of {_name(self.server)}", lambda: _create_pair(str(self.server.address)))
        key, end, certificate = pair.partition(b"-----END PRIVATE KEY-----\n")
        return save_copy(_name(self.server), certificate) if self.part == "certificate" else key + end


def certificate_path(server: Endpoint) -> Path:
    """Return the path of the certificate on the controller, for the users who need it."""
    return secret_path(_name(server))


def _name(server: Endpoint) -> str:
    return f"certificate {server.host} {server.authority}"


def _create_pair(address: str) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"benchkit: module proxy at {address}")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_TOLERANCE)
        .not_valid_after(now + VALIDITY)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
