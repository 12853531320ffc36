from __future__ import annotations

import math

import pytest

from benchkit.comparison.ratios import Ratio
from benchkit.plugins.bisect.record import SearchStep, StepJudgement
from benchkit.plugins.bisect.search import (
    Bisection,
    classify,
    count_steps,
    describe,
    halfway,
    is_shown_worse,
    step_error_rate,
    undecided_steps,
)

COMMITS = tuple(f"c{i}" for i in range(8))


def ratio(point: float, error: float, metric: str = "rps") -> Ratio:
    """Return a ratio of ten blocks with this standard error of its logarithm."""
    plain = Ratio(metric=metric, cell_id="commit", baseline="good", blocks=10)
    return plain.with_point(math.log(point), 0.0).with_interval(math.log(point), error, 9, 0.05)


def judged(search: Bisection, *judgements: tuple[str, StepJudgement]) -> Bisection:
    for commit, judgement in judgements:
        search = search.with_step(SearchStep(commit=commit, judgement=judgement))
    return search


def test_all_commits_are_suspects_at_first_and_the_middle_is_tested() -> None:
    search = Bisection(COMMITS)
    assert search.suspects == COMMITS
    assert search.next_commit == "c3"


def test_good_commit_clears_itself_and_those_before_it() -> None:
    assert judged(Bisection(COMMITS), ("c3", "good")).suspects == ("c4", "c5", "c6", "c7")


def test_bad_commit_clears_those_after_it() -> None:
    search = judged(Bisection(COMMITS), ("c3", "bad"))
    assert search.suspects == ("c0", "c1", "c2", "c3")
    assert search.next_commit == "c1"


def test_search_ends_at_the_first_bad_commit() -> None:
    search = judged(Bisection(COMMITS), ("c3", "bad"), ("c1", "good"), ("c2", "good"))
    assert search.next_commit is None
    assert search.suspects == ("c3",)
    assert describe(search, {"c3": "Copy the body twice"}) == "c3 (Copy the body twice) is the first bad commit."


@pytest.mark.parametrize("first_bad", range(8))
def test_every_place_is_found_in_the_stated_number_of_steps(first_bad: int) -> None:
    search = Bisection(COMMITS)
    while (commit := search.next_commit) is not None:
        search = judged(search, (commit, "bad" if COMMITS.index(commit) >= first_bad else "good"))
    assert search.suspects == (COMMITS[first_bad],)
    assert len(search.steps) + 1 <= count_steps(len(COMMITS))


def test_skipped_commit_is_replaced_by_its_neighbour_and_stays_a_suspect() -> None:
    search = judged(Bisection(COMMITS), ("c3", "skipped"))
    assert search.next_commit == "c2"
    search = judged(search, ("c2", "good"), ("c5", "bad"), ("c4", "bad"))
    assert search.next_commit is None
    assert search.suspects == ("c3", "c4")
    assert describe(search) == ("The first bad commit is one of 2, of which the others could not be tested: c3, c4.")


def test_search_of_one_commit_needs_no_further_test() -> None:
    search = Bisection(("only",))
    assert search.next_commit is None
    assert search.suspects == ("only",)
    assert count_steps(1) == 1


def test_error_rate_is_divided_among_the_steps() -> None:
    assert count_steps(32) == 6
    assert step_error_rate(32) == pytest.approx(0.05 / 6)


def test_commit_is_decided_once_the_interval_excludes_the_threshold() -> None:
    threshold = halfway(0.9)
    assert threshold == pytest.approx(0.9487, abs=1e-4)
    assert classify(ratio(0.90, 0.005), threshold, 0.01) == ("bad", True)
    assert classify(ratio(0.99, 0.005), threshold, 0.01) == ("good", True)
    assert classify(ratio(0.94, 0.05), threshold, 0.01) == ("bad", False)


def test_more_is_worse_for_a_cost() -> None:
    cost = "server_cpu_s_per_request"
    assert classify(ratio(1.1, 0.005, cost), halfway(1.1), 0.01) == ("bad", True)
    assert classify(ratio(1.0, 0.005, cost), halfway(1.1), 0.01) == ("good", True)
    assert is_shown_worse(ratio(1.1, 0.01, cost), 0.05)
    assert not is_shown_worse(ratio(0.9, 0.01, cost), 0.05)


def test_slowdown_is_shown_by_the_whole_interval() -> None:
    assert is_shown_worse(ratio(0.9, 0.01), 0.05)
    assert not is_shown_worse(ratio(0.9, 0.1), 0.05)
    assert not is_shown_worse(ratio(1.1, 0.01), 0.05)


def test_commit_without_a_ratio_cannot_be_judged() -> None:
    assert classify(Ratio(metric="rps", cell_id="commit", baseline="good", blocks=0), 0.95, 0.01) is None


def test_steps_decided_by_their_point_alone_are_listed() -> None:
    steps = [
        SearchStep(commit="a", judgement="good"),
        SearchStep(commit="b", judgement="bad", is_decided=False),
        SearchStep(commit="c", judgement="skipped", is_decided=False),
    ]
    assert undecided_steps(steps) == (steps[1],)
