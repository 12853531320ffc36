"""Functions for notebooks and scripts, which `benchkit` has under the same names.

Each function reads the store again and returns the latest rows. `run` is an id, its prefix, or `latest`. `store` is a
folder or a URL, else BENCHKIT_STORE, else ./results.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchkit.comparison.claims import PublishedFigure, judge_claims, published_figures
from benchkit.comparison.compare import compare  # noqa: F401 - `benchkit.compare`
from benchkit.comparison.components import components_of
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.runs.run_data import read_run_data
from benchkit.comparison.stored_tables import load
from benchkit.errors import InputError
from benchkit.models.metrics import P50
from benchkit.models.rows import column_names
from benchkit.report.figure import Drawing, draw_figure
from benchkit.report.figures.history import draw_series
from benchkit.report.figures.registry import FIGURES, get_figure
from benchkit.report.stored_run import StoredRun, read_run
from benchkit.run_history.series import history
from benchkit.safe_text import clean
from benchkit.store.store import Store, open_store

LATEST = "latest"
RUN = "BENCHKIT_RUN"
"""Environment variable with the run that a notebook shows by default."""


def runs(*, store: str | Path | None = None) -> pd.DataFrame:
    """Return the stored runs, oldest first: run_id, scenario, scale, status, blocks, cells, started_at, ended_at."""
    rows = [
        (m.run_id, m.scenario_name, m.scale, m.status, m.blocks, len(m.cells), m.started_at, m.ended_at)
        for _, m in open_store(store).survey()[0]
    ]
    columns = ["run_id", "scenario", "scale", "status", "blocks", "cells", "started_at", "ended_at"]
    return pd.DataFrame(rows, columns=columns)


def find(
    run: str | None = None, *, scenario: str | None = None, sound: bool = False, store: str | Path | None = None
) -> str:
    """Return the id of a run: the given one, else BENCHKIT_RUN, else the latest; with `scenario`, its latest.

    With `sound`, the latest run without invalid trials is preferred. Raises InputError if there is no run.
    """
    where = open_store(store)
    if scenario is None:
        if sound and run is None and not os.environ.get(RUN):
            newest_first = reversed([each.run_id for each in where.runs()])
            run = next((each for each in newest_first if _has_no_invalid_trials(each, where)), None)
        return where.run(run if run is not None else os.environ.get(RUN) or LATEST).run_id
    found = [each.run_id for each, manifest in where.survey()[0] if manifest.scenario_name == scenario]
    named = [run_id for run_id in found if run is None or run_id.startswith(run)]
    if not named:
        raise InputError(
            f"the store has no run of scenario {scenario!r}",
            where=where.location,
            hint=f"`benchkit run {scenario}` makes one",
        )
    wanted = os.environ.get(RUN)
    return wanted if wanted in named else named[-1]


def _has_no_invalid_trials(run_id: str, store: Store) -> bool:
    return bool(load("trials", store=store, run_id=run_id)["verdict"].isin(["valid", "suspect"]).all())


def why(run: str = LATEST, *, store: str | Path | None = None) -> pd.DataFrame:
    """Return the components of the difference of each cell to its baseline, one a row.

    Columns: cell_id, baseline_id, level, service, component, unit, value, baseline_value, difference, low, high, blocks
    (`benchkit.comparison.components`). The rows of a level add up to its sum. The table `components` has the same rows.
    """
    where = open_store(store)
    data = read_run_data(where, where.run(run))
    return pd.DataFrame([each.model_dump() for each in components_of(data)], columns=column_names("components"))


def labels(run: str = LATEST, *, store: str | Path | None = None) -> dict[str, str]:
    """Return the label of each cell by its id: the levels that differ between the cells."""
    return _view(run, store).labels


def figures(run: str = LATEST, *, store: str | Path | None = None) -> pd.DataFrame:
    """Return the figures that a run has data for: name, title."""
    view = _view(run, store)
    available = [(figure.name, figure.title) for figure in FIGURES.values() if figure.chart(view) is not None]
    return pd.DataFrame(available, columns=["name", "title"])


def figure(name: str, run: str = LATEST, *, store: str | Path | None = None) -> Drawing:
    """Return a figure of the report. Raises InputError for an unknown figure, or if the run has no data for it."""
    wanted, view = get_figure(name), _view(run, store)
    drawing = draw_figure(wanted, view)
    if drawing is None:
        available = [each.name for each in FIGURES.values() if each.chart(view) is not None]
        raise InputError(f"run {view.manifest.run_id} has no data for {name!r}", hint=f"it has: {', '.join(available)}")
    return drawing


def history_figure(
    scenario: str, *, metric: str = "rps", cell: str | None = None, store: str | Path | None = None
) -> Drawing:
    """Return the figure of a scenario's history; `cell` chooses one of several series. Raises InputError."""
    found = history(scenario, metric=metric, cell=cell, store=store)
    if len(found.series) > 1:
        names = [f"{each.title} ({each.scale} scale)" for each in found.series]
        raise InputError(f"{scenario} has several series", why="; ".join(names), hint="choose one with `cell`")
    return draw_series(found, found.series[0])


