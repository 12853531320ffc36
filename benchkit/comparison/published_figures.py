"""Published figures of a study with the figures measured here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from benchkit.comparison.cpu_profiles import ServiceProfile
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.base import Frozen, Level, level_texts
from benchkit.models.claims import Published, published_of
from benchkit.models.run import CellRecord
from benchkit.stats.cell_pairs import cells_with_levels
from benchkit.stats.samples import excluded_ids, usable_rows

NO_CELL = "no such cell in this run"


class PublishedComparison(Frozen):
    """A figure of a study and the same figure of a run.

    `measured` is the median over the usable measured trials of the cell, for shares the mean over its profiles. If none
    is usable, it is over the invalid trials, and `only_invalid` is true. `measured` is absent if the run has no such
    figure; `why` has the reason.
    """

    levels: Mapping[str, Level]
    """Levels of the cell as the study states them."""
    name: str
    """Column of `trials`, or function whose cumulative share this is."""
    share: bool
    published: float
    note: str | None = None
    cell_id: str | None = None
    service: str | None = None
    measured: float | None = None
    only_invalid: bool = False
    verdicts: Mapping[str, int] = {}
    """Number of its trials by their verdict on this metric; `invalid` ones are excluded."""
    checks: tuple[str, ...] = ()
    """Checks with findings about its trials."""
    profiles: int | None = None
    """Number of profiles that a share comes from."""
    why: str | None = None


def published_figures(data: RunData, profiled: Iterable[ServiceProfile]) -> tuple[PublishedComparison, ...]:
    """Return every published figure of the scenario, in the order of its file; `profiled` are the run's profiles."""
    services = tuple(profiled)
    return tuple(row for entry in published_of(data.manifest.scenario) for row in _rows_of_entry(entry, data, services))


def _rows_of_entry(
    entry: Published, data: RunData, profiled: Sequence[ServiceProfile]
) -> Iterator[PublishedComparison]:
    cells: Sequence[CellRecord | None] = cells_with_levels(level_texts(entry.cell), data.manifest.cells) or (None,)
    for cell in cells:
        for share, figures in ((False, entry.figures), (True, entry.shares)):
            for name, published in figures.items():
                row = PublishedComparison(
                    levels=entry.cell,
                    name=name,
                    share=share,
                    published=published,
                    note=entry.note,
                    cell_id=None if cell is None else cell.cell_id,
                )
                if cell is None:
                    yield row.model_copy(update={"why": NO_CELL})
                elif cell.unsupported is not None:
                    yield row.model_copy(update={"why": cell.unsupported})
                elif share:
                    yield from _shares(row, [each for each in profiled if each.cell_id == cell.cell_id])
                else:
                    yield _figure(row, cell.cell_id, data)


def _shares(row: PublishedComparison, profiled: Sequence[ServiceProfile]) -> Iterator[PublishedComparison]:
    if not profiled:
        yield row.model_copy(update={"why": "it was not profiled"})
    for each in profiled:
        yield row.model_copy(
            update={
                "service": each.service if len(profiled) > 1 else None,
                "measured": each.cumulative[row.name],
                "only_invalid": "shares" in each.invalid_figures,
                "profiles": each.profiles,
            }
        )


def _figure(row: PublishedComparison, cell_id: str, data: RunData) -> PublishedComparison:
    trials = data.trials[(data.trials["kind"] == "measure") & (data.trials["cell_id"] == cell_id)]
    trials = trials[pd.to_numeric(trials[row.name]).notna()]
    if trials.empty:
        return row.model_copy(update={"why": "no trial reports it"})
    excluded = excluded_ids(data.exclusions, row.name)
    against = [each for each in data.findings if row.name in each.metrics]
    suspect = {each.trial_id for each in against if each.severity == "suspect"} - excluded
    verdicts: dict[str, int] = {}
    for trial_id, judged in zip(trials["trial_id"], trials["verdict"].notna(), strict=True):
        verdict = "invalid" if trial_id in excluded else "suspect" if trial_id in suspect else "valid"
        verdict = verdict if judged or verdict == "invalid" else "not judged"
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    used, only_invalid = usable_rows(trials, excluded)
    ids = set(trials["trial_id"])
    return row.model_copy(
        update={
            "measured": float(pd.to_numeric(used[row.name]).median()),
            "only_invalid": only_invalid,
            "verdicts": {
                name: verdicts[name] for name in ("valid", "suspect", "invalid", "not judged") if name in verdicts
            },
            "checks": tuple(dict.fromkeys(each.check for each in against if each.trial_id in ids)),
        }
    )
