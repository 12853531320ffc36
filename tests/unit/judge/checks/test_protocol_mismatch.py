"""Tests of the check protocol-mismatch."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from benchkit.models.load_result import LoadResult
from benchkit.models.protocol import Negotiated, TlsOptions
from benchkit.models.trial import ProbeRecord
from tests.support.judge.builders import build_generator, build_load, build_trial, finding_of, skip_reason

TLS = TlsOptions(ciphers="TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384")
AGREED = Negotiated(protocol="h2", tls_version="1.3", cipher="TLS_AES_256_GCM_SHA384", key="ecdsa-p256")


def probe(negotiated: Negotiated | None) -> ProbeRecord:
    return ProbeRecord(
        status=200, header_bytes=141, headers=(), body_bytes=12, body_sha256="0" * 64, negotiated=negotiated
    )


@pytest.mark.parametrize(
    ("field", "value", "seen"),
    [
        ("protocol", "h2", None),
        ("protocol", "https1", "https1, not h2"),
        ("tls_version", "1.2", "TLS 1.2, not 1.3"),
        ("cipher", "TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256, not TLS_AES_128_GCM_SHA256 or"),
        ("key", "rsa-2048", "a key of the kind rsa-2048, not ecdsa-p256"),
        ("key", None, None),
    ],
)
def test_what_was_negotiated_is_compared_with_what_was_asked_for(
    field: str, value: str | None, seen: str | None
) -> None:
    agreed = AGREED.model_copy(update={field: value})
    found = finding_of("protocol-mismatch", build_trial(protocol="h2", tls=TLS, probe=probe(agreed)))
    assert (found is not None) == (seen is not None)
    if found is not None and seen is not None:
        assert seen in found.seen
        assert (found.severity, found.metrics) == ("invalid", ALL)


def test_any_probe_counts_and_a_certificate_of_the_user_has_any_key() -> None:
    other = probe(AGREED.model_copy(update={"protocol": "https1"}))
    assert finding_of(
        "protocol-mismatch", build_trial(protocol="h2", tls=TLS, probe=probe(AGREED), other_probes=(other,))
    )
    own = TlsOptions(certificate="/a.pem", private_key="/a.key")
    rsa = probe(AGREED.model_copy(update={"key": "rsa-4096"}))
    assert finding_of("protocol-mismatch", build_trial(protocol="h2", tls=own, probe=rsa)) is None


def test_the_tool_s_own_statement_counts_too() -> None:
    result = LoadResult(tool="h2load", negotiated=Negotiated(protocol="https1"))
    load = build_load(tool="h2load")
    generator = build_generator(load=load, result=result)
    found = finding_of(
        "protocol-mismatch",
        build_trial(protocol="h2", tls=TLS, probe=probe(AGREED), generators=(generator,), load=load),
    )
    assert found is not None
    assert found.seen == "h2load negotiated https1, not h2"


def test_runs_from_before_there_were_protocols() -> None:
    assert finding_of("protocol-mismatch", build_trial(probe=probe(None))) is None
    assert "no protocol" in skip_reason("protocol-mismatch", build_trial(protocol="h2", probe=probe(None)))
