"""A run as comparisons see it, read from the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from benchkit.analysis import adaptive
from benchkit.analysis.comparison import Side
from benchkit.analysis.family import ALPHA
from benchkit.analysis.samples import Exclusion
from benchkit.analysis.verdicts.exclusions import exclusions
from benchkit.models.run import Manifest
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import load
from benchkit.scenario.designs import design_of, until_of


@dataclass(frozen=True, eq=False)
class Data:
    """A run as comparisons see it: its manifest, its trials, and those of them that do not count."""

    manifest: Manifest
    trials: pd.DataFrame
    exclusions: tuple[Exclusion, ...] = ()

    @property
    def side(self) -> Side:
        """What is said of the run in a comparison."""
        scenario = self.manifest.scenario
        return Side(
            run_id=self.manifest.run_id,
            scenario=str(scenario["name"]),
            scale=self.manifest.scale,
            seed=self.manifest.seed,
            design=design_of(scenario),
            status=self.manifest.status,
        )

    @property
    def level(self) -> float:
        """What intervals and tests may miss: less in a run that looked at them to end, so that it keeps its word."""
        return ALPHA if until_of(self.manifest.scenario) is None else adaptive.LEVEL


def read_data(store: Store, run: RunFolder, without: Iterable[Exclusion] | None = None) -> Data:
    """A stored run; `without` are the trials that do not count, None: those that its verdicts void."""
    manifest, trials = run.manifest(), load("trials", store=store.path, run_id=run.run_id)
    if without is None:
        verdicts = load("verdicts", store=store.path, run_id=run.run_id)
        without = exclusions(trials, verdicts, manifest)
    return Data(manifest, trials, tuple(without))
