"""Tuning files as levels of a factor: the plan on values, and the settings of the hosts during trials on the lab."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from benchkit.agent.settings import Sysctls
from benchkit.agent.undo import Undo
from benchkit.errors import BenchkitError, HostError
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab
from benchkit.run import attempt
from benchkit.run.block import run_block
from benchkit.run.run import OpenedRun, execute
from benchkit.run.steps.state import Block
from benchkit.scenario.experiment import Experiment
from benchkit.store.journal import JournalEvent
from benchkit.store.store import Store
from tests.qualify.chaos.kit import Bench
from tests.support.builders import Fields, load, read_scenario, stacks, write_scenario
from tests.support.needs import kernel_settings
from tests.support.run.opening import open_run

SOMAXCONN, BACKLOG = "net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"
OF_RUN = {SOMAXCONN: "300", BACKLOG: "500"}
OF_LEVEL = {"none": OF_RUN, "long.yaml": {**OF_RUN, SOMAXCONN: "700"}, "both.yaml": {SOMAXCONN: "800", BACKLOG: "900"}}
"""Values during the trials of each level."""


def tuned_fields(folder: Path) -> Fields:
    """Write the profiles beside the scenario, and return the fields of one that compares them."""
    files = {"run.yaml": OF_RUN, "long.yaml": {SOMAXCONN: "700"}, "both.yaml": OF_LEVEL["both.yaml"]}
    for name, values in files.items():
        lines = "".join(f"  {key}: {value}\n" for key, value in values.items())
        (folder / name).write_text(f"description: Of a test\nsysctl:\n{lines}")
    return {
        "factors": {"tuning": [*OF_LEVEL]},
        "tuning": [{"profile": "run.yaml"}, {"profile": "$tuning"}],
        "stacks": stacks(one={"listen": 18080}),
        "load": load(tool="h2load", duration_s=1, warmup_s=0.1),
    }


@contextmanager
def opened(experiment: Experiment, lab: Lab, folder: Path) -> Iterator[OpenedRun]:
    """Open a run on the lab, whose hosts must have settings of their own."""
    with connect_all(lab.inventory()) as hosts:
        if not hosts["sut"].facts.root or SOMAXCONN in hosts.inventory.not_isolated:
            pytest.skip("hosts of this user's lab have no settings of their own")
        with open_run(experiment, hosts, Store(folder / "store")) as run:
            yield run


def settings(hosts: Hosts) -> dict[str, str | None]:
    """Read the settings of the server's host."""
    return {key: sysctl.value for key, sysctl in hosts["sut"].call(Sysctls.read, [SOMAXCONN, BACKLOG]).items()}


def switches(run: OpenedRun) -> list[JournalEvent]:
    """Return the switches in the journal of a run."""
    return [event for event in run.folder.history() if event.event == "tuning-switched"]


def test_each_trial_runs_with_the_settings_of_its_level(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, dict[str, str | None]]] = []

    def run_and_read(block: Block) -> object:
        (trial,) = block.trials
        records = run_block(block)
        seen.append((str(trial.cell.spec.levels["tuning"]), settings(trial.hosts)))
        return records

    monkeypatch.setattr(attempt, "run_block", run_and_read)
    with opened(read_scenario(tmp_path, **tuned_fields(tmp_path)), lab, tmp_path) as run:
        before, others = settings(run.hosts), run.hosts["sut"].call(Undo.traces).records
        outcome = execute(run)
        assert (outcome.status, outcome.failures, outcome.not_restored) == ("done", {}, {})
        assert len(seen) == 6
        assert [values for _, values in seen] == [OF_LEVEL[level] for level, _ in seen]
        assert settings(run.hosts) == before
        levels = ["none", *(level for level, _ in seen)]
        assert len(switches(run)) == sum(one != other for one, other in pairwise(levels)) > 0
        assert {cell.cell_id: cell.sysctls for cell in run.folder.manifest().cells} == {
            "tuning=none": {},
            "tuning=long.yaml": {"sut": {SOMAXCONN: "700"}},
            "tuning=both.yaml": {"sut": OF_LEVEL["both.yaml"]},
        }
        left = run.hosts["sut"].call(Undo.traces).records
        assert all(record in others for record in left), "only settings of other tests are left"


def test_cells_with_kernel_settings_of_their_own_are_not_sliced(lab: Lab, tmp_path: Path) -> None:
    fields = tuned_fields(tmp_path) | {"design": "sliced", "blocks": 3}
    with opened(read_scenario(tmp_path, **fields), lab, tmp_path) as run:
        plan = run.plan
    assert plan.design == "blocks"
    assert "The design is blocks, not sliced, because its cells need different kernel settings." in plan.notes


def test_a_level_that_the_host_refuses_is_unsupported_or_stops_the_run(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "absent.yaml").write_text("description: x\nsysctl: {net.ipv4.tcp_tw_recycle: 1}\n")
    fields = tuned_fields(tmp_path) | {"factors": {"tuning": ["none", "absent.yaml"]}}
    with opened(read_scenario(tmp_path, **fields), lab, tmp_path) as run:
        reasons = {cell.cell_id: cell.unsupported for cell in run.plan.cells}
        assert reasons == {
            "tuning=none": None,
            "tuning=absent.yaml": "sut: not applied, this host has no such setting: net.ipv4.tcp_tw_recycle = 1",
        }
    fields["tuning"] = [{"profile": "$tuning", "required": True}]
    with (
        pytest.raises(HostError, match="no such setting") as caught,
        opened(read_scenario(tmp_path, **fields), lab, tmp_path),
    ):
        pass
    assert caught.value.hint == "the scenario requires this tuning"


@pytest.mark.parametrize("required", [False, True])
def test_a_value_that_the_kernel_refuses_fails_the_cell_or_the_run(
    lab: Lab,
    tmp_path: Path,
    required: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    fields = tuned_fields(tmp_path) | {"factors": {"tuning": ["none", "long.yaml"]}}
    fields["tuning"] = [{"profile": "$tuning", "required": required}]
    (tmp_path / "long.yaml").write_text(f"description: x\nsysctl: {{{SOMAXCONN}: -1}}\n")
    with opened(read_scenario(tmp_path, **fields), lab, tmp_path) as run:
        before = settings(run.hosts)
        if required:
            with pytest.raises(BenchkitError, match=f"{SOMAXCONN} = -1 not applied"):
                execute(run)
        else:
            outcome = execute(run)
            assert (outcome.status, outcome.trials, len(outcome.failures)) == ("failed", 2, 2)
            assert all(f"{SOMAXCONN} = -1 not applied" in reason for reason in outcome.failures.values())
        assert settings(run.hosts) == before


@kernel_settings
def test_a_run_that_is_killed_after_a_switch_is_restored_and_resumed(
    new_bench: Callable[[], Bench], tmp_path: Path
) -> None:
    bench = new_bench()
    scenario = write_scenario(tmp_path, **tuned_fields(tmp_path))
    before = bench.snapshot()
    killed = bench.run(str(scenario), crash="switched")
    if "not isolated" in killed.err:
        pytest.skip("hosts of this user's lab have no settings of their own")
    assert killed.code == -signal.SIGKILL, killed.err
    resumed = bench.run("--resume", "latest", "--json")
    assert resumed.code == 0, resumed.err
    assert bench.snapshot()["sut"].split("---")[2] == before["sut"].split("---")[2], "kernel settings"
    started = [event["cell_id"] for event in bench.events() if event["event"] == "trial-ended"]
    assert set(started) == {f"tuning={level}" for level in OF_LEVEL}
