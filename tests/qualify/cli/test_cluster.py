"""`benchkit cluster`: Dask on the hosts of a lab, kept and ended by their watchdogs; and `results reparse --all`."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.plugins.dask.cluster import DASHBOARD_PORT, FOLDER, HOLDER, SCHEDULER_PORT
from benchkit.store.run_jobs import Workers, run_jobs
from tests.support.cli.fixtures import Cli
from tests.support.needs import separate_hosts, shared_environment
from tests.support.waiting import wait_until

pytestmark = [separate_hosts, shared_environment]

PROCESSES = re.compile(r"-m dask |multiprocessing\.(spawn|resource_tracker)")
"""Scheduler and nannies, and their worker processes."""


@pytest.fixture
def hosts_after(cli: Cli, inventory: Callable[..., Path]) -> Iterator[Path]:
    """The inventory; whatever a test leaves is taken down."""
    path = inventory()
    yield path
    cli("cluster", "down", "-i", path)


def traces(lab: Lab) -> dict[str, list[str]]:
    """Return what a cluster leaves on each host: processes, ports, folders, records and the holder."""
    found = {}
    with connect_all(lab.inventory()) as hosts:
        for host in hosts:
            processes = host.processes.run(["ps", "-eo", "args="]).stdout.decode().splitlines()
            state = host.changes.state()
            found[host.name] = [
                *(line for line in processes if PROCESSES.search(line)),
                *(
                    str(owner)
                    for each in host.sockets.owners([SCHEDULER_PORT, DASHBOARD_PORT]).values()
                    for owner in each
                ),
                *(record.text for record in state.records if str(FOLDER) in record.text or "-m dask" in record.text),
                *([state.holder.run or ""] if state.holder is not None else []),
                *(["folder"] if host.processes.run(["ls", str(host.workdir / FOLDER)]).ok else []),
            ]
    return found


def open_to_all(lab: Lab) -> dict[str, list[str]]:
    """Return the ports of each host that are open on all of its addresses."""
    with connect_all(lab.inventory()) as hosts:
        listed = {host.name: host.processes.run(["ss", "-Hlnt"]).stdout.decode().splitlines() for host in hosts}
    local = {name: [line.split()[3] for line in lines] for name, lines in listed.items()}
    return {
        name: sorted(each for each in all_ if each.startswith(("0.0.0.0:", "*:", "[::]:")))
        for name, all_ in local.items()
    }


def test_a_cluster_works_until_down_and_leaves_nothing(cli: Cli, hosts_after: Path, lab: Lab) -> None:
    open_before = open_to_all(lab)
    started = cli("cluster", "up", "-i", hosts_after, "--json")
    assert started.code == 0, started.err
    assert open_to_all(lab) == open_before, "Dask binds to the host's own address"
    cluster = started.document()
    assert cluster["workers"].keys() == {"sut", "load"}
    held = traces(lab)
    assert all(HOLDER in each and any(PROCESSES.search(line) for line in each) for each in held.values())
    shown = cli("cluster", "status", "-i", hosts_after, "--json")
    assert (shown.code, shown.document()) == (
        0,
        {"cluster": cluster["cluster"], "up": True, "hosts": ["sut", "load"]},
    )
    said: list[str] = []
    names = run_jobs(
        lambda _: socket.gethostname(),
        range(50),
        Workers(cluster=cluster["cluster"]),
        notify=said.append,
        advance=lambda: None,
    )
    assert set(names) == {"sut", "load"}
    assert said == [f"{sum(cluster['workers'].values())} workers; dashboard: {cluster['dashboard']}"]

    second = cli("cluster", "up", "-i", hosts_after)
    assert (second.code, "already up" in second.err) == (1, True)
    refused = cli("run", "quickstart", "-i", hosts_after, "--scale", "smoke")
    assert (refused.code, "in use: cluster of " in refused.err) == (1, True)
    unseen = cli("results", "reparse", "--all", "--cluster", cluster["cluster"])
    assert (unseen.code, "there is no store here" in unseen.err) == (2, True)

    assert cli("cluster", "down", "-i", hosts_after, "--json").document() == {"up": False, "hosts": ["sut", "load"]}
    assert traces(lab) == {"sut": [], "load": []}
    assert cli("cluster", "status", "-i", hosts_after).code == 1
    assert cli("cluster", "down", "-i", hosts_after).code == 0


def test_a_cluster_ends_by_itself_with_its_lease(cli: Cli, hosts_after: Path, lab: Lab) -> None:
    started = cli("cluster", "up", "-i", hosts_after, "--hours", str(5 / 3600), "--json")
    assert started.code == 0, started.err
    wait_until(lambda: traces(lab) == {"sut": [], "load": []})
    with connect_all(lab.inventory()) as hosts:
        reports = [str(report) for host in hosts for report in host.changes.state().reports if report.run == HOLDER]
        for host in hosts:
            for report in host.changes.state().reports:
                host.changes.delete_report(report)
    assert len(reports) == 2
    assert all("no heartbeat from the controller for 5 s" in report for report in reports)


def test_a_host_without_the_packages_gets_the_commands_that_install_them(
    cli: Cli, inventory: Callable[..., Path], lab: Lab
) -> None:
    path = inventory(load={"programs": {"benchkit-python": "/usr/bin/env"}})
    refused = cli("cluster", "up", "-i", path)
    assert refused.code == 2
    assert "load: /usr/bin/env cannot work for this benchkit" in refused.err
    assert "-m venv ~/benchkit-python && ~/benchkit-python/bin/pip install 'benchkit[dask]==" in refused.err
    assert traces(lab) == {"sut": [], "load": []}
