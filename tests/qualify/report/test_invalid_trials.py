"""Excluded trials: hollow or dotted in every figure, and in no average."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from scipy import stats

from benchkit.judge.check import ALL
from benchkit.report.figures.rates import rate_intervals
from benchkit.report.stored_run import StoredRun, known
from benchkit.report.style import SURFACE
from tests.support.report.fixtures import watched
from tests.support.report.reading import drawn, drawn_texts, segments
from tests.support.report.variants import ids, judged

MakeRun = Callable[..., StoredRun]
CELL = "server=nethttp,connections=200"
WILD = {"rps": 100.0, "latency_p99_s": 7.0, "latency_p9999_s": 9.0}


@pytest.fixture(scope="module")
def wild(make_run: MakeRun) -> StoredRun:
    """Run one of whose trials is far from the others of its cell."""
    run = make_run({"server": ["nethttp", "gnet"], "connections": [200, 4000]}, blocks=4)
    first = run.trials["trial_id"] == ids(run, CELL)[0]
    columns = {name: run.trials[name] * np.where(first, factor, 1.0) for name, factor in WILD.items()}
    return replace(run, trials=run.trials.assign(**columns))


def invalidated(run: StoredRun, *trials: str) -> StoredRun:
    return judged(run, *((trial, "noisy-host", "invalid", ALL) for trial in trials))


def hollow(figure: Figure) -> int:
    """Return the number of marks filled with the colour of the surface."""
    ground = to_rgba(SURFACE.light)
    marks = [each for axes in figure.axes for each in axes.collections if isinstance(each, PathCollection)]
    return sum(
        len(np.asarray(each.get_offsets())) for each in marks if tuple(np.asarray(each.get_facecolor())[0]) == ground
    )


def dotted(figure: Figure) -> int:
    """Return the number of lines that are not solid."""
    lines = [each for axes in figure.axes for each in axes.collections if isinstance(each, LineCollection)]
    return sum(len(each.get_paths()) for each in lines if "None" not in str(each.get_linestyle()))


@pytest.mark.parametrize(("name", "marks", "lines"), [("rps", 1, 0), ("load", 3, 0), ("latency", 5, 1)])
def test_excluded_trials_are_hollow(wild: StoredRun, name: str, marks: int, lines: int) -> None:
    doubtful = invalidated(wild, ids(wild, CELL)[0])
    figure, plain = drawn(name, doubtful), drawn(name, wild)
    few = hollow(plain)  # percentiles of too few requests are excluded, too
    assert (hollow(figure) - few, dotted(figure)) == (marks, lines)
    assert "hollow" in " ".join(drawn_texts(figure))
    assert ("hollow" in " ".join(drawn_texts(plain))) == bool(few)


def test_a_cell_without_included_trials_has_no_average(wild: StoredRun) -> None:
    everything = invalidated(wild, *map(str, wild.trials["trial_id"]))
    assert not [line for axes in drawn("load", everything).axes for line in axes.get_lines()]


def test_lines_of_excluded_trials_are_dotted(make_run: MakeRun) -> None:
    run = watched(make_run(blocks=3))
    doubtful = invalidated(run, ids(run, "stack=go")[1])
    assert (dotted(drawn("over-time", run)), dotted(drawn("over-time", doubtful))) == (0, 3)
    assert "dotted: excluded" in " ".join(drawn_texts(drawn("over-time", doubtful)))


def test_intervals_of_rates_use_included_blocks(wild: StoredRun) -> None:
    doubtful = invalidated(wild, ids(wild, CELL)[0])
    found = rate_intervals(doubtful)
    assert len(found) == 4
    logs = np.log(known(wild.trials_of(CELL)["rps"])[1:])
    low, high = stats.t.interval(0.95, len(logs) - 1, logs.mean(), stats.sem(logs))
    assert found[CELL] == pytest.approx((math.exp(low), math.exp(high)))
    ends = [sorted(x for x, _ in line) for line in segments(drawn("rps", doubtful).axes[0])]
    assert all(any(end == pytest.approx(list(each)) for end in ends) for each in found.values())


def test_missing_intervals_are_explained(make_run: MakeRun) -> None:
    few, one_by_one = make_run(blocks=2), make_run(scenario={"design": "sequential"})
    for run, why in ((few, "needs 3 blocks"), (one_by_one, "a sequential design has none")):
        assert rate_intervals(run) == {}
        assert why in " ".join(drawn_texts(drawn("rps", run)))


def test_a_huge_interval_does_not_dwarf_the_bars(make_run: MakeRun) -> None:
    run = make_run(blocks=3)
    rates = run.trials["rps"] * np.where(run.trials["trial_id"] == ids(run, "stack=go")[0], 1e-6, 1.0)
    (axes,) = drawn("rps", replace(run, trials=run.trials.assign(rps=rates))).axes
    assert axes.get_xlim()[1] < 2 * rates.max()