def claims(run: str = LATEST, *, store: str | Path | None = None) -> pd.DataFrame:
    """Return the results of a scenario's claims, a row for each ratio.

    Columns: text, whose (author, ours), expectation, metric, published, cell, baseline, ratio, low, high, n (blocks
    used), p_holm (the deciding p-value, adjusted for the number of claims), state, reason.
    """
    columns = ["text", "whose", "expectation", "metric", "published", "cell", "baseline", "ratio", "low", "high", "n"]
    columns += ["p_holm", "state", "reason"]
    rows: list[dict[str, object]] = []
    where = open_store(store)
    for result in judge_claims(read_run_data(where, where.run(run))):
        fields = result.model_dump(
            include={"text", "whose", "expectation", "metric", "published", "p_holm", "state", "reason"}
        )
        measured = [
            {"cell": each.cell_id, "n": each.blocks, **each.model_dump(include={"baseline", "ratio", "low", "high"})}
            for each in result.ratios
        ]
        rows += [{**fields, **each} for each in measured or [{}]]
    return pd.DataFrame(rows, columns=columns)


class Prose(str):
    """Markdown that notebooks show as text."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return str(self)


def found(run: str = LATEST, *, store: str | Path | None = None) -> Prose:
    """Return the answer of a run in prose, then each claim with its ratios and the number of their blocks."""
    view = _view(run, store)
    lines = [*view.answer.sentences, view.answer.trust_sentence]
    claimed = [
        f"- {' '.join(each.text.split())} ({each.whose}): **{each.state}** ({', '.join(_shown(ratio) for ratio in each.ratios) or each.reason})."
        for each in view.claims
    ]
    return Prose("\n".join((" ".join(lines), "", *map(clean, claimed))))


def _shown(ratio: Ratio) -> str:
    if ratio.ratio is None or ratio.low is None or ratio.high is None:
        return ratio.reason or "no interval"
    return f"{ratio.ratio:.3g} [{ratio.low:.3g}, {ratio.high:.3g}], n={ratio.blocks}"


def published(run: str = LATEST, *, store: str | Path | None = None) -> pd.DataFrame:
    """Return the published figures of the scenario's study beside those of a run, a row for each figure and cell.

    Columns: cell, service, figure (a column of `trials`, or a function whose share of the CPU it is), published,
    measured, only_invalid (True if only invalid trials measured it), note. Empty for a scenario without published
    figures.
    """
    view = _view(run, store)
    rows = [each.model_dump() for each in published_figures(view.data, view.service_profiles)]
    return pd.DataFrame(rows, columns=list(PublishedFigure.model_fields))


def percentiles(
    run: str = LATEST, *, at: Sequence[float] = (50, 90, 99, 99.9), store: str | Path | None = None
) -> pd.DataFrame:
    """Return latency percentiles by cell in seconds, from the merged histograms of the trials that are not excluded.

    A row for each cell with a histogram, in the order of the plan, with the number of its trials and requests. The
    columns `p50`, `p99` and so on are the upper end of the bucket with that percentile. Percentiles of trials are never
    averaged.
    """
    where = open_store(store)
    found = where.run(run)
    run_id = found.run_id
    trials = load("trials", store=where, run_id=run_id, valid_for=P50)
    buckets = load("latency", store=where, run_id=run_id, valid_for=P50)
    raw = buckets[buckets["series"] == "raw"].merge(trials[["trial_id", "cell_id"]], on="trial_id")
    names = [f"p{percent:g}" for percent in at]
    rows = []
    of_cells = dict(iter(raw.groupby("cell_id")))
    planned = [cell.cell_id for cell in found.manifest().cells]
    for cell_id, of_cell in ((name, of_cells[name]) for name in planned if name in of_cells):
        counts = of_cell.groupby("high_s")["count"].sum()
        reached = counts.cumsum().to_numpy(dtype=float)
        places = np.searchsorted(reached, np.asarray(at, dtype=float) / 100 * reached[-1])
        times = counts.index.to_numpy(dtype=float)[np.minimum(places, len(reached) - 1)]
        rows.append([cell_id, of_cell["trial_id"].nunique(), int(reached[-1]), *times])
    return pd.DataFrame(rows, columns=["cell_id", "trials", "requests", *names]).set_index("cell_id")


def _view(run: str, store: str | Path | None) -> StoredRun:
    where = open_store(store)
    return read_run(where, where.run(run))
