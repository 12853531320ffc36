"""What a run says of its own noise: how far cells are from themselves, and which differences its design can show."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.models.metrics import metric_named
from benchkit.report.ratio_labels import labels
from benchkit.report.stored_run import StoredRun

UNKNOWN = "No cell was run against itself: the noise floor of this run is not known."


def noise_of(run: StoredRun) -> list[str]:
    """A sentence each, metric by metric; none where no cells are compared."""
    if not run.comparisons:
        return []
    return [*_controls(run), *_resolutions(run)]


def _controls(run: StoredRun) -> Iterator[str]:
    """What cells differ from themselves by."""
    named = labels(run)
    found = [(metric_named(ratio.metric).title, ratio) for one in run.comparisons for ratio in one.controls]
    for title, ratio in found:
        itself = f"{title} of {named[ratio.baseline]} over itself"
        if ratio.low is None or ratio.high is None:
            yield f"{itself} is not known: {ratio.reason}."
        else:
            yield (
                f"{itself}: {ratio.ratio:.3f}, interval {ratio.low:.3f} to {ratio.high:.3f}; "
                "this is what the noise of the run alone comes to."
            )
    if not found:
        yield UNKNOWN


def _resolutions(run: StoredRun) -> Iterator[str]:
    for comparison in run.comparisons:
        (metric,) = comparison.metrics
        resolution = comparison.resolution.get(metric)
        if resolution is not None and resolution.detects:
            yield f"{metric_named(metric).title}: {resolution.detects}"
