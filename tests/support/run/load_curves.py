"""Rates of given numbers of connections, from stored load curves."""

from __future__ import annotations

import pandas as pd


def carried_with(connections: int, at_knee: pd.DataFrame, curve: pd.DataFrame) -> list[float]:
    """Return the rate of each server with this many connections, a point of its curve: that of the knee if it is below.

    `at_knee` has the trials of the curves, `curve` their points; noise may move a knee.
    """
    points = curve.loc[curve["connections"] == connections, ["trial_id", "rps"]]
    both = points.merge(at_knee[["trial_id", "connections", "rps"]], "right", "trial_id", suffixes=("", "_knee"))
    return [float(rate) for rate in both["rps"].where(both["connections"] > connections, both["rps_knee"])]
