"""Certificates of a run, and those of users with their faults."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from cryptography.x509.verification import PolicyBuilder, Store
from pydantic import ValidationError

from benchkit.document import Document, parse_document
from benchkit.errors import FieldError, InputError, UnsupportedError
from benchkit.models.protocol import TlsOptions
from benchkit.services import certificates
from benchkit.services.certificates import RunAuthority, RunCertificate, authority_name, tls_files, verified_name
from benchkit.services.controller_files import LocalFile
from benchkit.services.placement import Endpoint

FOLDER = PurePosixPath("/w/app")


def endpoint(tls: TlsOptions | None = None, address: str = "10.0.0.1") -> Endpoint:
    return Endpoint("sut", "h2", address, 8443, tls=tls or TlsOptions())


def write_pair(
    folder: Path,
    *,
    name: str = "own",
    from_days: int = -1,
    to_days: int = 10,
    address: str = "10.0.0.1",
    dns_name: str | None = None,
) -> tuple[Path, Path]:
    """Write a self-signed certificate for an address, or for a DNS name instead, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    valid_for = x509.IPAddress(ipaddress.ip_address(address)) if dns_name is None else x509.DNSName(dns_name)
    names = x509.SubjectAlternativeName([valid_for])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now + timedelta(days=from_days))
        .not_valid_after(now + timedelta(days=to_days))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    paths[1].chmod(0o600)
    return paths


def resolved(folder: Path, text: str) -> TlsOptions:
    document: Document = parse_document(text, str(folder / "one.yaml"))
    return certificates.resolve_tls(document.validated(TlsOptions), document.source)


@pytest.mark.parametrize("kind", ["ecdsa-p256", "rsa-2048"])
def test_the_authority_of_the_run_signs_certificates_for_address_and_name(kind: str) -> None:
    tls = TlsOptions.model_validate({"key": kind})
    certificate, key, authority = (file.content for file in tls_files(endpoint(tls), FOLDER))
    assert isinstance(certificate, RunCertificate)
    assert isinstance(key, RunCertificate)
    assert isinstance(authority, RunAuthority)
    leaf = x509.load_pem_x509_certificate(certificate.read())
    store = Store([x509.load_pem_x509_certificate(authority.read())])
    for subject in (x509.DNSName("sut"), x509.IPAddress(ipaddress.ip_address("10.0.0.1"))):
        assert PolicyBuilder().store(store).build_server_verifier(subject).verify(leaf, [])[0] == leaf
    assert isinstance(leaf.public_key(), {"ecdsa-p256": ec.EllipticCurvePublicKey, "rsa-2048": rsa.RSAPublicKey}[kind])
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


def test_a_certificate_of_the_user_replaces_that_of_the_run(tmp_path: Path) -> None:
    certificate, key = write_pair(tmp_path)
    tls = resolved(tmp_path, "certificate: own.pem\nprivate_key: own.key\n")
    assert (tls.certificate, tls.private_key) == (str(certificate), str(key))
    files = tls_files(endpoint(tls), FOLDER)
    contents = [file.content for file in files]
    assert [content.read() for content in contents if isinstance(content, LocalFile)] == [
        certificate.read_bytes(),
        key.read_bytes(),
        certificate.read_bytes(),
    ]
    assert authority_name(tls) != authority_name(TlsOptions())
    assert verified_name(endpoint()) == "sut"
    with pytest.raises(UnsupportedError, match="names no host"):
        verified_name(endpoint(tls))
    with pytest.raises(FieldError, match=r"not valid for 10\.0\.0\.2, where sut serves: it names 10\.0\.0\.1"):
        tls_files(endpoint(tls, "10.0.0.2"), FOLDER)


@pytest.mark.parametrize(("dns_name", "server_name"), [("my.example", "my.example"), ("*.example", "My.example")])
def test_a_certificate_of_a_name_is_taken_with_that_name(tmp_path: Path, dns_name: str, server_name: str) -> None:
    write_pair(tmp_path, dns_name=dns_name)
    own = "certificate: own.pem\nprivate_key: own.key\n"
    named = endpoint(resolved(tmp_path, f"{own}server_name: {server_name}\n"))
    assert len(tls_files(named, FOLDER)) == 3
    assert (named.host_header, verified_name(named)) == (server_name, server_name)
    with pytest.raises(
        FieldError, match=rf"not valid for 10\.0\.0\.1, .* it names {re.escape(dns_name)}\n.*`server_name: "
    ):
        tls_files(endpoint(resolved(tmp_path, own)), FOLDER)
    with pytest.raises(FieldError, match=r"not valid for a\.b\.example, "):
        tls_files(endpoint(resolved(tmp_path, f"{own}server_name: a.b.example\n")), FOLDER)


@pytest.mark.parametrize("name", ["10.0.0.1", "::1", "a b", "-a.example", "a..example", ""])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        TlsOptions(server_name=name)


def _exchange_keys(folder: Path) -> None:
    write_pair(folder)
    _, other = write_pair(folder, name="other")
    other.replace(folder / "own.key")


FAULTS: Mapping[str, Callable[[Path], object]] = {
    r"one\.yaml:1: certificate: .*own\.pem is only valid from ": lambda folder: write_pair(
        folder, from_days=-10, to_days=-3
    ),
    r"certificate: .*own\.pem is only valid from ": lambda folder: write_pair(folder, from_days=3),
    r"one\.yaml:2: private_key: .*own\.key is not the key of .*own\.pem": _exchange_keys,
    r"own\.key may be used by others than its owner \(mode 644\)": lambda folder: write_pair(folder)[1].chmod(0o644),
    r"private_key: .*own\.key has no private key in PEM": lambda folder: write_pair(folder)[1].write_text("nothing"),
    r"certificate: .*own\.pem has no certificate in PEM": lambda folder: write_pair(folder)[0].write_text("nothing"),
    r"certificate: cannot read .*own\.pem": lambda folder: write_pair(folder)[0].unlink(),
}
"""Messages about faults, each with the function that makes the fault."""


@pytest.mark.parametrize("message", list(FAULTS))
def test_faults_of_the_user_s_certificate(tmp_path: Path, message: str) -> None:
    FAULTS[message](tmp_path)
    with pytest.raises(InputError, match=message):
        resolved(tmp_path, "certificate: own.pem\nprivate_key: own.key\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("certificate: own.pem", "need each other"),
        ("certificate: a.pem\nprivate_key: a.key\nkey: rsa-2048", "excludes a certificate of yours"),
        ("resumption: false\nsession_cache_bytes: 1048576", "excludes resumption: false"),
        ("version: 1.1", "version"),
    ],
)
def test_options_that_do_not_fit_together(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolved(tmp_path, text)


def test_the_controller_writes_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    RunCertificate("sut", "10.9.9.9", "ecdsa-p256", "key").read()
    assert list(tmp_path.iterdir()) == []
