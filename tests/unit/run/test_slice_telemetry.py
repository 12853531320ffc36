from __future__ import annotations

import pytest

from benchkit.run.steps.slice_telemetry import BlockTelemetry, block_service, telemetry_of_trial
from benchkit.store.telemetry_table import SampleSeries, read_telemetry

MS = 1_000_000
FIRST = [(100 * MS, 200 * MS), (400 * MS, 500 * MS)]
"""Slices of the first cell; those of the second lie between them."""
SECOND = [(250 * MS, 350 * MS)]
EDGES = [100, 200, 250, 350, 400, 500]
BLOCK = BlockTelemetry(
    {
        ("1.app", "cpu_s_total", None): SampleSeries(
            [each * MS for each in EDGES], [1.0, 1.05, 1.05, 1.06, 1.06, 1.14]
        ),
        ("2.app", "cpu_s_total", None): SampleSeries(
            [each * MS for each in EDGES], [0.0, 0.01, 0.01, 0.09, 0.09, 0.09]
        ),
        (None, "cpu_user_s_total", "0"): SampleSeries([each * MS for each in EDGES], [7.0, 7.1, 7.1, 7.2, 7.2, 7.25]),
        (None, "load1", None): SampleSeries([each * MS for each in EDGES], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("1.app", "requests_total", "1"): SampleSeries([50 * MS, 300 * MS, 600 * MS], [10.0, 110.0, 230.0]),
        ("2.app", "requests_total", "2"): SampleSeries([50 * MS, 300 * MS, 600 * MS], [0.0, 50.0, 90.0]),
        ("1.app", "tls_handshakes_total", "full"): SampleSeries([50 * MS, 300 * MS, 600 * MS], [0.0, 90.0, 190.0]),
        ("1.app", "voluntary_switches_total", None): SampleSeries([50 * MS, 300 * MS, 600 * MS], [5.0, 25.0, 65.0]),
        ("2.app", "voluntary_switches_total", None): SampleSeries([50 * MS, 300 * MS, 600 * MS], [0.0, 9.0, 11.0]),
        ("generator-1", "voluntary_switches_total", None): SampleSeries([50 * MS, 600 * MS], [0.0, 90.0]),
        ("generator-1", "cpu_s_total", None): SampleSeries(
            [each * MS for each in EDGES], [0.0, 0.1, 0.1, 0.2, 0.2, 0.3]
        ),
        ("agent", "unknown_metric", None): SampleSeries([100 * MS], [1.0]),
    }
)


def series_of(cell: int, windows: list[tuple[int, int]]) -> dict[tuple[str | None, str, str | None], SampleSeries]:
    return dict(read_telemetry(telemetry_of_trial(BLOCK, cell, windows)))


def test_counters_grow_only_within_the_slices_of_the_trial() -> None:
    found = series_of(1, FIRST)
    own = found["app", "cpu_s_total", None]
    assert own.t_ns == [0, 100 * MS, 200 * MS]
    assert own.numbers == pytest.approx([1.0, 1.05, 1.13])
    assert found[None, "cpu_user_s_total", "0"].numbers == pytest.approx([7.0, 7.1, 7.15])
    assert found["generator-1", "cpu_s_total", None].numbers == pytest.approx([0.0, 0.1, 0.2])


def test_services_of_other_cells_are_neighbours() -> None:
    assert series_of(1, FIRST)["neighbour.2.app", "cpu_s_total", None].numbers == pytest.approx([0.0, 0.01, 0.01])
    assert series_of(2, SECOND)["neighbour.1.app", "cpu_s_total", None].numbers == pytest.approx([1.0, 1.01])


def test_states_are_those_sampled_within_the_slices() -> None:
    load = series_of(1, FIRST)[None, "load1", None]
    assert (load.t_ns, load.numbers) == ([0, 100 * MS, 100 * MS, 200 * MS], [1.0, 2.0, 5.0, 6.0])


def test_sparse_counters_keep_their_whole_growth_and_are_known_of_own_services_only() -> None:
    found = series_of(1, FIRST)
    assert found["app", "requests_total", "1"].numbers == [10.0, 110.0, 230.0]
    assert found["app", "requests_total", "1"].t_ns == [0, 100 * MS, 200 * MS]
    assert found["app", "tls_handshakes_total", "full"].numbers == [0.0, 90.0, 190.0]
    assert found["app", "voluntary_switches_total", None].numbers == [5.0, 25.0, 65.0]
    sparse = {"requests_total", "tls_handshakes_total", "voluntary_switches_total"}
    assert {key[0] for key in found if key[1] in sparse} == {"app"}


def test_growth_and_states_of_single_slices() -> None:
    growth = BLOCK.growth((block_service(1, "app"), "cpu_s_total", None), FIRST)
    assert growth is not None
    assert list(growth) == pytest.approx([0.05, 0.08])
    assert BLOCK.growth(("3.app", "cpu_s_total", None), FIRST) is None
    assert BLOCK.first_in((None, "load1", None), [*FIRST, (600 * MS, 700 * MS)]) == [1.0, 5.0, None]
    assert BLOCK.mean_in([(None, "load1", None)], [*FIRST, (600 * MS, 700 * MS)]) == [1.5, 5.5, None]
