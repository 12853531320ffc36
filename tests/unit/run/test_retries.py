"""The decisions about failed trials: retried after which pauses, final, or the end of their cell; on values."""

from __future__ import annotations

import pytest

from benchkit.errors import (
    HostError,
    HostStateError,
    InputError,
    LoadToolError,
    LoadToolHangError,
    LostError,
    ParseError,
    ServiceError,
)
from benchkit.hosts.agent_link import ResourceExhaustedError
from benchkit.hosts.sockets import PortTakenError
from benchkit.run.retries import MAX_FAILURES_IN_ROW, RUN_PAUSES_S, TRIAL_PAUSES_S, RetryPolicy, cause_of
from benchkit.store.journal import FailureCause

TIME_WAIT_S = 60.0


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (HostStateError("no space"), "host-state"),
        (PortTakenError("a port is taken"), "host-state"),
        (ResourceExhaustedError("host-state", "No space left on device", where="sut", why=None), "host-state"),
        (ServiceError("app ended"), "server"),
        (ParseError("no output of wrk"), "scenario"),
        (InputError("no such header"), "scenario"),
        (LoadToolHangError("h2load did not end"), "hang"),
        (LoadToolError("wrk cannot measure it"), "load-tool"),
        (HostError("wrk failed with exit code 1"), "other"),
        (LostError("the link is dead"), "host-lost"),
    ],
)
def test_the_type_of_an_error_is_the_cause_of_a_failure(error: Exception, cause: FailureCause) -> None:
    assert cause_of(error, is_host_lost=False) == cause
    assert cause_of(error, is_host_lost=True) == "host-lost"


def test_pauses_grow_and_outlast_the_minute_for_which_the_kernel_keeps_a_port() -> None:
    pauses = tuple(RetryPolicy().pauses())
    assert pauses == TRIAL_PAUSES_S
    assert list(pauses) == sorted(pauses)
    assert sum(pauses) > TIME_WAIT_S


def test_the_pauses_of_all_trials_together_stay_within_the_budget_of_the_run() -> None:
    retries = RetryPolicy()
    used = [sum(retries.pauses()) for _ in range(10)]
    assert used[0] == sum(TRIAL_PAUSES_S)
    assert used[-1] == 0
    assert sum(used) <= RUN_PAUSES_S
    assert next(RetryPolicy().pauses()) == TRIAL_PAUSES_S[0], "another run has a budget of its own"


def test_a_cell_is_skipped_after_failures_in_a_row_and_a_success_in_between_starts_the_count_anew() -> None:
    retries = RetryPolicy()
    for _ in range(MAX_FAILURES_IN_ROW - 1):
        retries.add_failure("a", "app crashed")
    assert retries.why_skipped("a") is None
    retries.add_success("a")
    for number in range(MAX_FAILURES_IN_ROW):
        assert retries.why_skipped("a") is None
        retries.add_failure("a", f"app crashed ({number})")
    why = retries.why_skipped("a")
    assert why == "skipped after 3 failures of this cell in a row, the last one: app crashed (2)"
    assert retries.why_skipped("b") is None
