"""Trials as stored, made up: a healthy one, and whatever a test makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from benchkit.analysis.verdicts.check import CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.analysis.verdicts.registry import CHECKS
from benchkit.analysis.verdicts.trial_telemetry import TrialTelemetry
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult
from benchkit.models.rows import Columns, TelemetryRow, TrialRow
from benchkit.models.run import ControllerRecord
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import GeneratorRecord, ProbeRecord, ServiceRecord, TrialRecord, WatchRecord

WINDOW_S = 3.0
FACTS = {
    "sut": {"cpus": [0], "boot_id": "one machine", "sysctls": {}, "cpu_model": "Example CPU @ 2.50GHz"},
    "load": {
        "cpus": [1],
        "boot_id": "one machine",
        "sysctls": {"net.ipv4.ip_local_port_range": "10001 11000"},
        "cpu_model": "Example CPU @ 2.50GHz",
    },
}
ROW: Mapping[str, Any] = {
    "cell_id": "only",
    "trial_id": "r.b001.p001",
    "block": 1,
    "position": 1,
    "kind": "measure",
    "tool": "wrk",
    "requests": 100_000,
    "rps": 50_000.0,
    "bytes_total": 100_000 * 153.0,
    "latency_mean_s": 64 / 50_000,
    "latency_covers": "request",
    "latency_corrected": False,
    "latency_resolution_s": 1e-6,
    "errors_connect": 0,
    "errors_read": 0,
    "errors_write": 0,
    "errors_timeout": 0,
    "non_2xx": 0,
}

Key = tuple[str, str, str | None, str | None]
"""Metric, host, service, instance."""

Samples = Mapping[Key, Mapping[float, float]]
"""Value by instant."""


def cores(
    host: str, core: int, user: float = 0.0, softirq: float = 0.0, steal: float = 0.0
) -> dict[Key, dict[float, float]]:
    """The counters of a core that worked for these shares of the window, and did nothing before and after."""
    looks = (-0.01, WINDOW_S + 0.05)
    spent = {"user": user, "system": 0.0, "irq": 0.0, "iowait": 0.0, "softirq": softirq, "steal": steal}
    seconds = {kind: share * WINDOW_S for kind, share in spent.items()}
    seconds["idle"] = looks[1] - looks[0] - sum(seconds.values())
    return {
        (f"cpu_{kind}_s_total", host, None, str(core)): dict(zip(looks, (0.0, grown), strict=True))
        for kind, grown in seconds.items()
    }


def steadily(host: str) -> dict[Key, dict[float, float]]:
    """A host sampled every half second, and at the ends of the window."""
    return {("load1", host, None, None): dict.fromkeys((-0.5, -0.01, 0.5, 1.0, 1.5, 2.0, 2.5, 3.05), 1.0)}


def healthy() -> dict[Key, dict[float, float]]:
    """What was watched of a trial with nothing against it: server and generator busy on cores of their own."""
    return {
        **{key: value for host in ("sut", "load") for core in (0, 1) for key, value in _both(host, core).items()},
        **steadily("sut"),
        **steadily("load"),
        ("cpu_s_total", "sut", "app", None): {-0.01: 0.0, 3.05: 0.9 * WINDOW_S},
        ("requests_total", "sut", "app", "1"): {-0.01: 0, 1.0: 50_000, 2.0: 100_000, 3.05: 150_000},
        ("connections_established", "sut", "app", "8080"): {0.5: 64, 1.0: 64, 1.5: 64},
        ("accept_queue", "sut", "app", "0.0.0.0:8080"): {0.5: 0, 1.0: 3},
        ("accept_queue_limit", "sut", "app", "0.0.0.0:8080"): {0.5: 511, 1.0: 511},
        **{(metric, "sut", None, None): {-0.01: 7.0, 3.05: 7.0} for metric in DROPS},
        ("tcp_sockets", "load", None, "time_wait"): {-0.01: 5, 1.0: 6},
        ("tcp_sockets", "load", None, "in_use"): {-0.01: 1, 1.0: 65},
        ("cgroup_throttled_s_total", "sut", None, None): {-0.01: 0.0, 3.05: 0.0},
        ("cpu_frequency_hz", "sut", None, "0"): {1.5: 2.6e9},
        ("cpu_frequency_hz", "load", None, "1"): {1.5: 2.6e9},
        **{key: value for host in ("sut", "load") for key, value in sent(host, 60e6).items()},
    }


def sent(host: str, bits_per_s: float, packets: float = 0, interface: str = "eth0") -> dict[Key, dict[float, float]]:
    """What a host sent over an interface, which received nothing: packets all in all."""
    counted = {"bytes": bits_per_s / 8 * WINDOW_S, "packets": packets}
    return {(f"net_sent_{what}_total", host, None, interface): {-0.01: 0, 3.05: each} for what, each in counted.items()}


DROPS = (
    "listen_overflows_total",
    "listen_drops_total",
    "req_queue_full_drops_total",
    "req_queue_full_cookies_total",
)


def _both(host: str, core: int) -> dict[Key, dict[float, float]]:
    return cores(host, core, user=0.9 if core == 0 else 0.6, softirq=0.05)


def columns(samples: Samples) -> Columns[TelemetryRow]:
    """Return samples as the columns of the `telemetry` table."""
    return Columns.of_rows(
        TelemetryRow,
        [
            TelemetryRow(
                trial_id="r.b001.p001",
                host=host,
                role=host,
                service=service,
                instance=instance,
                t_s=t_s,
                metric=metric,
                unit="1",
                value=value,
            )
            for (metric, host, service, instance), values in samples.items()
            for t_s, value in values.items()
        ],
    )


def service(**fields: object) -> ServiceRecord:
    """A Go server on CPU 0 of `sut` that took 90 % of it."""
    return ServiceRecord.model_validate(
        {
            "name": "app",
            "backend": "nethttp",
            "host": "sut",
            "pid": 10,
            "argv": ("nethttp",),
            "cpu_s": 0.9 * WINDOW_S,
            "cpus": (0,),
            "parallelism": 1,
            "pids_before": ((10, 100),),
            "pids_after": ((10, 100),),
            **fields,
        }
    )


def generator(**fields: object) -> GeneratorRecord:
    """A wrk of one thread on CPU 1 of `load` that took 60 % of it."""
    return GeneratorRecord.model_validate(
        {
            "number": 1,
            "host": "load",
            "argv": ("/usr/bin/wrk", "-t1"),
            "load": load(),
            "files": {},
            "started_s": 0.0,
            "wall_s": WINDOW_S,
            "cpu_s": 0.6 * WINDOW_S,
            "cpus": (1,),
            "threads": 1,
            "result": LoadResult(tool="wrk", connections=64),
            **fields,
        }
    )


def load(**fields: object) -> Load:
    """64 connections at full speed."""
    return Load.model_validate({"tool": "wrk", "connections": 64, "duration_s": WINDOW_S, **fields})


def watch(host: str, **fields: object) -> WatchRecord:
    """A host sampled every half second."""
    return WatchRecord.model_validate(
        {
            "host": host,
            "roles": (host,),
            "file": f"telemetry.{host}.jsonl",
            "interval_s": 0.5,
            "window_ns": (0, 2_000_000_000),
            "clock_uncertainty_s": 0.001,
            **fields,
        }
    )


def trial(
    samples: Samples | None = None,
    *,
    row: Mapping[str, object] | None = None,
    facts: Mapping[str, Mapping[str, object]] | None = None,
    notes: Mapping[str, str] | None = None,
    asked: frozenset[str] = frozenset({"rps"}),
    scenario: Mapping[str, object] | None = None,
    controller: ControllerRecord | None = None,
    without: tuple[str, ...] = (),
    **record: object,
) -> Evidence:
    """A healthy trial with these samples, row values, facts and fields of its record in the place of its own.

    Facts of a host are laid over its own; metrics named by `without` were not watched.
    """
    everything = {key: value for key, value in {**healthy(), **(samples or {})}.items() if key[0] not in without}
    fields = {
        "trial_id": "r.b001.p001",
        "cell_id": "only",
        "levels": {},
        "block": 1,
        "position": 1,
        "started_at": datetime(2026, 3, 1, tzinfo=UTC),
        "wall_s": 3.0,
        "load": load(),
        "target": "http://10.0.0.1:8080/",
        "services": (service(),),
        "generators": (generator(),),
        "probe": ProbeRecord(status=200, header_bytes=141, headers=(), body_bytes=12, body_sha256="0" * 64),
        "watched": (watch("sut"), watch("load")),
        **record,
    }
    return Evidence(
        record=TrialRecord.model_validate(fields),
        row=TrialRow(**{**ROW, **(row or {})}),
        telemetry=TrialTelemetry(columns(everything)),
        facts={host: {**own, **((facts or {}).get(host, {}))} for host, own in FACTS.items()},
        notes=notes or {},
        requested_metrics=asked,
        scenario=scenario or {},
        controller=controller,
    )


def look(code: str, evidence: Evidence, **thresholds: float) -> Finding | None:
    """What a check has against a trial: its only reason, or None; it must have been able to look."""
    found: CheckResult = CHECKS[code].of_trial(evidence, Thresholds(**thresholds))
    assert not isinstance(found, SkippedCheck), found
    assert len(found) <= 1, found
    return found[0] if found else None


def unchecked(code: str, evidence: Evidence) -> str:
    """Why a check could not be made."""
    found = CHECKS[code].of_trial(evidence, Thresholds())
    assert isinstance(found, SkippedCheck), found
    return found.why
