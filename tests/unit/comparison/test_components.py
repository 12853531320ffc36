"""Components of ratios: they add up, their intervals follow from blocks, and recorded runs have known ones."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import benchkit
from benchkit.comparison.claims import judge_claim
from benchkit.comparison.components import (
    ALLOWED,
    CORES,
    COST,
    Component,
    components_between_runs,
    components_of,
)
from benchkit.comparison.ratios import run_ratios
from benchkit.comparison.runs.run_data import RunData, read_run_data
from benchkit.comparison.why import (
    components_by_pair,
    cost_explanation,
    difference_sentence,
    explanation,
)
from benchkit.models.base import Levels, cell_id
from benchkit.models.claims import CellPair, Claim
from benchkit.models.metrics import CPU, RPS
from benchkit.store.store import Store
from tests.support.comparison.sides import BASELINE, CELL, Side, compared
from tests.support.paths import ROOT

RECORDED = Store(ROOT / "notebooks" / "recorded")
QUICKSTART, SCHEDULER = (
    benchkit.find(scenario=name, store=RECORDED.path) for name in ("quickstart", "scheduler-overhead")
)


@cache
def components(run: str) -> tuple[Component, ...]:
    return components_of(read_run_data(RECORDED, RECORDED.run(run)))


def of_level(run: str, level: str, cell_id: str) -> list[Component]:
    return [each for each in components(run) if each.level == level and each.cell_id == cell_id]


@pytest.mark.parametrize(
    ("run", "cell_id"), [(QUICKSTART, "stack=nginx-go"), (SCHEDULER, "server=fasthttp,connections=200")]
)
def test_the_terms_of_a_rate_add_up(run: str, cell_id: str) -> None:
    total, cores, cost = of_level(run, "rate", cell_id)
    assert (cores.component, cost.component) == (CORES, COST)
    assert total.difference == pytest.approx(cores.difference + cost.difference, rel=1e-12)
    assert total.value / total.baseline_value == pytest.approx(math.exp(total.difference), rel=1e-12)


@pytest.mark.parametrize(
    ("run", "level", "cell_id"),
    [
        (QUICKSTART, "service", "stack=nginx-go"),
        (SCHEDULER, "service", "server=gnet,connections=200"),
        (SCHEDULER, "category", "server=gnet,connections=200"),
    ],
)
def test_parts_of_the_cpu_time_add_up_to_the_last_digit(run: str, level: str, cell_id: str) -> None:
    *parts, total = of_level(run, level, cell_id)
    assert total.is_sum
    assert not any(part.is_sum for part in parts)
    for column in ("value", "baseline_value", "difference"):
        assert math.fsum(getattr(part, column) for part in parts) == pytest.approx(getattr(total, column), rel=1e-12)
    sizes = [abs(part.difference) for part in parts]
    assert sizes == sorted(sizes, reverse=True)


def test_an_explanation_names_the_larger_term_and_the_largest_parts() -> None:
    ((_, parts),) = components_by_pair(components(QUICKSTART)).items()
    text = explanation(parts, {"stack=go": "go", "stack=nginx-go": "nginx-go"})
    assert text is not None
    assert re.match(r"because each request takes [2-9]\.\d+ times the CPU time, .*: [\d.]+ µs more for front", text)
    assert re.search(r"the CPU cores used are not shown to differ \(0\.9\d+ and 0\.9\d+\)$", text)


def rate_terms(**terms: tuple[float, float, float]) -> list[Component]:
    """Return the terms of a rate by value, baseline value, and how far the interval of their difference reaches."""
    names = {"rate": "all", "cores": CORES, "cost": COST, "allowed": ALLOWED}
    found = []
    for term, (value, baseline, reach) in terms.items():
        difference = math.log(value / baseline) * (-1 if term == "cost" else 1)
        found.append(
            Component(
                cell_id="a", baseline_id="b", level="cores" if term == "allowed" else "rate", service=None,
                component=names[term], unit="", value=value, baseline_value=baseline, difference=difference,
                low=difference - reach, high=difference + reach, blocks=3,
            )
        )  # fmt: skip
    return found


COSTLIER = "because each request takes 2.00 times the CPU time, 1.81 to 2.21; "


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({"cores": (1.0, 1.0, 0.1)}, f"{COSTLIER}both use 1.00 CPU cores"),
        ({"cores": (0.9, 1.0, 0.2)}, f"{COSTLIER}the CPU cores used are not shown to differ (0.900 and 1.00)"),
        ({"cores": (0.8, 1.0, 0.1)}, f"{COSTLIER}A uses 0.800 CPU cores, and B 1.00"),
        (
            {"cores": (1.6, 0.8, 0.1), "allowed": (2.0, 1.0, 0.0), "cost": (2e-5, 2e-5, 0.1)},
            "because A uses 1.60 of 2 CPU cores, and B 0.800 of 1; the CPU time per request is not shown to differ (20.0 µs)",
        ),
        (
            {"cores": (0.9, 1.0, 0.2), "cost": (1.1e-5, 1e-5, 0.2)},
            "because of CPU time per request and CPU cores used together, of which neither alone is shown to differ",
        ),
    ],
)
def test_an_explanation_claims_what_is_shown_alone(terms: dict[str, tuple[float, float, float]], text: str) -> None:
    parts = rate_terms(**{"rate": (1.0, 2.0, 0.1), "cost": (2e-5, 1e-5, 0.1), **terms})
    assert explanation(parts, {"a": "A", "b": "B"}) == text


@pytest.mark.parametrize(
    ("run", "metric", "cell", "baseline", "level"),
    [
        (QUICKSTART, "cpu/app", {"stack": "nginx-go"}, {"stack": "go"}, "service"),
        (
            SCHEDULER,
            "cpu/app/read-write",
            {"server": "fasthttp", "connections": 200},
            {"server": "nethttp", "connections": 200},
            "category",
        ),
    ],
)
def test_claims_are_judged_on_components(run: str, metric: str, cell: Levels, baseline: Levels, level: str) -> None:
    data = read_run_data(RECORDED, RECORDED.run(run))
    claim = Claim(text="It costs less.", ratio=CellPair(of=cell, to=baseline), metric=metric, at_most=1.0)
    (ratio,) = judge_claim(claim, data).ratios
    name = metric.rpartition("/")[2].replace("-", "/") if level == "category" else "all"
    parts = [each for each in of_level(run, level, cell_id(cell)) if each.service == "app" and each.component == name]
    assert ratio.ratio == pytest.approx(parts[0].value / parts[0].baseline_value, rel=0.05)
    assert (ratio.low is not None) == (parts[0].low is not None)


def test_user_code_and_kernel_add_up_and_cores_follow_the_quota(tmp_path: Path) -> None:
    cell = Side({("user_cpu_s_total", "app"): 0.7}, service={"quota": 0.6}, columns={"server_cpu_s_per_request": 1e-4})
    baseline = Side({("user_cpu_s_total", "app"): 0.2}, columns={"server_cpu_s_per_request": 1e-4})
    found = components_of(compared(tmp_path, cell, baseline))
    *modes, total = (each for each in found if each.level == "mode")
    parts = {each.component: each for each in modes if each.service == "app"}
    assert parts["user code"].difference == pytest.approx(0.5 * 2.2 / 20_000)
    assert parts["kernel"].difference == pytest.approx(-parts["user code"].difference)
    assert total.difference == pytest.approx(math.fsum(each.difference for each in modes), abs=1e-15)
    cores, allowed, used = (each for each in found if each.level == "cores")
    assert allowed.value == pytest.approx(0.6)
    assert allowed.baseline_value == pytest.approx(1.0)
    assert cores.difference == pytest.approx(allowed.difference + used.difference, abs=1e-12)


def test_a_difference_in_cost_at_equal_rates_is_divided() -> None:
    run = benchkit.find(scenario="efficiency", store=RECORDED.path)
    pair, parts = next(
        (pair, parts) for pair, parts in components_by_pair(components(run)).items() if "gnet" in pair.cell_id
    )
    names = {pair.cell_id: "gnet", pair.baseline: "nethttp"}
    assert explanation(parts, names) is None
    assert re.fullmatch(r"[\d.]+ µs less for app", cost_explanation(parts, names) or "")
    assert re.fullmatch(
        r"gnet is not shown to differ from nethttp in its rate, but each request takes 0\.6\d+ times the CPU time, "
        r"0\.6\d+ to 0\.6\d+: [\d.]+ µs less for app\.",
        difference_sentence(pair, parts, names) or "",
    )


def as_run(run: RunData, run_id: str, **cells: str) -> RunData:
    """Return a run under another id, with the trials of some stacks as those of other stacks."""
    ids = {f"stack={old}": f"stack={new}" for old, new in cells.items()}
    trials = run.trials.assign(cell_id=run.trials["cell_id"].replace(ids))
    return replace(run, manifest=run.manifest.model_copy(update={"run_id": run_id}), trials=trials)


def test_between_runs_the_parts_differ_as_within_one_and_the_intervals_are_unpaired() -> None:
    """The server in front is added: `stack=go` of the second run has the trials of `stack=nginx-go`."""
    before = read_run_data(RECORDED, RECORDED.run(QUICKSTART))
    after = as_run(before, "r2", **{"go": "other", "nginx-go": "go"})
    found = components_between_runs(before, after, ["stack=go"])
    within = [each for each in components(QUICKSTART) if each.level in {"rate", "cores", "service", "mode"}]
    assert [(each.level, each.service, each.component) for each in found] == [
        (each.level, each.service, each.component) for each in within
    ]
    assert [each.difference for each in found] == pytest.approx([each.difference for each in within], rel=1e-9)
    for term, metric, sign in ((found[0], RPS, 1), (found[2], CPU, -1)):
        (ratio,) = run_ratios(before.samples(metric), after.samples(metric), ["stack=go"])
        assert ratio.low is not None
        assert ratio.high is not None
        assert (term.low, term.high) == pytest.approx(sorted((sign * math.log(ratio.low), sign * math.log(ratio.high))))
    text = explanation(found, {f"{before.manifest.run_id}/stack=go": "run r1", "r2/stack=go": "run r2"})
    assert re.match(
        r"because each request takes [2-9]\.\d+ times the CPU time, .*: [\d.]+ µs more for front", text or ""
    )


def test_relative_to_a_cell_between_runs_a_change_of_both_cells_cancels_out(tmp_path: Path) -> None:
    columns = {"before": ({CPU: 50e-6}, {CPU: 20e-6}), "after": ({CPU: 200e-6, RPS: 40_000.0}, {CPU: 40e-6})}
    before, after = (
        as_run(compared(tmp_path / name, *(Side(columns=each) for each in of_sides)), name)
        for name, of_sides in columns.items()
    )
    found = components_between_runs(before, after, [CELL], BASELINE)
    total, cores, cost = found
    assert [each.component for each in found] == ["all", CORES, COST]
    assert cost.difference == pytest.approx(-math.log(2))
    assert total.difference == pytest.approx(cores.difference + cost.difference, abs=1e-12)
    assert explanation(found, {}, relative_to="base") == (
        "because, relative to base, the CPU cores used are 7.98 times as many, 7.96 to 8.00; "
        "the CPU time per request is 2.00 times as large, 2.00 to 2.00"
    )
    assert components_between_runs(before, replace(after, table=None), [CELL]) == ()
