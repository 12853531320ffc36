"""Tests of checks of conditions: the profiler, processes, CPUs and protocols."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL, SERVER_CPU
from benchkit.models.load_result import LoadResult
from benchkit.models.protocol import Negotiated, TlsOptions
from benchkit.models.run import ControllerRecord
from benchkit.models.trial import ProbeRecord
from tests.support.judge.builders import (
    build_generator,
    build_load,
    build_service,
    build_trial,
    finding_of,
    skip_reason,
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


def test_children_that_no_group_counts() -> None:
    assert finding_of("escaped-children", build_trial(services=(build_service(),))) is None
    escaping = build_service(escape="app (pid 7) ignores SIGCHLD")
    found = finding_of("escaped-children", build_trial(services=(escaping,)))
    assert found is not None
    assert (found.severity, found.metrics) == ("suspect", SERVER_CPU)
    assert found.seen == "service app: app (pid 7) ignores SIGCHLD"


@pytest.mark.parametrize(("cpus", "expected"), [((1,), False), ((0, 1), True)])
def test_common_cpu_on_one_machine(cpus: tuple[int, ...], *, expected: bool) -> None:
    found = finding_of("shared-cpus", build_trial(generators=(build_generator(cpus=cpus),)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("suspect", ALL)


@pytest.mark.parametrize(("cpuset", "expected"), [((1,), False), ((0, 1), True)])
def test_the_cpus_of_a_container_are_those_of_its_cpuset(cpuset: tuple[int, ...], *, expected: bool) -> None:
    """A quota makes no CPU its own: only the cpuset does."""
    container = build_service(cpus=cpuset, quota=0.5, has_own_quota=True)
    load = build_generator(cpus=(0,))
    assert (finding_of("shared-cpus", build_trial(services=(container,), generators=(load,))) is not None) == expected


@pytest.mark.parametrize(
    ("machine", "cpus", "expected"),
    [("one machine", (1,), False), ("one machine", (0, 1), True), ("mine", (0,), False)],
)
def test_common_cpu_with_the_controller(machine: str, cpus: tuple[int, ...], *, expected: bool) -> None:
    trial_with_unwatched_host = ControllerRecord(machine=machine, cpus=cpus)
    found = finding_of("shared-cpus", build_trial(controller=trial_with_unwatched_host))
    assert (found is not None) == expected
    assert found is None or found.seen == "the server and benchkit itself may run on the same CPU: 0"


def test_same_number_on_another_machine_is_another_cpu() -> None:
    elsewhere = {"load": {"boot_id": "another"}}
    assert finding_of("shared-cpus", build_trial(generators=(build_generator(cpus=(0,)),), facts=elsewhere)) is None


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
    own = TlsOptions(certificate="/a.pem")
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
