"""The figures of a trial by the names of their columns: what people call them, and which way is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from benchkit import units

Better = Literal["higher", "lower"]
Formatter = Callable[[float | None], str]


@dataclass(frozen=True)
class Metric:
    """A numeric column of `trials`; `better` is None where neither way is."""

    name: str
    title: str
    better: Better | None
    format: Formatter
    """Its values as people read them."""
    unit: str
    """The SI unit of its values, as benchmark formats write it after a number."""


def _metrics() -> dict[str, Metric]:
    latencies = {
        "latency_mean_s": "mean latency",
        "latency_p50_s": "p50 latency",
        "latency_p90_s": "p90 latency",
        "latency_p99_s": "p99 latency",
        "latency_p999_s": "p99.9 latency",
        "latency_p9999_s": "p99.99 latency",
        "latency_max_s": "longest latency",
    }
    failures = {
        "errors_connect": "failed connects",
        "errors_read": "read errors",
        "errors_write": "write errors",
        "errors_timeout": "timeouts",
        "non_2xx": "answers other than 2xx",
    }
    known = [
        Metric("rps", "RPS", "higher", units.rate, "req/s"),
        Metric("requests", "requests", "higher", units.count, "requests"),
        Metric("bytes_per_s", "bytes per second", "higher", units.bytes_per_s, "B/s"),
        Metric("bytes_total", "bytes", None, units.size, "B"),
        *(Metric(name, title, "lower", units.seconds, "sec") for name, title in latencies.items()),
        *(Metric(name, title, "lower", units.count, "count") for name, title in failures.items()),
        Metric("server_cpu_s_per_request", "server CPU per request", "lower", units.seconds, "sec/req"),
        Metric("rate_first_over_last", "rate in the first third over the last", None, units.ratio, "ratio"),
        Metric("server_loop_s", "a small loop on the server's cores", None, units.seconds, "sec"),
        Metric("overhead_s", "overhead of a trial", "lower", units.seconds, "sec"),
        Metric("duration_s", "measured window", None, units.seconds, "sec"),
    ]
    return {metric.name: metric for metric in known}


METRICS = MappingProxyType(_metrics())

FAILURES = frozenset(name for name, metric in METRICS.items() if metric.unit == "count")
"""Counts of failed requests: none in a sound trial."""


def metric_named(name: str) -> Metric:
    """What is known of the column of that name; of others no more than that they are numbers."""
    return METRICS.get(name) or Metric(name, name, None, units.rate, name)
