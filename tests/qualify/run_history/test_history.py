from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.models.run import CodeState
from benchkit.run_history.series import history
from benchkit.store.row_builders import INTERRUPTED
from tests.support.comparison.fixtures import STARTED, StoreRun, manifest_of, trials_of

StoreHistory = Callable[..., None]
CELLS = [{"stack": "old"}, {"stack": "new"}]
BLOCKS = 8
SMALL = {"cpus": [0, 1], "kernel": "6.1", "memory_bytes": 2 << 30}
LARGE = {"cpus": [0, 1, 2, 3], "kernel": "6.1", "memory_bytes": 8 << 30}


@pytest.fixture
def store_history(stored: StoreRun) -> StoreHistory:
    """Store a run for each of these ratios; `speeds` multiply both cells, `facts` are those of the runs' hosts."""

    def store_all(
        ratios: Sequence[float],
        speeds: Sequence[float] = (),
        facts: Sequence[Mapping[str, Any]] = (),
        **fields: Any,  # noqa: ANN401 - fields of a manifest
    ) -> None:
        generator = np.random.default_rng(7)
        for i, ratio in enumerate(ratios):
            speed = speeds[i] if speeds else 1.0
            shared = speed * 1000 * np.exp(0.1 * generator.standard_normal(BLOCKS))
            noise = np.exp(0.01 * generator.standard_normal((2, BLOCKS)))
            run_id = f"r{i:02}"
            manifest = manifest_of(
                CELLS,
                run_id=run_id,
                started_at=STARTED + timedelta(days=i),
                tags={"version": f"1.{i}"},
                code=CodeState(commit=f"{i:040x}", subject=f"Change {i}"),
                facts=facts[i] if facts else SMALL,
                **fields,
            )
            trials = trials_of(
                {"stack=old": shared * noise[0], "stack=new": ratio * shared * noise[1]}, run_id=run_id, tool="wrk"
            )
            stored(manifest, trials)

    return store_all


def test_a_step_is_found_with_its_size_its_runs_and_the_state_of_their_code(
    tmp_path: Path, store_history: StoreHistory
) -> None:
    store_history([1.0] * 9 + [0.9] * 5)
    (series,) = history("small", store=tmp_path).series
    (shift,) = series.shifts
    assert (series.cell_id, series.baseline, series.scale) == ("stack=new", "stack=old", "lab")
    assert (shift.worth, shift.last_good_run, shift.first_run) == ("worse", "r08", "r09")
    assert shift.low < 0.9 < shift.high
    assert (shift.runs_before, shift.runs_after) == (9, 5)
    assert "r09 (000000000000, version=1.9)" in shift.sentence
    assert [point.is_used for point in series.points] == [True] * 14
    assert series.level == pytest.approx(0.9, rel=0.01)
    assert benchkit.history("small", store=tmp_path, cell="stack=new").frame()["value"].iloc[0] == pytest.approx(
        1, rel=0.02
    )


def test_ratios_survive_a_change_of_hosts_and_values_do_not(tmp_path: Path, store_history: StoreHistory) -> None:
    store_history([0.8] * 12, speeds=[1.0] * 6 + [3.0] * 6, facts=[SMALL] * 6 + [LARGE] * 6)
    (series,) = history("small", store=tmp_path).series
    assert series.shifts == ()
    assert [(segment.first_run, segment.runs) for segment in series.segments] == [("r00", 6), ("r06", 6)]
    assert series.segments[1].differences == (
        "host for sut: cpus was 0,1, is 0,1,2,3",
        "host for sut: memory_bytes was 2 GiB, is 8 GiB",
    )
    by_hosts = history("small", store=tmp_path, values=True, cell="stack=old")
    assert [(len(each.points), each.shifts) for each in by_hosts.series] == [(6, ()), (6, ())]
    assert by_hosts.series[1].level == pytest.approx(3 * (by_hosts.series[0].level or 0), rel=0.1)


def test_a_shift_with_a_change_of_hosts_is_said_to_be_perhaps_theirs(
    tmp_path: Path, store_history: StoreHistory
) -> None:
    store_history([1.0] * 7 + [0.8] * 7, facts=[SMALL] * 7 + [LARGE] * 7)
    (series,) = history("small", store=tmp_path).series
    assert series.shifts[0].conditions == series.segments[1].differences
    assert "may be the cause" in series.shifts[0].sentence


def test_runs_without_usable_trials_are_shown_and_not_used(
    tmp_path: Path, store_history: StoreHistory, stored: StoreRun
) -> None:
    store_history([1.0] * 6)
    trials = trials_of({"stack=old": [1000.0] * 6, "stack=new": [100.0] * 6}, run_id="bad")
    trials["kind"] = INTERRUPTED
    stored(manifest_of(CELLS, run_id="bad", started_at=STARTED + timedelta(days=50)), trials)
    (series,) = history("small", store=tmp_path).series
    assert [point.run_id for point in series.points if not point.is_used] == ["bad"]
    assert "an interval needs 3" in series.points[-1].note
    assert series.sentences[-1] == "1 run without a usable interval: shown, not used."


def test_runs_before_a_date_are_omitted(tmp_path: Path, store_history: StoreHistory) -> None:
    store_history([1.0] * 4)
    found = history("small", store=tmp_path, since=f"{STARTED + timedelta(days=2):%Y-%m-%d}")
    assert [point.run_id for point in found.series[0].points] == ["r02", "r03"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenario": "smal"}, "did you mean 'small'"),
        ({"metric": "rp"}, "did you mean 'rps'"),
        ({"cell": "stack=nwe"}, "stack=new"),
        ({"since": "lately"}, "not a date"),
        ({"since": "2100-01-01"}, "no run of small started since"),
    ],
)
def test_what_does_not_exist_is_an_error(
    tmp_path: Path, store_history: StoreHistory, arguments: dict[str, str], message: str
) -> None:
    store_history([1.0] * 2)
    with pytest.raises(InputError, match=message):
        history(**{"scenario": "small", **arguments}, store=tmp_path)  # type: ignore[arg-type] # all are texts
