from __future__ import annotations

import pytest

from benchkit.errors import HostError
from benchkit.plan import cells
from benchkit.plan.cells import mark_equal_cells, plan_cell
from benchkit.plan.model import PlannedCell, describe_cell
from tests.support.builders import experiment, load, planned_cells, stacks
from tests.unit.plan.test_host_capabilities import capabilities


def test_a_cell_that_equals_an_earlier_one_on_these_hosts_is_skipped() -> None:
    """Cells without services differ in their loads only."""
    factors = {"stack": ["one", "two"], "connections": [1, 2]}
    planned = planned_cells(
        experiment(factors=factors, stacks=stacks(one={}, two={"listen": 8081}), load=load(connections="$connections"))
    )
    assert [cell.unsupported for cell in mark_equal_cells(planned)] == [
        None,
        None,
        "on these hosts the same as stack=one,connections=1",
        "on these hosts the same as stack=one,connections=2",
    ]
    assert not any(cell.same_as for cell in mark_equal_cells(planned))
    unsupported = planned_cells(experiment(factors={"stack": ["one"]}), one="too small")
    assert [cell.unsupported for cell in mark_equal_cells(unsupported)] == ["too small"]


def test_a_stack_that_is_written_twice_is_a_control() -> None:
    factors = {"stack": ["one", "two"], "connections": [1, 2]}
    planned = planned_cells(
        experiment(factors=factors, stacks=stacks(one={}, two={}), load=load(connections="$connections"))
    )
    assert [(cell.unsupported, cell.same_as) for cell in mark_equal_cells(planned)] == [
        (None, None),
        (None, None),
        (None, "stack=one,connections=1"),
        (None, "stack=one,connections=2"),
    ]


@pytest.mark.parametrize(
    ("connections", "nofile", "reason"),
    [
        (960, 1024, None),
        (961, 1024, "961 connections: box allows at most 1024 open files"),
        (
            28233,
            None,
            "28233 connections: box has 28232 local ports for one address; 2 such load hosts can hold all 28233",
        ),
    ],
)
def test_connections_are_limited_by_open_files_and_local_ports(
    connections: int, nofile: int | None, reason: str | None
) -> None:
    there = {"entry": "app", "services": {"app": {"backend": "external", "url": "http://10.0.0.9:81"}}}
    made = experiment(stacks={"one": there}, roles={"load": {}}, load=load(tool="h2load", connections=connections))
    hosts = {"box": capabilities(nofile_hard=nofile)}
    assert plan_cell(made, made.cells[0], {"load": ("box",)}, hosts).unsupported == reason


def test_each_cell_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[str] = []
    describe = describe_cell

    def record(cell: PlannedCell) -> str:
        described.append(cell.cell_id)
        return describe(cell)

    monkeypatch.setattr(cells, "describe_cell", record)
    sizes = list(range(1, 301))
    planned = planned_cells(experiment(factors={"n": sizes}, load=load(connections="$n")))
    assert len(list(mark_equal_cells(planned))) == len(described) == len(sizes)


@pytest.mark.parametrize("optional", [True, False])
def test_a_missing_program_of_an_optional_service_makes_its_cells_unsupported(*, optional: bool) -> None:
    caddy = {"backend": "command", "listen": 8080, "run": "caddy run", "optional": optional}
    made = experiment(stacks={"one": {"entry": "app", "services": {"app": caddy}}})
    roles, hosts = {"sut": ("box",), "load": ("box",)}, {"box": capabilities()}
    if optional:
        unsupported = plan_cell(made, made.cells[0], roles, hosts).unsupported
        assert unsupported is not None
        assert unsupported.startswith("caddy is missing on ")
    else:
        with pytest.raises(HostError, match="caddy is missing"):
            plan_cell(made, made.cells[0], roles, hosts)
