"""The metrics of a trial: the numeric columns of `trials` that can be compared, by name. Derived from `TrialRow`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from benchkit import units
from benchkit.models.columns import FailureMetric, Metric, PercentileMetric
from benchkit.models.profile import CATEGORIES, PROFILE_METRICS
from benchkit.models.rows import TrialRow, columns_of

METRICS: Mapping[str, Metric] = MappingProxyType(
    {column.name: column for column in columns_of(TrialRow.TABLE) if isinstance(column, Metric)}
)

FAILURES = frozenset(name for name, metric in METRICS.items() if isinstance(metric, FailureMetric))
"""Counts of failed requests: 0 in a sound trial."""

PERCENTILES: Mapping[str, PercentileMetric] = MappingProxyType(
    {name: metric for name, metric in METRICS.items() if isinstance(metric, PercentileMetric)}
)
"""Latency percentiles, in ascending order."""

LATENCIES = tuple(name for name in METRICS if name.startswith("latency_"))
"""Mean, percentiles and maximum of the latency."""


_SHORT_NAMES: Mapping[str, str] = MappingProxyType(
    {short: name for name, metric in PERCENTILES.items() for short in (f"p{metric.percent:g}", name.split("_")[1])}
)
"""Columns of latency percentiles by the names that load tools print: `p99`, `p99.9` and `p999`."""


def metric_column(name: str) -> str:
    """Return the column that a percentile's short name stands for (`p99`: `latency_p99_s`); other names as they are."""
    return _SHORT_NAMES.get(name, name)


RPS, CPU, MEAN = "rps", "server_cpu_s_per_request", "latency_mean_s"
CAPACITY, GOODPUT = "capacity_rps", "overload_goodput_rps"
"""The metrics of capacity searches and of overload: comparisons show them first, where a run has them."""
P50, P99, P999 = "latency_p50_s", "latency_p99_s", "latency_p999_s"
"""The median and the tail that summaries show."""

GOROUTINES = "goroutines"
CLAIM_METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        **PROFILE_METRICS,
        GOROUTINES: Metric(
            name=GOROUTINES,
            description="median number of goroutines over the window, from samples of the server",
            unit="1",
            title="goroutines",
            better=None,
            format=units.count,
        ),
    }
)
"""Metrics that claims alone can use: they are in no column of `trials`."""


class ComponentMetric(NamedTuple):
    """CPU time per request of a service, or of a part of it; `part` is as a claim writes it, None: all of it."""

    service: str
    part: str | None = None


def component_metric(name: str) -> ComponentMetric | None:
    """Return what a name such as `cpu/front` or `cpu/front/read-write` stands for; None for any other name."""
    match = _COMPONENT.fullmatch(name)
    if match is None or (match["part"] is not None and match["part"] not in COMPONENT_PARTS):
        return None
    return ComponentMetric(match["service"], match["part"])


def part_in_claims(component: str) -> str:
    """Return the name of a component as claims write it: `read/write` is `read-write`."""
    return component.replace("/", "-").replace(" ", "-")


USER_CODE, KERNEL = "user code", "kernel"
COMPONENT_PARTS = (USER_CODE.replace(" ", "-"), KERNEL, *map(part_in_claims, CATEGORIES))
"""Parts of the CPU time of a service that claims may name."""
COMPONENT_FORM = "cpu/[a-z][a-z0-9_-]{0,63}(?:/[a-z-]+)?"
"""Form of the names of components: CPU time per request of a service, or of a part of it."""
_COMPONENT = re.compile(r"cpu/(?P<service>[a-z][a-z0-9_-]{0,63})(?:/(?P<part>[a-z-]+))?")


def metric_named(name: str) -> Metric:
    """Return the description of a column or profile metric; an unknown name gets a description without a direction."""
    unknown = Metric(name=name, description=name, unit=name, title=name, better=None, format=units.rate)
    component = component_metric(name)
    if component is not None:
        title = f"CPU time per request of {': '.join(filter(None, component))}"
        unknown = Metric(
            name=name, description=title, unit="sec/req", title=title, better="lower", format=units.seconds
        )
    return METRICS.get(name) or CLAIM_METRICS.get(name) or unknown
