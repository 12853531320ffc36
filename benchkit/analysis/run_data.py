"""A run as comparisons see it, read from the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from benchkit.analysis import adaptive
from benchkit.analysis.caveats import Caveat, RatioBasis, caveats_of, grounds
from benchkit.analysis.comparison import Side
from benchkit.analysis.multiple_tests import ALPHA
from benchkit.analysis.samples import Exclusion
from benchkit.analysis.verdicts.exclusions import exclusions
from benchkit.models.design import design_of, until_of
from benchkit.models.run import Manifest
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import load


@dataclass(frozen=True, eq=False)
class Data:
    """A run as comparisons see it: its manifest, its trials, those of them that do not count, and doubts about others."""

    manifest: Manifest
    trials: pd.DataFrame
    exclusions: tuple[Exclusion, ...] = ()
    caveats: tuple[Caveat, ...] = ()

    @cached_property
    def grounds(self) -> RatioBasis:
        """What its ratios rest on."""
        return grounds(self.trials, self.caveats)

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
    def doubt(self) -> str | None:
        """What is against every ratio of cells of the run; None: nothing."""
        if self.side.design == "sequential":
            return "the design is sequential: drift between the cells is in the ratio"
        return None

    @property
    def level(self) -> float:
        """What intervals and tests may miss: less in a run that looked at them to end, so that it keeps its word."""
        return ALPHA if until_of(self.manifest.scenario) is None else adaptive.LEVEL


def read_data(store: Store, run: RunFolder, without: Iterable[Exclusion] | None = None) -> Data:
    """A stored run; `without` are the trials that do not count, None: those that its verdicts void."""
    trials, verdicts = (load(table, store=store.path, run_id=run.run_id) for table in ("trials", "verdicts"))
    return data_of(run.manifest(), trials, verdicts, without)


def data_of(
    manifest: Manifest, trials: pd.DataFrame, verdicts: pd.DataFrame, without: Iterable[Exclusion] | None = None
) -> Data:
    """The same of tables that are at hand: rows of one run."""
    if without is None:
        without = exclusions(trials, verdicts, manifest)
    return Data(manifest, trials, tuple(without), caveats_of(verdicts))
