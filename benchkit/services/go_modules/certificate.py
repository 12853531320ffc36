"""A certificate for an address, signed by itself: the controller makes and keeps it, and developers are told to trust it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from benchkit.services.backend import ControllerFile
from benchkit.services.endpoint import Endpoint
from benchkit.services.kept_secrets import handed_out, kept, kept_path

VALID = timedelta(days=3650)
AHEAD = timedelta(days=1)
"""Hosts' clocks may be behind the controller's."""


@dataclass(frozen=True)
class Certificate(ControllerFile):
    """One half of a certificate and its key (PEM)."""

    site: Endpoint
    half: Literal["certificate", "key"]

    def read(self) -> bytes:
        """The certificate, or its private key."""
        both = kept(f"key of {_name(self.site)}", lambda: _new_pair(str(self.site.address)))
        key, end, certificate = both.partition(b"-----END PRIVATE KEY-----\n")
        return handed_out(_name(self.site), certificate) if self.half == "certificate" else key + end


def certificate_file(site: Endpoint) -> Path:
    """Where the controller keeps the certificate, to be handed out."""
    return kept_path(_name(site))


def _name(site: Endpoint) -> str:
    return f"certificate {site.host} {site.authority}"


def _new_pair(address: str) -> bytes:
    from cryptography import x509  # noqa: PLC0415 - slow, and only the first deployment wants it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"benchkit: module proxy at {address}")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - AHEAD)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
