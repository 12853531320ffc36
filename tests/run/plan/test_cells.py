from __future__ import annotations

import pytest

from benchkit.run.plan import cells
from benchkit.run.plan.cells import skip_equal_cells
from benchkit.run.plan.model import PlannedCell, describe_cell
from tests.builders import experiment, load, planned_cells, stacks


def test_a_cell_that_equals_an_earlier_one_on_these_hosts_is_skipped() -> None:
    """Cells without services differ in their loads only."""
    factors = {"stack": ["one", "two"], "connections": [1, 2]}
    planned = planned_cells(
        experiment(factors=factors, stacks=stacks(one={}, two={"listen": 8081}), load=load(connections="$connections"))
    )
    assert [cell.unsupported for cell in skip_equal_cells(planned)] == [
        None,
        None,
        "on these hosts the same as stack=one,connections=1",
        "on these hosts the same as stack=one,connections=2",
    ]
    assert not any(cell.same_as for cell in skip_equal_cells(planned))
    unsupported = planned_cells(experiment(factors={"stack": ["one"]}), one="too small")
    assert [cell.unsupported for cell in skip_equal_cells(unsupported)] == ["too small"]


def test_a_stack_that_is_written_twice_is_a_control() -> None:
    factors = {"stack": ["one", "two"], "connections": [1, 2]}
    planned = planned_cells(
        experiment(factors=factors, stacks=stacks(one={}, two={}), load=load(connections="$connections"))
    )
    assert [(cell.unsupported, cell.same_as) for cell in skip_equal_cells(planned)] == [
        (None, None),
        (None, None),
        (None, "stack=one,connections=1"),
        (None, "stack=one,connections=2"),
    ]


def test_each_cell_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []
    describe = describe_cell

    def record(cell: PlannedCell) -> str:
        described.append(cell.cell_id)
        return describe(cell)

    monkeypatch.setattr(cells, "describe_cell", record)
    sizes = list(range(1, 301))
    planned = planned_cells(experiment(factors={"n": sizes}, load=load(connections="$n")))
    assert len(list(skip_equal_cells(planned))) == len(described) == len(sizes)
