from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from benchkit.comparison.ratios import Ratio
from benchkit.errors import BenchkitError
from benchkit.models.request import Request
from benchkit.plugins.bisect.bisection import commit_fields
from benchkit.plugins.bisect.search import (
    Compared,
    Search,
    SearchStep,
    StepJudgement,
    answer_of,
    classify,
    count_steps,
    run_search,
)
from benchkit.scenario.versus import ServerComparison
from benchkit.services.git_source import Commit


def ratio(point: float, error: float, metric: str = "rps") -> Ratio:
    """Return a ratio of ten blocks with this standard error of its logarithm."""
    plain = Ratio(metric=metric, cell_id="commit", baseline="good", blocks=10)
    return plain.with_point(math.log(point), 0.0).with_interval(math.log(point), error, 9, 0.05)


GOOD = "g" * 40


def search(commits: int, metric: str = "rps") -> Search:
    return Search(
        repository="/src",
        good=Commit(commit=GOOD, subject="good"),
        commits=tuple(Commit(commit=f"c{i}", subject=f"subject {i}") for i in range(commits)),
        metric=metric,
        build="make",
        run="./app {port}",
        comparison=ServerComparison((Request(),), "h2load", connections=8, budget_s=60, precision=0.05),
    )


def judged(commits: int, *judgements: tuple[str, StepJudgement]) -> Search:
    """Return a search whose bad end is slower, with these steps."""
    steps = tuple(SearchStep(commit=commit, judgement=judgement) for commit, judgement in judgements)
    end = SearchStep(commit=f"c{commits - 1}", judgement="bad")
    return search(commits).model_copy(update={"end": end, "steps": steps})


def suspects(found: Search) -> list[str]:
    return [each.commit for each in found.suspects]


def test_all_commits_are_suspects_at_first_and_the_middle_is_tested() -> None:
    assert suspects(judged(8)) == [f"c{i}" for i in range(8)]
    assert judged(8).next_commit == "c3"


def test_search_ends_at_the_first_bad_commit() -> None:
    found = judged(8, ("c3", "bad"), ("c1", "good"), ("c2", "good"))
    assert (suspects(found), found.next_commit) == (["c3"], None)


def test_skipped_commit_is_replaced_by_its_neighbour_and_stays_a_suspect() -> None:
    assert judged(8, ("c3", "skipped")).next_commit == "c2"
    found = judged(8, ("c3", "skipped"), ("c2", "good"), ("c5", "bad"), ("c4", "bad"))
    assert (suspects(found), found.next_commit) == (["c3", "c4"], None)


def test_commit_is_decided_once_the_interval_excludes_the_threshold() -> None:
    threshold = math.sqrt(0.9)
    assert classify(ratio(0.90, 0.005), threshold, 0.01) == ("bad", True)
    assert classify(ratio(0.99, 0.005), threshold, 0.01) == ("good", True)
    assert classify(ratio(0.94, 0.05), threshold, 0.01) == ("bad", False)


def test_more_is_worse_for_a_cost() -> None:
    cost = "server_cpu_s_per_request"
    assert classify(ratio(1.1, 0.005, cost), math.sqrt(1.1), 0.01) == ("bad", True)
    assert classify(ratio(1.0, 0.005, cost), math.sqrt(1.1), 0.01) == ("good", True)


def measured(point: float, error: float = 0.005, metric: str = "rps") -> Compared:
    return Compared(ratio(point, error, metric), run_id="r1")


class Comparisons:
    """Comparisons of commits, as given by their place; all requests are kept."""

    def __init__(self, result: Callable[[int], Compared]) -> None:
        self.result = result
        self.asked: list[str] = []
        self.thresholds: list[float | None] = []
        self.judged: list[list[str]] = []

    def __call__(self, commit: str, *, threshold: float | None, judged: Sequence[str]) -> Compared:
        self.asked.append(commit)
        self.thresholds.append(threshold)
        self.judged.append(list(judged))
        return self.result(int(commit[1:]))


def slower_from(first_bad: int) -> Callable[[int], Compared]:
    return lambda place: measured(0.81 if place >= first_bad else 1.0)


def ignore(_: Search) -> None:
    """Save nothing."""


@pytest.mark.parametrize("first_bad", range(8))
def test_first_slow_commit_is_found(first_bad: int) -> None:
    compare = Comparisons(slower_from(first_bad))
    found = run_search(search(8), compare, ignore)
    answer = answer_of(found)
    assert [commit.commit for commit in answer.first_bad] == [f"c{first_bad}"]
    assert answer.sentences[0] == f"c{first_bad} (subject {first_bad}) is the first bad commit."
    assert answer.sentences[1].startswith("The bad end has 0.810 times the RPS of the good end, 0.")
    assert compare.asked[0] == "c7"
    assert compare.thresholds[0] is None
    assert compare.thresholds[1:] == pytest.approx([0.9] * len(compare.thresholds[1:]))
    assert answer.undecided == answer.skipped == ()
    assert len(compare.asked) <= count_steps(8)


