from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from benchkit.comparison.ratios import (
    Ratio,
    block_ratios,
    run_ratios,
    with_outcomes,
)
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.samples import Exclusion, take_samples
from tests.support.comparison.fixtures import trials_of

BASE = np.array([100, 110, 90, 105, 95, 100, 102, 98])
OTHER = BASE * np.array([0.5, 0.52, 0.48, 0.5, 0.51, 0.49, 0.5, 0.5])


def of(*pairs: ComparedCells, excluded: tuple[Exclusion, ...] = (), **rates: npt.ArrayLike) -> list[Ratio]:
    return block_ratios(take_samples(trials_of(rates), "rps", excluded), pairs)


def test_a_ratio_is_taken_within_blocks() -> None:
    (ratio,) = of(ComparedCells("b", "a"), a=BASE, b=OTHER)
    logs = np.log(OTHER / BASE)
    assert ratio.ratio == pytest.approx(np.exp(logs.mean()))
    assert ratio.value == pytest.approx(np.exp(np.log(OTHER).mean()))
    assert ratio.baseline_value == pytest.approx(np.exp(np.log(BASE).mean()))
    assert ratio.blocks == 8
    assert ratio.df == 7
    reach = 2.364624 * logs.std(ddof=1) / np.sqrt(8)  # t for 7 degrees of freedom, from a printed table
    assert (ratio.low, ratio.high) == pytest.approx((np.exp(logs.mean() - reach), np.exp(logs.mean() + reach)))
    assert ratio.p_sign_flip == pytest.approx(2 / 256)
    assert ratio.interval(0.05) == pytest.approx((ratio.low, ratio.high))
    # A factor that all cells of a block share changes nothing of the interval.
    drift = np.linspace(1, 0.3, 8)
    (drifted,) = of(ComparedCells("b", "a"), a=BASE * drift, b=OTHER * drift)
    assert (drifted.ratio, drifted.low, drifted.high) == pytest.approx((ratio.ratio, ratio.low, ratio.high))


def test_excluded_trial_is_not_used_in_ratios() -> None:
    spoilt = OTHER.copy()
    spoilt[2] = 1e6
    excluded = Exclusion("r1.b.b3", "the link was full", frozenset({"rps"}))
    (ratio,) = of(ComparedCells("b", "a"), a=BASE, b=spoilt, excluded=(excluded,))
    kept = np.delete(np.arange(8), 2)
    (without,) = of(ComparedCells("b", "a"), a=BASE[kept], b=OTHER[kept])
    assert (ratio.ratio, ratio.low, ratio.high, ratio.blocks) == pytest.approx(
        (without.ratio, without.low, without.high, 7)
    )
    assert ratio.value == pytest.approx(without.value)
    assert [(out.trial_id, out.reason) for out in ratio.exclusions] == [("r1.b.b3", "the link was full")]


def test_too_few_blocks_are_undecided_with_the_reason() -> None:
    excluded = [Exclusion(f"r1.b.b{block}", "a saturated generator") for block in range(1, 7)]
    (two,) = with_outcomes(of(ComparedCells("b", "a"), a=BASE, b=OTHER, excluded=tuple(excluded)))
    assert two.outcome == "undecided"
    assert two.ratio == pytest.approx(0.5)
    assert two.low is None
    assert two.high is None
    assert two.p_holm is None
    assert (
        two.reason
        == "2 blocks have usable trials of both cells; an interval needs 3 (a saturated generator (6 trials))"
    )
    (none,) = of(ComparedCells("c", "a"), a=BASE)
    assert none.ratio is None
    assert none.reason == "no block has usable trials of both cells; an interval needs 3"
    (one,) = of(ComparedCells("b", "a"), a=BASE, b=[50])
    assert one.reason == "one block has usable trials of both cells; an interval needs 3"


def test_times_rounded_to_the_same_ratio_have_no_interval() -> None:
    trials = trials_of({"a": BASE, "b": OTHER})
    for cell_id, whole_milliseconds in (("a", 0.001), ("b", 0.002)):
        trials.loc[trials["cell_id"] == cell_id, ["connect_mean_s", "connections"]] = [whole_milliseconds, 64]
    trials["latency_resolution_s"] = 0.001
    (rounded,) = with_outcomes(block_ratios(take_samples(trials, "connect_mean_s"), [ComparedCells("b", "a")]))
    assert (rounded.ratio, rounded.low, rounded.outcome) == (2, None, "undecided")
    assert rounded.reason is not None
    assert "the mean connect time is rounded: all 8 blocks have the same ratio" in rounded.reason
    # Times of many steps can be alike, and so can a count.
    trials["latency_resolution_s"] = 0.0001
    (resolved,) = with_outcomes(block_ratios(take_samples(trials, "connect_mean_s"), [ComparedCells("b", "a")]))
    assert (resolved.low, resolved.high, resolved.reason) == (2, 2, None)
    (counted,) = with_outcomes(block_ratios(take_samples(trials, "connections"), [ComparedCells("b", "a")]))
    assert (counted.low, counted.high) == (1, 1)


