"""Components of ratios: they add up, their intervals follow from blocks, and those of recorded runs are known."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from benchkit.comparison.components import CORES, COST, REST, Component, components_of
from benchkit.comparison.run_data import read_run_data
from benchkit.comparison.why import components_by_pair, explanation, is_shown
from benchkit.store.store import Store
from tests.support.paths import ROOT

RECORDED = Store(ROOT / "notebooks" / "recorded")
QUICKSTART, SCHEDULER = "r20261126-021511-7f26", "r20261124-021804-5703"


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


def test_a_service_in_front_costs_what_its_processes_use() -> None:
    front, app, total = of_level(QUICKSTART, "service", "stack=nginx-go")
    assert (front.service, front.baseline_value, is_shown(front)) == ("front", 0.0, True)
    assert (app.service, REST not in {front.component, app.component}) == ("app", True)
    assert front.difference == pytest.approx(13.6e-6, abs=0.1e-6)
    assert total.difference == pytest.approx(13.2e-6, abs=0.1e-6)


def test_the_lead_of_fasthttp_is_mainly_that_of_its_http() -> None:
    by_name = {part.component: part for part in of_level(SCHEDULER, "category", "server=fasthttp,connections=200")}
    assert by_name["http"].difference < by_name["read/write"].difference < by_name["allocation"].difference < 0
    assert by_name["http"].difference < 3 * (by_name["allocation"].difference + by_name["gc"].difference) / 2


def test_intervals_are_those_of_students_t_over_blocks() -> None:
    total = of_level(QUICKSTART, "service", "stack=nginx-go")[-1]
    trials = RECORDED.run(QUICKSTART)
    assert total.blocks == trials.manifest().blocks
    assert total.low is not None
    assert total.high is not None
    assert np.isclose((total.low + total.high) / 2, total.difference)


def test_an_explanation_names_the_larger_term_and_the_largest_parts() -> None:
    ((_, parts),) = components_by_pair(components(QUICKSTART)).items()
    text = explanation(parts, {"stack=go": "go", "stack=nginx-go": "nginx-go"})
    assert text is not None
    assert text.startswith("because each request takes 2.16 times the CPU time, 2.10 to 2.22: 13.6 µs more for front")
    assert text.endswith("; both use as many CPU cores, 0.978")


def test_equal_rates_are_not_explained() -> None:
    ((_, parts),) = components_by_pair(components(QUICKSTART)).items()
    same = [part.model_copy(update={"low": -0.01, "high": 0.01}) if part.level == "rate" else part for part in parts]
    assert explanation(same, {"stack=go": "go", "stack=nginx-go": "nginx-go"}) is None
