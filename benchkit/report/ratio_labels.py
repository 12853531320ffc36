"""Names of cells in ratios, and the text of a ratio."""

from __future__ import annotations

from benchkit.comparison.ratios import Ratio
from benchkit.comparison.texts import NOT_USABLE
from benchkit.models.design import controlled
from benchkit.report.stored_run import StoredRun


def cell_names(run: StoredRun) -> dict[str, str]:
    """Return the labels of all cells by their ids, controls included."""
    controls = {cell.cell_id: base for cell in run.manifest.cells if (base := controlled(cell.cell_id)) is not None}
    return run.labels | {cell_id: f"{run.labels[base]} (control)" for cell_id, base in controls.items()}


def ratio_with_interval(ratio: Ratio) -> str:
    """Return the ratio with its interval as text: `0.554 [0.537, 0.571]`."""
    if ratio.ratio is None:
        return "no ratio"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.3g}, {NOT_USABLE if ratio.is_unusable else 'no interval'}"
    return f"{ratio.ratio:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]"
