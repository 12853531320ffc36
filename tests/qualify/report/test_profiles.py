"""Figures and tables of profiles, on a run with known results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from benchkit.report.figures.registry import get_figure
from benchkit.report.pages.page import page
from benchkit.report.sections.services import build_profiles
from benchkit.report.stored_run import StoredRun
from benchkit.store.parquet_files import empty_frame
from benchkit.store.profile_tables import NO_PROFILE
from tests.support.report.reading import built, cells, records
from tests.support.report.variants import with_profiles

MakeRun = Callable[..., StoredRun]


@pytest.fixture
def profiled(make_run: MakeRun) -> StoredRun:
    return with_profiles(make_run({"server": ["nethttp", "gnet"], "connections": [200, 4000]}, blocks=3))


def test_scheduler_shows_four_panels_against_connections(profiled: StoredRun) -> None:
    figure = get_figure("scheduler").draw(profiled)
    shares, goroutines, rates, cpu = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "finding and waiting for work",
        "goroutines",
        "requests per second",
        "server CPU per request",
    ]
    drawn = [np.asarray(line.get_ydata(), dtype=float) for line in shares.get_lines()]
    np.testing.assert_allclose(drawn, [[0.2, 0.4], [0.0, 0.0]])
    np.testing.assert_allclose(
        [np.asarray(line.get_ydata(), dtype=float) for line in goroutines.get_lines()], [[215, 4015], [16, 16]]
    )
    assert len(rates.get_lines()) == len(cpu.get_lines()) == 2
    points = [each for each in shares.collections if isinstance(each, PathCollection)]
    heights = sorted(float(y) for each in points for y in np.asarray(each.get_offsets())[:, 1])
    np.testing.assert_allclose(heights, [0, 0, 0, 0, 0.19, 0.21, 0.39, 0.41], atol=1e-9)


def test_scheduler_shows_the_wait_of_goroutines_beside_the_share(profiled: StoredRun) -> None:
    assert "wait of goroutines" not in get_figure("scheduler").caption(profiled)
    waits = profiled.trials["factor_connections"].astype(float) * 1e-7
    waiting = replace(profiled, trials=profiled.trials.assign(goroutine_wait_mean_s=waits))
    figure = get_figure("scheduler").draw(waiting)
    assert len(figure.axes) == 5
    assert figure.axes[1].get_title(loc="left") == "mean wait of goroutines"
    drawn = [np.asarray(line.get_ydata(), dtype=float) for line in figure.axes[1].get_lines()]
    assert np.allclose(drawn, [[2e-5, 4e-4], [2e-5, 4e-4]])
    assert "The share does not contain it: the CPU works for others meanwhile" in get_figure("scheduler").caption(
        waiting
    )


def test_scheduler_describes_the_ends_of_its_lines(profiled: StoredRun) -> None:
    alt = get_figure("scheduler").alt(profiled)
    assert "nethttp 20.0 % at 200, 40.0 % at 4000" in alt
    assert "gnet 0.0 % at 200, 0.0 % at 4000" in alt


def test_scheduler_shows_services_of_every_program(make_run: MakeRun) -> None:
    run = make_run({"server": ["nethttp", "gnet"], "connections": [200, 4000]}, blocks=2)
    assert "front" in get_figure("scheduler").alt(with_profiles(run, native=True))


def test_scheduler_needs_two_levels_and_profiles(make_run: MakeRun, run: StoredRun) -> None:
    scheduler = get_figure("scheduler")
    assert not scheduler.is_available(run)
    assert not scheduler.is_available(with_profiles(make_run({"server": ["nethttp", "gnet"], "connections": [200]})))
    assert not scheduler.is_available(make_run({"server": ["nethttp", "gnet"], "connections": [200, 4000]}))


def test_the_section_has_shares_costs_and_measured_values(profiled: StoredRun) -> None:
    content = built(build_profiles, profiled)
    row = records(content.scheduler)[0]
    assert row["Cell"] == "nethttp, connections 200"
    assert (row["Profiles"], row["Waiting"], row["Samples"]) == ("2", "20.0 %", "4")
    assert row["95 % interval"] == "3.1 % to 66.3 %"
    assert (row["mcall"], row["netpoll"]) == ("20.0 %", "0.0 %")
    assert (row["Goroutines"], row["CPU per request"]) == ("215", "20.0 µs")
    assert content.costs[0] == (
        "RPS of profiled trials relative to their partners: 0.900, 95% interval 0.900 to 0.900, over 8 pairs."
    )
    assert len(cells(content.costs_by_cell)) == 2 * 5
    assert content.notes == ()


def test_failed_profiles_are_noted_in_the_section_of_profiles_only(profiled: StoredRun) -> None:
    trial = profiled.trials["trial_id"].iloc[0]
    notes = pd.DataFrame([{"trial_id": trial, "code": NO_PROFILE, "message": "front on sut: there is no <perf>"}])
    blind = replace(profiled, notes=notes, table=empty_frame)
    content = built(build_profiles, blind)
    assert (content.notes, content.scheduler) == (("front on sut: there is no <perf>",), None)
    written = page((blind, []))
    assert "front on sut: there is no &lt;perf&gt;" in written
    assert "Notes on the tools" not in written