def test_three_blocks_show_what_t_shows_at_a_fifth_of_the_level() -> None:
    (ratio,) = with_outcomes(of(ComparedCells("b", "a"), a=BASE[:3], b=OTHER[:3]))
    assert (ratio.outcome, ratio.test) == ("lower", "t")
    assert ratio.p_holm == pytest.approx(5 * (ratio.p_t or 0))
    (ratio,) = with_outcomes(of(ComparedCells("b", "a"), a=[100, 100, 100], b=[80, 86, 76]))
    assert ratio.high is not None
    assert ratio.high < 1
    assert ratio.outcome == "undecided"
    assert ratio.reason == "3 blocks can show only a very large difference; 6 blocks show smaller ones"
    (ratio,) = with_outcomes(of(ComparedCells("b", "a"), a=[100, 100, 100], b=[99, 101, 98]))
    assert ratio.outcome == "not shown", "an interval with equality in it is an answer"


def test_family_is_adjusted_by_holm() -> None:
    generator = np.random.default_rng(3)
    noise = np.exp(0.05 * generator.standard_normal((5, 8)))
    rates = {"a": 100 * noise[0], "b": 100 * noise[1], "c": 150 * noise[2], "d": 60 * noise[3]}
    ratios = with_outcomes(of(ComparedCells("b", "a"), ComparedCells("c", "a"), ComparedCells("d", "a"), **rates))
    assert [(ratio.outcome, ratio.worth, ratio.test) for ratio in ratios] == [
        ("not shown", None, "sign-flip"),
        ("higher", "better", "sign-flip"),
        ("lower", "worse", "sign-flip"),
    ]
    assert [ratio.p_holm for ratio in ratios[1:]] == pytest.approx([3 * 2 / 256] * 2)
    # The same comparisons among ten: the sign-flip test of 8 blocks cannot decide so many, and t does.
    many = with_outcomes(
        of(*[ComparedCells("c", "a"), ComparedCells("d", "a")] + [ComparedCells("b", "a")] * 8, **rates)
    )
    assert {ratio.test for ratio in many} == {"t"}
    assert [ratio.outcome for ratio in many[:3]] == ["higher", "lower", "not shown"]
    assert many[0].p_holm == pytest.approx(min(10 * (many[0].p_t or 0), 9 * (many[0].p_t or 0) + 1))


def test_controls_are_a_family_of_their_own() -> None:
    rates = {"a": BASE, "b": OTHER, "a~control": BASE * np.array([1.01, 0.99] * 4)}
    pairs = ComparedCells("b", "a"), ComparedCells("a~control", "a", control=True)
    ratio, control = with_outcomes(of(*pairs, **rates))
    assert ratio.p_holm == ratio.p_sign_flip
    assert control.control
    assert control.outcome == "not shown"


def test_runs_are_compared_without_blocks() -> None:
    generator = np.random.default_rng(1)
    noise = np.exp(0.03 * generator.standard_normal((4, 10)))
    before = take_samples(trials_of({"a": 100 * noise[0], "b": 50 * noise[1]}), "rps")
    after = take_samples(trials_of({"a": 200 * noise[2][:7], "b": 200 * noise[3][:7]}), "rps")
    ratios = with_outcomes(run_ratios(before, after, ["a", "b", "c"]))
    assert [(ratio.cell_id, ratio.baseline, ratio.blocks, ratio.test) for ratio in ratios] == [
        ("a", "a", 7, "welch"),
        ("b", "b", 7, "welch"),
        ("c", "c", 0, None),
    ]
    assert ratios[0].ratio == pytest.approx(2, rel=0.05)
    assert [ratio.outcome for ratio in ratios] == ["higher", "higher", "undecided"]
    # Relative to a, which doubled for reasons of the host's, b has doubled and not gained fourfold.
    (relative,) = with_outcomes(run_ratios(before, after, ["b"], reference="a"))
    assert relative.relative_to == "a"
    assert relative.ratio == pytest.approx(2, rel=0.05)
    assert (relative.value, relative.baseline_value) == pytest.approx((1, 0.5), rel=0.05)


NOISE = np.array([0.01, -0.02, 0.0, 0.02, -0.01, 0.015, -0.015, 0.005])
BLOCKS = len(NOISE)


