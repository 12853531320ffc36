"""Certificates of a run, and the file that verifies an external server."""

from __future__ import annotations

import ipaddress
from pathlib import Path, PurePosixPath

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from benchkit.document import parse_document
from benchkit.errors import InputError
from benchkit.models.protocol import TlsOptions
from benchkit.services.certificates import (
    RunAuthority,
    RunCertificate,
    resolve_trust,
    tls_files,
)
from benchkit.services.placement import Endpoint

FOLDER = PurePosixPath("/w/app")


def endpoint(tls: TlsOptions | None = None) -> Endpoint:
    return Endpoint("sut", "h2", "10.0.0.1", 8443, tls=tls or TlsOptions())


@pytest.mark.parametrize(
    ("kind", "key_type"), [("ecdsa-p256", ec.EllipticCurvePublicKey), ("rsa-2048", rsa.RSAPublicKey)]
)
def test_the_authority_of_the_run_signs_certificates_for_address_and_name(kind: str, key_type: type) -> None:
    tls = TlsOptions.model_validate({"key": kind})
    certificate, key, authority = (file.content for file in tls_files(endpoint(tls), FOLDER))
    assert isinstance(certificate, RunCertificate)
    assert isinstance(key, RunCertificate)
    assert isinstance(authority, RunAuthority)
    leaf = x509.load_pem_x509_certificate(certificate.read())
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.read()))
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names) == {x509.DNSName("sut"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))}
    assert isinstance(leaf.public_key(), key_type)
    private = serialization.load_pem_private_key(key.read(), None)
    assert private.public_key() == leaf.public_key()
    assert certificate.read() == certificate.read()


def test_a_key_is_a_secret_on_its_host_and_nowhere_in_a_plan() -> None:
    files = tls_files(endpoint(), FOLDER)
    assert [(str(file.path), file.mode) for file in files] == [
        ("/w/app/tls/certificate.pem", 0o644),
        ("/w/app/tls/key.pem", 0o600),
        ("/w/app/tls/ca.pem", 0o644),
    ]
    assert "PRIVATE" not in repr(files)
    assert tls_files(Endpoint("sut", "http1", "10.0.0.1", 8080), FOLDER) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "is missing: the file"),
        ("certificate: none.pem", "cannot read .*none.pem"),
    ],
)
def test_a_file_that_verifies_nothing_is_refused(tmp_path: Path, text: str, message: str) -> None:
    document = parse_document(text, str(tmp_path / "one.yaml"))
    with pytest.raises(InputError, match=rf"one\.yaml.*certificate: .*{message}"):
        resolve_trust(document.validated(TlsOptions), document.source)
