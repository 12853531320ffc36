"""How ratios are called and written in a report."""

from __future__ import annotations

from benchkit.analysis.ratio import Ratio
from benchkit.models.design import controlled
from benchkit.report.stored_run import StoredRun


def labels(run: StoredRun) -> dict[str, str]:
    """What cells are called, controls among them, by their ids."""
    named = {view.cell_id: view.label for view in run.cells}
    ids = [cell.cell_id for cell in run.manifest.cells]
    controls = {cell_id: own for cell_id in ids if (own := controlled(cell_id)) is not None}
    return named | {cell_id: f"{named[own]} (control)" for cell_id, own in controls.items()}


def bracketed(ratio: Ratio) -> str:
    """The ratio with its interval, as text and figures write it."""
    if ratio.ratio is None:
        return "no ratio"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.3g}, no interval"
    return f"{ratio.ratio:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]"
