"""Noise of a run: ratios of cells to themselves, and the differences that its design can detect."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.models.metrics import metric_named
from benchkit.report.ratio_labels import cell_names
from benchkit.report.stored_run import StoredRun

UNKNOWN = "No cell was compared with itself: the noise floor of this run is not known."


def noise_notes(run: StoredRun) -> list[str]:
    """Return a sentence for each ratio and metric; none if no cells are compared."""
    if not run.comparisons:
        return []
    return [*_control_ratios(run), *_detectable_differences(run)]


def _control_ratios(run: StoredRun) -> Iterator[str]:
    """Yield the ratios of cells to themselves."""
    names = cell_names(run)
    controls = [(metric_named(ratio.metric).title, ratio) for one in run.comparisons for ratio in one.controls]
    for title, ratio in controls:
        itself = f"{title} of {names[ratio.baseline]} relative to itself"
        if ratio.low is None or ratio.high is None:
            yield f"{itself} is not known: {ratio.reason}."
        else:
            yield (
                f"{itself}: {ratio.ratio:.3f}, interval {ratio.low:.3f} to {ratio.high:.3f}; "
                "this is the noise of the run alone."
            )
    if not controls:
        yield UNKNOWN


def _detectable_differences(run: StoredRun) -> Iterator[str]:
    for comparison in run.comparisons:
        (metric,) = comparison.metrics
        resolution = comparison.resolution.get(metric)
        if resolution is not None and resolution.detects:
            yield f"{metric_named(metric).title}: {resolution.detects}"
