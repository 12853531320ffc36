"""Plans of runs on several testbeds: when these are equal, and what one plan for all of them has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchkit.errors import BenchkitError, InputError
from benchkit.hosts.tuning import Setting, TuningPlan
from benchkit.models.facts import Interface, ProgramFact, RecordedFacts
from benchkit.plan.model import OVERHEAD_S, RunPlan
from benchkit.plan.testbeds import combine_plans, compared_facts, errors_of_testbeds
from benchkit.scenario.trial_order import PlannedTrial, planned_trials
from tests.support.builders import experiment, load, run_plan, stacks

FACTS = RecordedFacts(
    hostname="s1",
    machine="x86_64",
    cpu_model="Xeon",
    cpus=(0, 1),
    cores=2,
    memory_bytes=67_000_000_000,
    kernel="6.1",
    interfaces=(Interface(name="eth0", mtu=1500, speed_bps=1e9, virtual=False, up=True, addresses=("10.0.0.1",)),),
    programs={"wrk": ProgramFact(path="/usr/bin/wrk", version="4.2.0")},
    sysctls={"net.core.somaxconn": "4096", "net.core.absent": None},
    boot_id="1",
    workdir="/home/one",
)
BLOCKS = 5


def plan_of(testbed: str, *, blocks: int = BLOCKS, testbeds: str = "equal", **fields: Any) -> RunPlan:  # noqa: ANN401 - fields of RunPlan
    """Return a plan of two cells on two hosts of a testbed."""
    small = experiment(
        stacks=stacks(go={}, fast={}),
        factors={"stack": ["go", "fast"]},
        blocks=blocks,
        load=load(duration_s=1, warmup_s=0),
        testbeds=testbeds,
    )
    ids = [cell.cell_id for cell in small.cells]
    plan = run_plan(
        small,
        testbed=testbed,
        roles={"sut": (f"{testbed}-sut",), "load": (f"{testbed}-load",)},
        planned_trials=planned_trials("blocks", ids, blocks, 1),
    )
    return replace(plan, **fields)


def errors_of(*plans: RunPlan, kernels: dict[str, str] | None = None, **changed: RecordedFacts) -> list[BenchkitError]:
    """Return the errors of plans whose hosts have the same facts, but for the `changed` ones, by testbed."""
    hosts = [(str(plan.testbed), name) for plan in plans for names in plan.roles.values() for name in names]
    facts = {name: compared_facts(changed.get(testbed, FACTS), ("wrk",)) for testbed, name in hosts}
    return list(errors_of_testbeds(plans, facts, {name: name for _, name in hosts} | (kernels or {})))


def message(errors: Sequence[BenchkitError]) -> str:
    (error,) = errors
    assert isinstance(error, InputError)
    return str(error)


def test_equal_testbeds_have_one_plan() -> None:
    one, other = plan_of("a", notes=("both", "one")), plan_of("b", notes=("both", "other"))
    plan = combine_plans([one, other])
    assert errors_of(one, other) == []
    assert plan.by_testbed == (one, other)
    assert plan.roles == {"sut": ("a-sut", "b-sut"), "load": ("a-load", "b-load")}
    assert plan.notes == ("both", "one", "other")
    assert plan.planned_trials == one.planned_trials
    assert (one.by_testbed, one.divided) == ((one,), ())


def test_the_time_is_that_of_the_testbed_with_most_blocks() -> None:
    one = plan_of("a")
    block_s = 2 * (1 + OVERHEAD_S)
    assert one.seconds == pytest.approx(BLOCKS * block_s)
    assert combine_plans([one, plan_of("b")]).seconds == pytest.approx(3 * block_s)
    assert combine_plans([one, plan_of("b"), plan_of("c")]).seconds == pytest.approx(2 * block_s)
    calibration = PlannedTrial(0, 1, one.cells[0].cell_id, "calibrate")
    calibrated = [replace(each, planned_trials=(calibration, *each.planned_trials)) for each in (one, plan_of("b"))]
    assert combine_plans(calibrated).seconds == pytest.approx(block_s / 2 + 3 * block_s)


def test_what_cannot_change_results_may_differ() -> None:
    other = FACTS.model_copy(
        update={
            "hostname": "s2",
            "cpus": (4, 5),
            "memory_bytes": 67_100_000_000,
            "interfaces": (
                Interface(name="enp1s0", mtu=1500, speed_bps=1e9, virtual=False, up=True, addresses=("10.0.0.2",)),
                Interface(name="unused", mtu=9000, up=False),
            ),
            "boot_id": "2",
            "workdir": "/home/two",
        }
    )
    assert errors_of(plan_of("a"), plan_of("b"), b=other) == []


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"cpus": (0,)}, "CPUs: 2 on a-sut, 1 on b-sut"),
        ({"memory_bytes": 34_000_000_000}, "memory: 62 GiB on a-sut, 32 GiB on b-sut"),
        ({"kernel": "6.2"}, "kernel: 6.1 on a-sut, 6.2 on b-sut"),
        ({"governor": "powersave"}, "governor: unknown on a-sut, powersave on b-sut"),
        ({"sysctls": {"net.core.somaxconn": "128"}}, "net.core.somaxconn: 4096 on a-sut, 128 on b-sut"),
        ({"interfaces": (Interface(name="eth0", mtu=9000, up=True),)}, "MTU 9000 on b-sut"),
        ({"programs": {"wrk": ProgramFact(path="/usr/bin/wrk", version="4.1")}}, "version of wrk: 4.2.0 on a-sut, 4.1"),
    ],
)
def test_a_fact_that_differs_is_named(change: dict[str, object], difference: str) -> None:
    text = message(errors_of(plan_of("a"), plan_of("b"), b=FACTS.model_copy(update=change)))
    assert "the testbeds are not equal" in text
    assert difference in text


def test_tuning_makes_settings_equal() -> None:
    setting = Setting("net.core.somaxconn", "4096", "128", "apply", sudo=False)
    tuning = tuple(TuningPlan(host, (setting,)) for host in ("b-sut", "b-load"))
    other = FACTS.model_copy(update={"sysctls": {"net.core.somaxconn": "128"}})
    plans = [plan_of("a"), plan_of("b", tuning=tuning)]
    plan = combine_plans(plans)
    assert errors_of(*plans, b=other) == []
    assert plan.tuning == tuning


def test_the_numbers_of_hosts_and_the_cells_must_be_equal() -> None:
    one = plan_of("a")
    more = plan_of("b", roles={"sut": ("b-sut",), "load": ("b-load", "b-more")})
    assert "1 host in role load on testbed a, 2 hosts on b" in message(errors_of(one, more))
    ids = [cell.cell_id for cell in one.cells]
    fewer = replace(
        plan_of("b", planned_trials=planned_trials("blocks", ids[:1], BLOCKS, 1)),
        cells=tuple(replace(cell, unsupported="no room" if cell.cell_id != ids[0] else None) for cell in one.cells),
    )
    assert f"cells that only one of testbeds a and b supports: {', '.join(ids[1:])}" in message(errors_of(one, fewer))


def test_testbeds_on_one_machine_cannot_both_tune_it() -> None:
    setting = Setting("net.core.somaxconn", "4096", "128", "apply", sudo=False)
    plans = [plan_of(name, tuning=(TuningPlan(f"{name}-sut", (setting,)),)) for name in "ab"]
    assert errors_of(*plans) == []
    text = message(errors_of(*plans, kernels={"b-sut": "a-sut"}))
    assert "testbeds a and b change the kernel settings of one machine" in text


def test_a_sequential_design_runs_on_one_testbed() -> None:
    plan = combine_plans([plan_of("a", design="sequential"), plan_of("b", design="sequential")])
    assert (plan.testbed, plan.divided) == ("a", ())
    assert "only testbed a runs" in plan.notes[-1]


def test_a_testbed_that_is_a_factor_has_cells_and_blocks_of_its_own() -> None:
    slow = FACTS.model_copy(update={"cpus": (0,)})
    plans = [plan_of(testbed, testbeds="factor", blocks=2) for testbed in ("a", "b")]
    plan = combine_plans(plans)
    assert errors_of(*plans, b=slow) == []
    assert [cell.cell_id for cell in plan.cells] == [f"stack={s},testbed={t}" for t in "ab" for s in ("go", "fast")]
    assert [cell.spec.levels["testbed"] for cell in plan.cells] == ["a", "a", "b", "b"]
    places = [(trial.block, trial.position, trial.cell_id[-1]) for trial in plan.planned_trials]
    assert places == [(block, position, "abab"[block - 1]) for block in (1, 2, 3, 4) for position in (1, 2)]
    assert (plan.assignments, plan.blocks) == ({1: "a", 2: "b", 3: "a", 4: "b"}, 4)
    for testbed in plan.divided:
        assert [testbed.cell_of(trial).cell_id for trial in testbed.planned_trials]
    assert combine_plans([plan_of("a"), plan_of("b")]).assignments == {}


def test_a_rate_that_the_run_finds_is_of_no_single_testbed() -> None:
    one = plan_of("a", testbeds="factor")
    calibrated = replace(
        one, planned_trials=(PlannedTrial(0, 1, one.cells[0].cell_id, "calibrate"), *one.planned_trials)
    )
    assert "a target rate that the run finds itself" in message(errors_of(calibrated, plan_of("b", testbeds="factor")))
