"""Hostile text in scenarios, inventories and facts: hundreds of cases here, thousands in `make chaos`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchkit.errors import BenchkitError
from benchkit.hosts.connections import connect_all
from benchkit.hosts.facts import facts_request, parse_facts
from benchkit.hosts.host import Host
from benchkit.hosts.inventory import load_inventory
from benchkit.lab.lab import Lab
from benchkit.plan.planner import make_plan
from benchkit.scenario.read import read_experiment
from tests.qualify.chaos.hostile import inventory, sample_cases, scenarios, texts, to_yaml

LONG = bool(os.environ.get("BENCHKIT_CHAOS"))
"""Thousands of cases, instead of hundreds."""


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that exists at the end if any of the texts was executed; its folder must stay empty, too."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = tmp_path / "canary"
    yield path
    assert not path.exists()
    assert list(folder.iterdir()) == []
    assert {each.name for each in tmp_path.iterdir()} <= {"here", "document.yaml"}


def is_accepted(attempt: Callable[[], object]) -> bool:
    """Return whether a call succeeds; it may raise an error of benchkit's own that a terminal can show."""
    try:
        attempt()
    except BenchkitError as error:
        shown = str(error)
        if not all(each.isprintable() or each in "\n\t" for each in shown):
            pytest.fail(f"what no terminal should be shown: {shown!r}")
        return False
    return True


def print_counts(what: str, taken: list[bool], canary: Path) -> None:
    """Print the counts of a document's cases; a case that ended in another way has failed the test already."""
    files = len(list((canary.parent / "here").iterdir()))
    how = f"{sum(taken)} taken for what they say, {len(taken) - sum(taken)} refused; {int(canary.exists())} executed"
    sys.stdout.write(f"{len(taken)} hostile {what}: {how}, {files} files outside, 0 tracebacks\n")


def test_scenarios(canary: Path, tmp_path: Path) -> None:
    path = tmp_path / "document.yaml"
    taken = []
    for document in scenarios().values():
        for case in sample_cases(document, texts(canary), 800 if LONG else 10, seed=1):
            path.write_text(to_yaml(case))
            taken.append(is_accepted(lambda: read_experiment(str(path))))
    print_counts("scenarios", taken, canary)
    assert 0 < sum(taken) < len(taken)


def test_inventories(canary: Path, tmp_path: Path) -> None:
    path = tmp_path / "document.yaml"
    taken = []
    for case in sample_cases(inventory(), texts(canary), 3000 if LONG else 200, seed=2):
        path.write_text(to_yaml(case))
        taken.append(is_accepted(lambda: load_inventory(path)))
    print_counts("inventories", taken, canary)
    assert 0 < sum(taken) < len(taken)


def test_facts_of_hosts(canary: Path, lab: Lab) -> None:
    """Plan a run on hostile facts: there is a plan or an error, and no change on the host."""
    experiment = read_experiment("quickstart")
    taken = []
    with connect_all(lab.inventory()) as hosts:
        sut = hosts["sut"]
        honest, before = sut.facts, list_files(sut)
        answer = sut.link.request(facts_request(sudo=False)).facts
        for case in sample_cases(answer, texts(canary), 2000 if LONG else 40, seed=3):
            try:
                sut.facts = parse_facts(case, sut.clock)
            except (AttributeError, KeyError, TypeError, ValueError):  # which Host turns into an error
                taken.append(False)
                continue
            taken.append(is_accepted(lambda: make_plan(experiment, hosts)))
        sut.facts = honest
        assert list_files(sut) == before
        for host in hosts:
            assert not host.processes.run(["ls", str(canary)]).ok
    print_counts("hosts", taken, canary)
    assert 0 < sum(taken) < len(taken)


def list_files(host: Host) -> bytes:
    """Return the files of a host outside of benchkit's folder."""
    value_paths = ["/run", "/tmp", "/var/tmp", "/dev/shm"]  # noqa: S108
    return host.processes.run(["find", *value_paths, "-not", "-path", "/run/benchkit/*"]).stdout
