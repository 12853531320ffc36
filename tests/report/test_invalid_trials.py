"""Trials that do not count are drawn as such in every figure, and are in no median of any."""

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

from benchkit.analysis.verdicts.check import ALL
from benchkit.report.figures import accept_queue, host_activity, rps
from benchkit.report.figures.registry import get_figure
from benchkit.report.metric_values import known
from benchkit.report.rendering import render
from benchkit.report.sections.profiles import build
from benchkit.report.sections.section import Material
from benchkit.report.stored_run import StoredRun
from benchkit.report.theme import SURFACE
from tests.report.conftest import watched
from tests.report.reading import cells, records
from tests.report.test_profiles import with_profiles
from tests.report.test_verdicts import ids, judged

pytestmark = pytest.mark.long

MakeRun = Callable[..., StoredRun]
CELL = "server=nethttp,connections=200"
WILD = {"rps": 100.0, "latency_p99_s": 7.0, "latency_p9999_s": 9.0, "server_cpu_s_per_request": 50.0}


@pytest.fixture(scope="module")
def wild(make_run: MakeRun) -> StoredRun:
    """A run with profiles, one of whose trials is far from the others of its cell."""
    run = with_profiles(make_run({"server": ["nethttp", "gnet"], "connections": [200, 4000]}, blocks=4))
    first = ids(run, CELL)[0]
    factors = {name: np.where(run.trials["trial_id"] == first, factor, 1.0) for name, factor in WILD.items()}
    return replace(
        run, trials=run.trials.assign(**{name: run.trials[name] * factor for name, factor in factors.items()})
    )


def doubted(run: StoredRun) -> tuple[str, ...]:
    """The wild trial, and a profile of its cell."""
    profiles = run.trials[(run.trials["kind"] == "profile") & (run.trials["cell_id"] == CELL)]
    return ids(run, CELL)[0], str(profiles["trial_id"].iloc[0])


def void(run: StoredRun, *trials: str) -> StoredRun:
    return judged(run, *((trial, "noisy-host", "invalid", ALL) for trial in trials))


def hollow(figure: Figure) -> int:
    """Marks that are filled with nothing but the ground."""
    ground = to_rgba(SURFACE.light)
    marks = [each for axes in figure.axes for each in axes.collections if isinstance(each, PathCollection)]
    return sum(
        len(np.asarray(each.get_offsets())) for each in marks if tuple(np.asarray(each.get_facecolor())[0]) == ground
    )


def dotted(figure: Figure) -> int:
    """Lines that are not solid."""
    lines = [each for axes in figure.axes for each in axes.collections if isinstance(each, LineCollection)]
    return sum(len(each.get_paths()) for each in lines if "None" not in str(each.get_linestyle()))


def words(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(Text))


@pytest.mark.parametrize(
    ("name", "marks", "lines"),
    [("rps", 1, 0), ("connections", 2, 0), ("latency", 5, 1), ("throughput", 1, 0), ("scheduler", 4, 0)],
)
def test_void_trials_are_hollow_and_in_no_median(wild: StoredRun, name: str, marks: int, lines: int) -> None:
    figure, out = get_figure(name), doubted(wild)
    doubtful = void(wild, *out)
    without = replace(wild, trials=wild.trials[~wild.trials["trial_id"].isin(out)])
    assert figure.alt(doubtful) == figure.alt(without)
    assert figure.alt(wild) != figure.alt(without)
    drawn, plain = figure.draw(doubtful), figure.draw(wild)
    few = hollow(plain)  # percentiles of too few requests are none either
    assert (hollow(drawn) - few, dotted(drawn)) == (marks, lines)
    assert "hollow" in words(drawn)
    assert ("hollow" in words(plain)) == bool(few)
    assert render(figure, doubtful).svg.decode().count("(invalid: noisy-host)") == marks


@pytest.mark.parametrize("name", ["connections", "latency", "throughput", "scheduler"])
def test_a_cell_of_which_no_trial_counts_is_drawn_and_has_no_middle(wild: StoredRun, name: str) -> None:
    figure = get_figure(name)
    everything = void(wild, *map(str, wild.trials["trial_id"]))
    assert figure.is_available(everything)
    assert not [line for axes in figure.draw(everything).axes for line in axes.get_lines()]
    said = figure.alt(everything)
    assert "included" in said
    assert " ms" not in said.replace("omission", "")
    assert "requests/s" not in said


