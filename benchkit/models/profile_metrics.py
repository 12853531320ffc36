"""Metrics of profiles that claims may compare: shares of a server's CPU samples, from the profiled trials of a run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from benchkit import units
from benchkit.models.categories import CATEGORIES, SCHEDULING, STUDIED
from benchkit.models.columns import Metric

SHARE: Final = "profile_share/"
"""Prefix of the share of a category, or of `scheduling`: categories are disjoint, and add up to 1."""
CUMULATIVE: Final = "profile_cumulative/"
"""Prefix of the cumulative share of a scheduler function with all that it calls, as study 4 printed it."""
HEADLINE = "scheduling"
"""The scheduler with its polling of the network, which is most of its work at many connections."""


def _metric(name: str, title: str) -> Metric:
    return Metric(name=name, description=title, unit="share", title=title, better=None, format=units.share)


PROFILE_METRICS: Mapping[str, Metric] = MappingProxyType(
    {
        metric.name: metric
        for metric in (
            _metric(f"{SHARE}{HEADLINE}", f"CPU share of {' and '.join(sorted(SCHEDULING, reverse=True))}"),
            *(_metric(f"{SHARE}{category}", f"CPU share of {category}") for category in CATEGORIES),
            *(_metric(f"{CUMULATIVE}{function}", f"cumulative CPU share of {function}") for function in STUDIED),
        )
    }
)
"""All of them, by name: `profile_share/scheduling`, `profile_share/gc`, `profile_cumulative/mcall`."""
