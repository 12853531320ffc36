"""Prices and counters of energy on a lab: through run, report and comparison, and what is said where there is none.

The counters are files in the kernel's documented format (tests.support.agent.sysfs) in the work directory of the
servers' host. The agent reads them in place of /sys. A process there lets them grow as RAPL would at 60 and 6 W, over
the end of their range.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

import benchkit
from benchkit.cli.progress import SilentProgress
from benchkit.comparison.compare import compare
from benchkit.hosts.connections import connect_all
from benchkit.hosts.files import PlacedFile
from benchkit.hosts.inventory import Inventory
from benchkit.hosts.processes import ProcessSpec
from benchkit.lab.lab import Lab
from benchkit.report.pages.report_files import write_report
from benchkit.report.stored_run import read_run
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import execute
from benchkit.scenario.read import read_experiment
from benchkit.stats.samples import geometric_mean
from benchkit.store.store import Store
from tests.support.agent.sysfs import RANGE_UJ
from tests.support.builders import write_scenario
from tests.support.run.opening import open_run
from tests.support.waiting import wait_until

PACKAGE_W, DRAM_W = 60, 6
FOLDER = "class/powercap"
TREE = {
    f"{FOLDER}/intel-rapl:0/name": "package-0",
    f"{FOLDER}/intel-rapl:0/max_energy_range_uj": str(RANGE_UJ),
    f"{FOLDER}/intel-rapl:0:0/name": "dram",
    f"{FOLDER}/intel-rapl:0:0/max_energy_range_uj": str(RANGE_UJ),
}
GROW = f"""
import os, time
folder = "sys/class/powercap/"
flags = os.O_WRONLY | os.O_CREAT
files = {{os.open(folder + "intel-rapl:0/energy_uj", flags): {PACKAGE_W},
         os.open(folder + "intel-rapl:0:0/energy_uj", flags): {DRAM_W}}}
began = time.monotonic()
while True:
    for file, watts in files.items():
        joules = watts * (time.monotonic() - began)
        os.pwrite(file, b"%018d\\n" % (int({RANGE_UJ} - 200e6 + joules * 1e6) % {RANGE_UJ}), 0)
    time.sleep(0.01)
"""
"""Program that lets the counters grow; the package's is 200 J before the end of its range at first."""


def run_priced(inventory: Inventory, folder: Path, price: float | None, *settings: str) -> tuple[Store, RunOutcome]:
    """Run a Go server at a held rate on a host of this price, in the store of the folder."""
    hosts = [
        host.model_copy(update={"price_per_hour": price, "currency": "EUR"}) if host.name == "sut" else host
        for host in inventory.hosts
    ]
    load = {"tool": "openloop", "rate": 200, "connections": 8, "duration_s": 2, "warmup_s": 0}
    limits = {
        "generator_cpu": 1,
        "rate_held": 0.5,
    }  # the question is what is made of the figures, on a busy machine too
    scenario = write_scenario(folder, load=load, blocks=3, thresholds=limits)
    store = Store(folder / "store")
    with (
        connect_all(inventory.model_copy(update={"hosts": tuple(hosts)})) as connected,
        open_run(read_experiment(str(scenario), "lab", settings), connected, store) as opened,
    ):
        outcome = execute(opened, SilentProgress())
    assert outcome.status == "done"
    return store, outcome


@pytest.fixture
def counting_lab(lab: Lab) -> Iterator[Lab]:
    """The lab with growing counters of energy on its host `sut`."""
    with connect_all(lab.inventory()) as hosts:
        sut = hosts["sut"]
        sut.files.place(PlacedFile(f"sys/{name}", f"{text}\n".encode()) for name, text in TREE.items())
        growing = sut.processes.start(ProcessSpec(("python3", "-I", "-S", "-c", GROW)))
        wait_until(lambda: "energy_uj" in sut.files.list(f"sys/{FOLDER}/intel-rapl:0:0"))
        yield lab
        sut.processes.stop([growing])
        sut.files.remove("sys")


def test_energy_and_money_of_a_held_rate(counting_lab: Lab, tmp_path: Path) -> None:
    store, outcome = run_priced(counting_lab.inventory(), tmp_path, 0.36)
    trials = benchkit.load("trials", store=store.path, run_id=outcome.run.run_id)
    assert set(trials["energy_covers"]) == {"package + DRAM, with the load tool"}, "the lab is one machine"
    energy = trials["energy_j_per_request"] * trials["requests"]
    # Medians, as a machine that stands still at an end of a window adds or lacks a part of it.
    assert energy.median() == pytest.approx((PACKAGE_W + DRAM_W) * 2, rel=0.2)
    idle = [record.watched[0].idle_power_w["package-0"] for record in outcome.run.records()]
    assert median(idle) == pytest.approx(PACKAGE_W, rel=0.2)
    # It grows by the same power with and without load.
    assert trials["active_energy_j_per_request"].abs().median() < trials["energy_j_per_request"].median() / 4
    found = compare(outcome.run.run_id, store=store.path)
    (cost,), (joules,) = found.costs, found.energies
    rate = geometric_mean(trials["rps"])  # 200 requests per second, less what a busy machine delays the last ones
    assert cost.cost == pytest.approx(0.36 / (rate * 3600) * 1e6)
    assert (cost.currency, cost.trials, joules.trials) == ("EUR", 3, 3)
    assert joules.low is not None
    assert joules.low < joules.joules == pytest.approx(geometric_mean(trials["energy_j_per_request"]))
    report = write_report(read_run(store, outcome.run), tmp_path / "report").read_text()
    assert cost.clause in report
    assert joules.clause in report


def test_a_host_without_price_and_counters_is_named(lab: Lab, tmp_path: Path) -> None:
    store, outcome = run_priced(lab.inventory(), tmp_path, None, "blocks=1")
    run_id = outcome.run.run_id
    found = compare(run_id, store=store.path, metrics=["cost_per_million", "energy_j_per_request"])
    assert (found.costs, found.energies) == ((), ())
    notes = "\n".join(found.notes)
    assert f"{run_id}: no cost on sut: give price_per_hour" in notes
    assert f"{run_id}: no energy is known of sut, and none is estimated: energy: no zone of intel-rapl in" in notes
