"""Tests of checks of conditions: the profiler, processes, CPUs and protocols."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from benchkit.models.protocol import Negotiated, TlsOptions
from benchkit.models.trial import ProbeRecord
from tests.support.judge.builders import (
    build_generator,
    build_service,
    build_trial,
    finding_of,
)


def test_profile_trial_is_invalid() -> None:
    assert finding_of("observed", build_trial()) is None
    finding = finding_of("observed", build_trial(kind="profile"))
    assert finding is not None
    assert (finding.severity, finding.metrics) == ("invalid", ALL)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (((10, 100), (11, 100)), False),
        (((10, 100), (11, 100), (12, 170)), False),
        (((10, 100), (12, 170)), True),
        (((10, 100),), True),
        (((10, 100), (11, 170)), True),
    ],
)
def test_changed_processes(after: tuple[tuple[int, int], ...], *, expected: bool) -> None:
    """Treat a reused pid as another process."""
    one = build_service(pids_before=((10, 100), (11, 100)), pids_after=after)
    found = finding_of("service-restarted", build_trial(services=(one,)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", ALL)


@pytest.mark.parametrize(("cpus", "expected"), [((1,), False), ((0, 1), True)])
def test_common_cpu_on_one_machine(cpus: tuple[int, ...], *, expected: bool) -> None:
    found = finding_of("shared-cpus", build_trial(generators=(build_generator(cpus=cpus),)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("suspect", ALL)


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
