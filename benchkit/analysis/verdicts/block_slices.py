"""The slices of sliced blocks in the order in which they ran, with the cell before each."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchkit.analysis.verdicts.block_balance import sliced_trials
from benchkit.analysis.verdicts.evidence import RunEvidence

COLUMNS = ("block", "slice", "place", "trial_id", "cell_id", "requests", "started_s")


def ordered_slices(evidence: RunEvidence) -> pd.DataFrame:
    """Return the slices of measured trials by block and time, with `log_rps` and the cell `before` each.

    `log_rps` is NaN for a slice without an answer. `before` is None for the first slice of a block, and after a slice
    of a trial that failed.
    """
    trials = sliced_trials(evidence.trials)[["trial_id", "cell_id", "block"]]
    slices = evidence.slices.merge(trials, on="trial_id").sort_values(["block", "slice", "place"], ignore_index=True)
    rps = pd.to_numeric(slices["rps"]).to_numpy(dtype=np.float64, na_value=np.nan)
    cells = slices["cell_id"].to_numpy(dtype=object)
    before = np.full(len(slices), None, dtype=object)
    if len(slices):
        cells_in_block = slices.groupby("block")["place"].transform("max").to_numpy()
        turn = slices["slice"].to_numpy() * cells_in_block + slices["place"].to_numpy()
        block = slices["block"].to_numpy()
        follows = (block[1:] == block[:-1]) & (turn[1:] == turn[:-1] + 1)
        before[1:][follows] = cells[:-1][follows]
    with np.errstate(divide="ignore", invalid="ignore"):
        log_rps = np.where(rps > 0, np.log(rps), np.nan)
    return slices[list(COLUMNS)].assign(log_rps=log_rps, before=before)
