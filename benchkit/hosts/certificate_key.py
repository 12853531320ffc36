"""The key of a certificate."""

from __future__ import annotations


def key_kind(certificate: bytes) -> str | None:
    """Return the kind of the key of a certificate (DER), as `rsa-2048` or `ecdsa-p256`; None for another kind."""
    from cryptography import x509  # noqa: PLC0415 - slow, and only TLS needs it
    from cryptography.hazmat.primitives.asymmetric import ec, rsa  # noqa: PLC0415

    key = x509.load_der_x509_certificate(certificate).public_key()
    if isinstance(key, rsa.RSAPublicKey):
        return f"rsa-{key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey):
        return "ecdsa-" + ("p256" if key.curve.name == "secp256r1" else key.curve.name)
    return None
