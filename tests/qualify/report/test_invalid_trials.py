"""Excluded trials: hollow or dotted in every figure, and in no median."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy import stats

from benchkit.judge.check import ALL
from benchkit.report.figures.rates import RATES, rate_intervals
from benchkit.report.figures.registry import get_figure
from benchkit.report.figures.telemetry import accept_queue_table, host_activity_table
from benchkit.report.metric_values import known
from benchkit.report.rendering import render
from benchkit.report.sections.section import ReportInput
from benchkit.report.sections.services import build_profiles
from benchkit.report.stored_run import StoredRun
from benchkit.report.theme import SURFACE
from tests.support.report.fixtures import watched
from tests.support.report.reading import cells, records
from tests.support.report.variants import ids, judged, with_profiles

MakeRun = Callable[..., StoredRun]
CELL = "server=nethttp,connections=200"
WILD = {"rps": 100.0, "latency_p99_s": 7.0, "latency_p9999_s": 9.0, "server_cpu_s_per_request": 50.0}


@pytest.fixture(scope="module")
def wild(make_run: MakeRun) -> StoredRun:
    """Run with profiles, one of whose trials is far from the others of its cell."""
    run = with_profiles(make_run({"server": ["nethttp", "gnet"], "connections": [200, 4000]}, blocks=4))
    first = ids(run, CELL)[0]
    factors = {name: np.where(run.trials["trial_id"] == first, factor, 1.0) for name, factor in WILD.items()}
    return replace(
        run, trials=run.trials.assign(**{name: run.trials[name] * factor for name, factor in factors.items()})
    )


def excluded_trials(run: StoredRun) -> tuple[str, ...]:
    """Return the wild trial, and a profile of its cell."""
    profiles = run.trials[(run.trials["kind"] == "profile") & (run.trials["cell_id"] == CELL)]
    return ids(run, CELL)[0], str(profiles["trial_id"].iloc[0])


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


def words(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(Text))


@pytest.mark.parametrize(
    ("name", "marks", "lines"),
    [("rps", 1, 0), ("connections", 2, 0), ("latency", 5, 1), ("throughput", 1, 0), ("scheduler", 4, 0)],
)
def test_excluded_trials_are_hollow_and_in_no_median(wild: StoredRun, name: str, marks: int, lines: int) -> None:
    figure, out = get_figure(name), excluded_trials(wild)
    doubtful = invalidated(wild, *out)
    without = replace(wild, trials=wild.trials[~wild.trials["trial_id"].isin(out)])
    assert figure.alt(doubtful) == figure.alt(without)
    assert figure.alt(wild) != figure.alt(without)
    drawn, plain = figure.draw(doubtful), figure.draw(wild)
    few = hollow(plain)  # percentiles of too few requests are excluded, too
    assert (hollow(drawn) - few, dotted(drawn)) == (marks, lines)
    assert "hollow" in words(drawn)
    assert ("hollow" in words(plain)) == bool(few)
    assert render(figure, doubtful).svg.decode().count("(invalid: noisy-host)") == marks


@pytest.mark.parametrize("name", ["connections", "latency", "throughput", "scheduler"])
def test_a_cell_without_included_trials_is_drawn_without_a_median(wild: StoredRun, name: str) -> None:
    figure = get_figure(name)
    everything = invalidated(wild, *map(str, wild.trials["trial_id"]))
    assert figure.is_available(everything)
    assert not [line for axes in figure.draw(everything).axes for line in axes.get_lines()]
    description = figure.alt(everything)
    assert "included" in description
    assert " ms" not in description.replace("omission", "")
    assert "requests/s" not in description


@pytest.mark.parametrize(("name", "lines"), [("host-activity", 4), ("accept-queue", 1)])
def test_lines_of_excluded_trials_are_dotted(make_run: MakeRun, name: str, lines: int) -> None:
    run = watched(make_run(blocks=3))
    figure = get_figure(name)
    doubtful = invalidated(run, ids(run, "stack=go")[1])
    assert (dotted(figure.draw(run)), dotted(figure.draw(doubtful))) == (0, lines + (name == "host-activity"))
    assert "dotted: excluded" in words(figure.draw(doubtful))
    assert "Dotted lines are of excluded trials" in figure.caption(doubtful)
    assert "otted" not in figure.caption(run) + words(figure.draw(run))


def test_tables_below_figures_have_their_data(make_run: MakeRun) -> None:
    run = watched(make_run(blocks=3), interval_s=0.5)
    doubtful = invalidated(run, ids(run, "stack=go")[1])
    queues = cells(accept_queue_table(doubtful))
    assert queues == [["go", "7", "128", "9", "3", "1"], ["nginx-go", "7", "128", "9", "3", "0"]]
    rows = cells(host_activity_table(doubtful))
    assert ["go", "app", "CPUs busy", "0.8", "0.8", "0.8", "2"] in rows
    assert ["nginx-go", "app", "requests/s", "1,000", "1,000", "1,000", "3"] in rows
    assert ["go", "sut", "sent", "1.00 MB/s", "1.00 MB/s", "1.00 MB/s", "2"] in rows
    everything = invalidated(run, *ids(run, "stack=go"))
    assert ["go", "app", "CPUs busy", *["0.8, invalid"] * 3, "3"] in cells(host_activity_table(everything))


def test_intervals_of_rates_use_included_blocks(wild: StoredRun) -> None:
    doubtful = invalidated(wild, *excluded_trials(wild))
    found = rate_intervals(doubtful)
    assert len(found) == 4
    logs = np.log(known(wild.trials_of(CELL)["rps"])[1:])
    low, high = stats.t.interval(0.95, len(logs) - 1, logs.mean(), stats.sem(logs))
    assert found[CELL] == pytest.approx((math.exp(low), math.exp(high)))
    figure = RATES.draw(doubtful)
    lines = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)]
    drawn = sorted(np.asarray(end)[:, 0].tolist() for end in lines[-1].get_segments())
    np.testing.assert_allclose(drawn, sorted(found.values()))
    assert "line: 95% interval" in words(figure)
    assert "95% interval of the cell's rate" in RATES.caption(doubtful)


def test_missing_intervals_are_explained(make_run: MakeRun) -> None:
    few, one_by_one = make_run(blocks=2), make_run(scenario={"design": "sequential"})
    for run, why in ((few, "they need 3 blocks"), (one_by_one, "in a sequential design")):
        assert rate_intervals(run) == {}
        assert why in RATES.caption(run)
        assert "interval" not in words(RATES.draw(run))


def test_a_huge_interval_does_not_dwarf_the_bars(make_run: MakeRun) -> None:
    run = make_run(blocks=3)
    rates = run.trials["rps"] * np.where(run.trials["trial_id"] == ids(run, "stack=go")[0], 1e-6, 1.0)
    (axes,) = RATES.draw(replace(run, trials=run.trials.assign(rps=rates))).axes
    assert axes.get_xlim()[1] < 2 * rates.max()


def test_the_section_of_profiles_marks_invalid_figures(wild: StoredRun) -> None:
    def first(run: StoredRun) -> dict[str, str]:
        content = build_profiles(ReportInput(run, ()))
        assert content is not None
        return records(content.scheduler)[0]

    shown = first(invalidated(wild, *excluded_trials(wild)))
    assert (shown["Profiles"], shown["Waiting"]) == ("1 (1 invalid excluded)", "21.0 %")
    everything = first(invalidated(wild, *map(str, wild.trials["trial_id"])))
    assert (everything["Profiles"], everything["Waiting"]) == ("2", "20.0 %, invalid")
    assert all(everything[name].endswith(", invalid") for name in ("Goroutines", "RPS", "CPU per request"))