def ratio_of(
    times: float,
    column: str = "foreign_share",
    share_of_b: float | Sequence[float] = 0.0,
    metric: str = "rps",
) -> Ratio:
    """Return the ratio of b to a, where this column of the trials of b is not 0."""
    rates = {"a": 100 * np.exp(NOISE), "b": times * 100 * np.exp(-NOISE)}
    trials = trials_of({cell: list(values) for cell, values in rates.items()}, slices=20)
    trials["server_cpu_s_per_request"] = 1 / trials["rps"]
    trials[column] = 0.0
    trials.loc[trials["cell_id"] == "b", column] = share_of_b
    (ratio,) = with_outcomes(block_ratios(take_samples(trials, metric), [ComparedCells("b", "a")]))
    return ratio


def test_disturbance_that_meets_cells_at_random_is_noise() -> None:
    shares = [0.3, 0.0, 0.0, 0.4, 0.0, 0.0, 0.3, 0.0]
    found = ratio_of(1.5, "foreign_share", shares)
    assert (found.outcome, found.bias, found.notes) == ("higher", 0.0, ())


@pytest.mark.parametrize("column", ["foreign_share", "stolen_share", "withheld_share"])
def test_disturbance_of_one_cell_in_every_block_widens_the_interval(column: str) -> None:
    shares = list(0.1 + NOISE)
    plain, found = ratio_of(1.5), ratio_of(1.5, column, shares)
    assert found.bias == pytest.approx(-np.log1p(-np.array(shares)).mean())
    assert (plain.low, plain.high) != (None, None)
    assert found.low == pytest.approx((plain.low or 0) * math.exp(-found.bias))
    assert found.high == pytest.approx((plain.high or 0) * math.exp(found.bias))
    assert found.interval(0.05) == pytest.approx((found.low, found.high))
    assert found.outcome == "higher"
    assert found.serious_notes == (
        (
            "what ran beside the servers took more CPU time from b than from a: the ratio may be off by up to 11.2 %, "
            "which its interval includes"
        ),
    )


def test_difference_that_the_bias_explains_is_undecided() -> None:
    assert ratio_of(0.92).outcome == "lower"
    found = ratio_of(0.92, "foreign_share", list(0.1 + NOISE))
    assert found.outcome == "undecided"
    assert found.reason == "counting and disturbances alone can make a difference of 11.2%"


def test_window_counts_whole_answers_so_that_an_exact_rate_may_be_off_by_one() -> None:
    """Pools of 8 with 5 and 10 ms: in 0.65 s a window counts 1,039 of 1,040 requests, and 519 of 520."""
    counts = {"a": 1039, "b": 519}
    trials = trials_of({cell: [count / 0.65] * BLOCKS for cell, count in counts.items()})
    trials["requests"] = trials["cell_id"].map(counts)
    (found,) = with_outcomes(block_ratios(take_samples(trials, "rps"), [ComparedCells("b", "a")]))
    assert (found.ratio or 0) < (found.high or 0) / 1.001
    assert (found.low or 0) < 0.5 < (found.high or 0) < 0.505
    assert (found.outcome, found.notes) == ("lower", ())


def test_background_work_counts_once_for_each_cell() -> None:
    """A server takes 3 % from the other's slices, and may save as much in its own."""
    found = ratio_of(9.0, "neighbour_share", 0.03)
    assert found.bias == pytest.approx(-2 * math.log(0.97))
    assert found.outcome == "higher"
    assert "servers without load took CPU time from b while it was under load" in found.notes[0]


def late_ratio(times: float, lag_of_b: float, metric: str = "latency_p99_s") -> Ratio:
    """Return the ratio of b to a, where this share of the p99 latency of b is time by which its tool sent late."""
    times_s = {"a": 0.01 * np.exp(NOISE), "b": times * 0.01 * np.exp(-NOISE)}
    trials = trials_of({cell: list(values) for cell, values in times_s.items()})
    trials["latency_p99_s"] = trials["rps"]
    trials["send_lag_p99_s"] = np.where(trials["cell_id"] == "b", lag_of_b, 0.01) * trials["latency_p99_s"]
    (ratio,) = with_outcomes(block_ratios(take_samples(trials, metric), [ComparedCells("b", "a")]))
    return ratio


def test_latencies_that_a_late_tool_makes_longer_widen_the_interval() -> None:
    plain, found = late_ratio(1.5, 0.05), late_ratio(1.5, 0.2)
    assert plain.bias == 0.0, "below the threshold"
    assert found.bias == pytest.approx(-math.log(0.8))
    assert found.high == pytest.approx((plain.high or 0) / 0.8)
    assert found.outcome == "higher"
    (note,) = found.serious_notes
    assert note.startswith("the load tool sent its requests late: the ratio may be off by up to 25.0 %")
    assert late_ratio(1.2, 0.2).outcome == "undecided"
    assert late_ratio(1.2, 0.2, "rps").bias == 0.0