@pytest.mark.parametrize(("name", "lines"), [("host-activity", 4), ("accept-queue", 1)])
def test_lines_of_void_trials_are_dotted(make_run: MakeRun, name: str, lines: int) -> None:
    run = watched(make_run(blocks=3))
    figure = get_figure(name)
    doubtful = void(run, ids(run, "stack=go")[1])
    assert (dotted(figure.draw(run)), dotted(figure.draw(doubtful))) == (0, lines + (name == "host-activity"))
    assert "dotted: excluded" in words(figure.draw(doubtful))
    assert "Dotted lines are of excluded trials" in figure.caption(doubtful)
    assert "otted" not in figure.caption(run) + words(figure.draw(run))


def test_tables_below_figures_have_what_is_drawn_there(make_run: MakeRun) -> None:
    run = watched(make_run(blocks=3), interval_s=0.5)
    doubtful = void(run, ids(run, "stack=go")[1])
    queues = cells(accept_queue.table(doubtful))
    assert queues == [["go", "7", "128", "9", "3", "1"], ["nginx-go", "7", "128", "9", "3", "0"]]
    rows = cells(host_activity.table(doubtful))
    assert ["go", "app", "CPUs busy", "0.8", "0.8", "0.8", "2"] in rows
    assert ["nginx-go", "app", "requests/s", "1,000", "1,000", "1,000", "3"] in rows
    assert ["go", "sut", "sent", "1.00 MB/s", "1.00 MB/s", "1.00 MB/s", "2"] in rows
    everything = void(run, *ids(run, "stack=go"))
    assert ["go", "app", "CPUs busy", *["0.8, invalid"] * 3, "3"] in cells(host_activity.table(everything))


def test_rates_have_their_intervals_over_the_blocks_that_count(wild: StoredRun) -> None:
    doubtful = void(wild, *doubted(wild))
    found = rps.intervals(doubtful)
    assert len(found) == 4
    logs = np.log(known(wild.trials_of(CELL)["rps"])[1:])
    low, high = stats.t.interval(0.95, len(logs) - 1, logs.mean(), stats.sem(logs))
    assert found[CELL] == pytest.approx((math.exp(low), math.exp(high)))
    figure = rps.draw(doubtful)
    lines = [each for each in figure.axes[0].collections if isinstance(each, LineCollection)]
    drawn = sorted(np.asarray(end)[:, 0].tolist() for end in lines[-1].get_segments())
    np.testing.assert_allclose(drawn, sorted(found.values()))
    assert "line: 95% interval" in words(figure)
    assert "95% interval of the cell's rate" in rps.caption(doubtful)


def test_without_blocks_to_rest_on_there_are_no_intervals_and_it_is_said(make_run: MakeRun) -> None:
    few, one_by_one = make_run(blocks=2), make_run(scenario={"design": "sequential"})
    for run, why in ((few, "they need 3 blocks"), (one_by_one, "in a sequential design")):
        assert rps.intervals(run) == {}
        assert why in rps.caption(run)
        assert "interval" not in words(rps.draw(run))


def test_an_interval_without_bounds_does_not_dwarf_the_bars(make_run: MakeRun) -> None:
    run = make_run(blocks=3)
    rates = run.trials["rps"] * np.where(run.trials["trial_id"] == ids(run, "stack=go")[0], 1e-6, 1.0)
    (axes,) = rps.draw(replace(run, trials=run.trials.assign(rps=rates))).axes
    assert axes.get_xlim()[1] < 2 * rates.max()


def test_bars_of_void_profiles_are_marked(wild: StoredRun) -> None:
    figure = get_figure("categories")
    everything = void(wild, *map(str, wild.trials["trial_id"]))
    assert "nethttp, connections 200, invalid" in words(figure.draw(everything))
    assert "marked invalid" in figure.caption(everything)
    one = void(wild, *doubted(wild))
    assert "invalid" not in words(figure.draw(one)) + figure.caption(one)
    assert "7 profiles in total" in figure.caption(one)


def test_the_section_of_profiles_marks_what_does_not_count(wild: StoredRun) -> None:
    def first(run: StoredRun) -> dict[str, str]:
        content = build(Material(run, ()))
        assert content is not None
        return records(content.scheduler)[0]

    shown = first(void(wild, *doubted(wild)))
    assert (shown["Profiles"], shown["Scheduler"]) == ("1 (1 invalid excluded)", "21.0 %")
    everything = first(void(wild, *map(str, wild.trials["trial_id"])))
    assert (everything["Profiles"], everything["Scheduler"]) == ("2", "20.0 %, invalid")
    assert all(everything[name].endswith(", invalid") for name in ("Goroutines", "RPS", "CPU per request"))
