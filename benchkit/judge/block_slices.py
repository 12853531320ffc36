"""The slices of sliced blocks in the order in which they ran, with the cell before each."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchkit.judge.block_balance import sliced_trials
from benchkit.judge.evidence import RunEvidence

COLUMNS = ("block", "slice", "place", "trial_id", "cell_id", "requests", "started_s")

EMPTY = 0.5
"""Requests for which the logarithm of an empty slice stands, as in tables of counts (Anscombe, The transformation of
Poisson, binomial and negative-binomial data, 1948): far below that of any slice with answers, and finite."""


def ordered_slices(evidence: RunEvidence) -> pd.DataFrame:
    """Return the slices of measured trials by block and time, with `log_rps` and the cell `before` each.

    A slice without an answer counts as `EMPTY` requests; `log_rps` is NaN where the requests are unknown. `before` is
    None for the first slice of a block, and after a slice of a trial that failed.
    """
    trials = sliced_trials(evidence.trials)[["trial_id", "cell_id", "block"]]
    slices = evidence.slices.merge(trials, on="trial_id").sort_values(["block", "slice", "place"], ignore_index=True)
    rps, requests = (
        pd.to_numeric(slices[name]).to_numpy(dtype=np.float64, na_value=np.nan) for name in ("rps", "requests")
    )
    cells = slices["cell_id"].to_numpy(dtype=object)
    before = np.full(len(slices), None, dtype=object)
    if len(slices):
        cells_in_block = slices.groupby("block")["place"].transform("max").to_numpy()
        turn = slices["slice"].to_numpy() * cells_in_block + slices["place"].to_numpy()
        block = slices["block"].to_numpy()
        follows = (block[1:] == block[:-1]) & (turn[1:] == turn[:-1] + 1)
        before[1:][follows] = cells[:-1][follows]
    answered = (rps > 0) & (requests > 0)
    log_rps = np.full(len(slices), np.nan)
    log_rps[answered] = np.log(rps[answered])
    if answered.any():
        log_rps[requests == 0] = np.log(EMPTY * np.median(rps[answered] / requests[answered]))
    return slices[list(COLUMNS)].assign(log_rps=log_rps, before=before)