@pytest.mark.parametrize("end", [measured(1.0), measured(1.2), measured(1.5, error=0.1), measured(0.99, error=0.01)])
def test_without_a_slowdown_nothing_is_searched(end: Compared) -> None:
    compare = Comparisons(lambda _: end)
    found = run_search(search(8), compare, ignore)
    answer = answer_of(found)
    assert compare.asked == ["c7"]
    assert not answer.is_slowdown_shown
    assert answer.first_bad == ()
    assert answer.sentences[0] == "No slowdown is shown between the good and the bad end."
    assert end.ratio is not None
    assert found.end is not None
    assert found.end.ratio == end.ratio.ratio
    assert found.end.low is not None


@pytest.mark.parametrize("end", [measured(0.34, error=0.5), measured(0.9, error=0.1), measured(1.1, error=0.1)])
def test_wide_interval_of_the_bad_end_leaves_it_undecided(end: Compared) -> None:
    compare = Comparisons(lambda _: end)
    found = run_search(search(8), compare, ignore)
    assert compare.asked == ["c7"]
    assert found.end is not None
    assert (found.end.judgement, found.end.is_decided) == ("undecided", False)
    assert str(found.end).endswith(", undecided")
    answer = answer_of(found)
    assert not answer.is_slowdown_shown
    assert answer.first_bad == ()
    assert answer.undecided == ()
    assert answer.sentences[0].startswith("Whether the bad end is slower is undecided: ")


def test_commit_that_cannot_be_compared_is_skipped_with_its_reason() -> None:
    compare = Comparisons(lambda place: Compared(reason="no rule") if place == 3 else slower_from(6)(place))
    answer = answer_of(run_search(search(8), compare, ignore))
    assert [commit.commit for commit in answer.first_bad] == ["c6"]
    assert [(step.commit, step.reason) for step in answer.skipped] == [("c3", "no rule")]
    assert "Skipped: c3 (subject 3): no rule." in answer.sentences


def test_skipped_commits_before_the_first_bad_one_stay_suspects() -> None:
    compare = Comparisons(lambda place: Compared(reason="no rule") if place in {2, 3} else slower_from(4)(place))
    answer = answer_of(run_search(search(8), compare, ignore))
    assert [commit.commit for commit in answer.first_bad] == ["c2", "c3", "c4"]
    assert answer.sentences[0] == (
        "The first bad commit is one of 3, of which the others could not be tested: "
        "c2 (subject 2), c3 (subject 3), c4 (subject 4)."
    )


def test_step_whose_time_is_spent_is_judged_by_its_point_and_said_to_be() -> None:
    compare = Comparisons(lambda place: measured(0.88, error=0.05) if place == 3 else slower_from(2)(place))
    answer = answer_of(run_search(search(8), compare, ignore))
    assert [(step.commit, step.judgement) for step in answer.undecided] == [("c3", "bad")]
    assert "Undecided, judged by its point alone: c3 (subject 3)." in answer.sentences
    assert answer.sentences[-1].endswith("at most 5%, if the undecided steps are right.")


def test_equal_build_has_the_judgement_of_the_other_commit() -> None:
    equal = {3: GOOD, 5: "c7"}
    compare = Comparisons(lambda place: Compared(same_as=equal[place]) if place in equal else slower_from(5)(place))
    answer = run_search(search(8), compare, ignore)
    assert [(step.commit, step.judgement, step.ratio) for step in answer.steps[:2]] == [
        ("c3", "good", None),
        ("c5", "bad", None),
    ]
    assert answer.steps[1].reason == "its build output is that of c7, byte for byte"
    assert [commit.commit for commit in answer_of(answer).first_bad] == ["c5"]
    assert compare.judged[-1] == [GOOD, "c7", "c3", "c5"]


def test_bad_end_that_cannot_be_compared_is_an_error() -> None:
    with pytest.raises(BenchkitError, match="bad end cannot be compared") as raised:
        run_search(search(8), Comparisons(lambda _: Compared(reason="it does not start")), ignore)
    assert raised.value.why == "it does not start"


def test_commits_that_are_built_together_take_no_part_of_the_time_of_a_step() -> None:
    record = search(commits=31)
    of_step, of_all = (
        commit_fields(record, [GOOD, *(each.commit for each in record.commits[:number])], record.comparison)
        for number in (1, 31)
    )
    assert of_all["factors"] == {"ref": [GOOD, *(each.commit for each in record.commits)]}
    assert of_all["load"] == of_step["load"]
