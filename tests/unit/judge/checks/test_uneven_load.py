"""Tests of the check uneven-load."""

from __future__ import annotations

import pytest

from benchkit.judge.check import LOAD
from benchkit.models.load_result import LoadResult
from benchkit.models.trial import GeneratorRecord
from tests.support.judge.builders import (
    WINDOW_S,
    build_generator,
    build_load,
    build_slices,
    build_trial,
    finding_of,
    skip_reason,
)


def generators(
    rates: dict[str, float | None], late_s: dict[str, float] | None = None, **load: object
) -> tuple[GeneratorRecord, ...]:
    """Return a generator on each of these load hosts, with this rate for the same share of the load."""
    return tuple(
        build_generator(
            number=number,
            host=host,
            load=build_load(**load),
            late_s=(late_s or {}).get(host, 0.0),
            result=LoadResult(tool="wrk", rps=rate),
        )
        for number, (host, rate) in enumerate(rates.items(), 1)
    )


ALIKE: dict[str, float | None] = {"load1": 1000.0, "load2": 1100.0, "load3": 900.0}


@pytest.mark.parametrize(("spread_s", "expected"), [(0.02 * WINDOW_S, False), (0.021 * WINDOW_S, True)])
def test_a_load_host_that_starts_late_is_named(spread_s: float, *, expected: bool) -> None:
    late = generators(ALIKE, {"load1": 0.001, "load2": spread_s})
    found = finding_of("uneven-load", build_trial(generators=late, start_spread_s=spread_s))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("suspect", LOAD)
    assert found is None or found.seen == "the load tool on load2 started 63.0 ms after the first one"


def test_the_spread_of_a_sliced_trial_counts_against_the_length_of_a_slice() -> None:
    trial = build_trial(generators=generators(ALIKE), start_spread_s=0.006, slices=build_slices())
    found = finding_of("uneven-load", trial)
    assert found is not None
    assert found.threshold == "limit: 2.0 % of 250 ms"
    assert finding_of("uneven-load", trial, start_spread=0.03) is None


@pytest.mark.parametrize(("rate", "expected"), [(501.0, False), (499.0, True)])
def test_a_slow_load_host_is_named_with_its_rate_relative_to_the_others(rate: float, *, expected: bool) -> None:
    slow = generators({"load1": 1000.0, "load2": 1000.0, "load3": rate, "load4": 5000.0})
    found = finding_of("uneven-load", build_trial(generators=slow))
    assert (found is not None) == expected
    assert found is None or found.seen.startswith("load3 had 49.9 % of the median rate of the other load hosts")


def test_a_rate_counts_for_the_share_of_the_load() -> None:
    (first,) = generators({"load1": 1000.0})
    (small,) = generators({"load2": 5.0}, connections=1)
    rest = build_generator(
        number=3, host="load2", load=build_load(connections=1), result=LoadResult(tool="wrk", rps=27)
    )
    assert finding_of("uneven-load", build_trial(generators=(first, small, rest))) is None
    assert finding_of("uneven-load", build_trial(generators=(first, small))) is not None


def test_one_load_host_is_compared_with_none() -> None:
    alone = build_generator(result=LoadResult(tool="wrk"))
    assert finding_of("uneven-load", build_trial(generators=(alone, alone), start_spread_s=1.0)) is None


def test_it_is_skipped_where_a_rate_is_unknown() -> None:
    unknown = generators({"load1": 1000.0, "load2": None})
    assert skip_reason("uneven-load", build_trial(generators=unknown)) == "the rate of each load host is not known"
