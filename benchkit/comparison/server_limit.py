"""The limit of a server at full speed, as the checks of its trials know it."""

from __future__ import annotations

import pandas as pd

UNKNOWN = "What limits it is not known"
DECIDING = {
    "noisy-host": UNKNOWN,
    "generator-saturated": "The load tool is the limit: the server may be faster",
    "link-saturated": "The network is the limit",
    "server-idle": "Neither server CPU, load tool nor a link of known rate is the limit: it waits, or needs connections",
}
"""Sentences that follow from a finding of each check, in the order in which these decide."""
SERVER_IDLE = "server-idle"
SERVER_CPU = "The server's CPU is the limit."


def describe_limit(trials: pd.DataFrame, verdicts: pd.DataFrame, unchecked: pd.DataFrame) -> str:
    """Return the sentence on what limits the rate of a cell, given its rows of these tables.

    A finding decides if most trials have it.
    """
    trial_ids = set(trials["trial_id"])

    def of_most(table: pd.DataFrame, check: str) -> pd.DataFrame | None:
        rows = table[(table["check"] == check) & table["trial_id"].isin(trial_ids)]
        return rows if 2 * rows["trial_id"].nunique() > len(trial_ids) else None

    for check, sentence in DECIDING.items():
        if (found := of_most(verdicts, check)) is not None:
            return f"{sentence} ({found['seen'].iloc[-1]})."
    if (skipped := of_most(unchecked, SERVER_IDLE)) is not None:
        return f"{UNKNOWN}: {skipped['why'].iloc[-1]}."
    return SERVER_CPU if trial_ids else f"{UNKNOWN}: no trial ended."
