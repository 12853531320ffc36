"""Generators as data: hosts, commands, CPUs, programs to build, and warm-up."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest

from benchkit.errors import UnsupportedError
from benchkit.loadtools.generators.generator import REDUCER, plan_generators
from benchkit.loadtools.tool import Target
from benchkit.loadtools.tools.vegeta import PROGRAM
from benchkit.models.load import Load
from benchkit.services.go_build import GoSource
from benchkit.services.http_probe import probe_program
from tests.support.loadtools.fixtures import place

TARGET = Target("10.0.0.2:8080")


def _load(tool: str, **fields: Any) -> Load:  # noqa: ANN401 - any field of a load
    return Load.model_validate({"tool": tool, "connections": 8, "duration_s": 5, **fields})


def test_every_host_runs_the_same_number_of_processes() -> None:
    planned = plan_generators(_load("wrk", processes=2, connections=9), TARGET, [place("a"), place("b")])
    assert [(each.number, each.of, each.host, each.load.connections) for each in planned] == [
        (1, 4, "a", 3),
        (2, 4, "a", 2),
        (3, 4, "b", 2),
        (4, 4, "b", 2),
    ]
    assert planned[0].argv == (
        "wrk",
        "-v",
        "-t1",
        "-c3",
        "-d5s",
        "--latency",
        "-s",
        "benchkit.lua",
        f"{TARGET.origin}/",
    )
    assert {(each.cpus, each.nofile) for each in planned} == {((2, 3), 4096)}
    assert [each.name for each in planned] == ["wrk.a.1", "wrk.a.2", "wrk.b.3", "wrk.b.4"]
    assert str(planned[2]) == "wrk, generator 3 of 4,"
    assert str(plan_generators(_load("wrk"), TARGET, [place("a")])[0]) == "wrk"


@pytest.mark.parametrize(("processes", "cpus"), [(1, [(2, 3, 5)]), (2, [(2, 3), (5,)]), (3, [(2,), (3,), (5,)])])
def test_pinned_processes_have_cpus_of_their_own(processes: int, cpus: list[tuple[int, ...]]) -> None:
    planned = plan_generators(_load("wrk", processes=processes, pin=True), TARGET, [place("a", cpus=(2, 3, 5))])
    assert [each.cpus for each in planned] == cpus


def test_more_pinned_processes_than_cpus_are_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="pin: a has 2 CPUs for 3 processes"):
        plan_generators(_load("wrk", processes=3, pin=True), TARGET, [place("a")])


def test_wrk_needs_the_probe_alone_and_on_its_first_host() -> None:
    (generator, other) = plan_generators(_load("wrk"), TARGET, [place("a"), place("b")])
    assert (generator.reducer, generator.programs) == (None, (probe_program(place("a")),))
    assert other.programs == ()
    assert list(generator.files) == ["benchkit.lua"]


def test_rows_go_to_a_reducer_built_for_the_host() -> None:
    (generator,) = plan_generators(_load("ab"), TARGET, [place("a", goarch="arm64")])
    assert generator.reducer == ("/w/tools/reduce", "-tool", "ab")
    (_, program) = generator.programs
    assert (program.path, program.mode) == (PurePosixPath("/w/tools/reduce"), 0o755)
    assert program.content == GoSource(REDUCER, "linux", "arm64")


def test_without_a_histogram_there_is_no_reducer() -> None:
    (generator,) = plan_generators(_load("hey", histogram=False), TARGET, [place("a")])
    assert (generator.reducer, generator.programs) == (None, (probe_program(place("a")),))
    assert "-o" not in generator.argv


def test_vegeta_is_always_the_one_that_benchkit_builds() -> None:
    (generator,) = plan_generators(_load("vegeta"), TARGET, [place("a")])
    assert generator.argv[0] == "/w/tools/vegeta"
    sources = {program.path.name: program.content for program in generator.programs}
    assert sources["vegeta"] == GoSource(PROGRAM.module, "linux", "amd64", package="github.com/tsenart/vegeta/v12")
    assert sources["reduce"] == GoSource(REDUCER, "linux", "amd64")


@pytest.mark.parametrize(
    ("rate", "interval"), [(100, "10000000ns"), (30_000, "33333ns"), (2.5, "400000000ns"), (1234.5, "810044ns")]
)
def test_the_reducer_knows_when_vegetas_requests_are_due(rate: float, interval: str) -> None:
    """Two processes send half of the rate each."""
    planned = plan_generators(_load("vegeta", rate=2 * rate, processes=2), TARGET, [place("a")])
    assert [each.reducer for each in planned] == [("/w/tools/reduce", "-tool", "vegeta", "-interval", interval)] * 2
    (full_speed,) = plan_generators(_load("vegeta"), TARGET, [place("a")])
    (hey,) = plan_generators(_load("hey", rate=100), TARGET, [place("a")])
    assert full_speed.reducer == ("/w/tools/reduce", "-tool", "vegeta")
    assert hey.reducer == ("/w/tools/reduce", "-tool", "hey")


def test_vegetas_module_pins_the_registered_version() -> None:
    manifest = (PROGRAM.module / "go.mod").read_text()
    assert f"{PROGRAM.package} v{PROGRAM.version} // indirect\n" in manifest
    assert f"tool {PROGRAM.package}\n" in manifest
    assert (PROGRAM.module / "go.sum").is_file()


def test_a_warm_up_records_nothing_and_runs_the_built_program() -> None:
    (generator,) = plan_generators(_load("vegeta", duration_s=5, warmup_s=2), TARGET, [place("a")])
    warming = generator.as_warm_up()
    assert warming.argv[0] == "/w/tools/vegeta"
    assert "-output=/dev/null" in warming.argv
    assert "-duration=2.000000000s" in warming.argv
    assert warming.reducer is None
    (siege,) = plan_generators(_load("siege", warmup_s=1), TARGET, [place("a")])
    assert b"verbose = true\n" in siege.files["siege.conf"]
    assert b"verbose = false\n" in siege.as_warm_up().files["siege.conf"]


def test_a_shape_is_warmed_up_at_its_base() -> None:
    shape = {"base": 0.5, "start_s": 1, "length_s": 2}
    load = _load("openloop", rate=1000, processes=2, warmup_s=1, shape=shape)
    first, second = plan_generators(load, TARGET, [place("a")])
    argv = (
        *("/w/tools/openloop", f"-address={TARGET.authority}", "-requests=openloop.requests", "-connections=4"),
        "-stages=250x4000000ns,1000x2000000ns,500x4000000ns",
    )
    assert first.argv == second.argv == argv
    assert first.reducer == ("/w/tools/reduce", "-tool", "openloop"), "its rows say when requests were due"
    assert [file.path.name for file in first.programs] == ["openloop", "reduce"]
    warm_up = first.as_warm_up()
    assert warm_up.argv == (*argv[:-1], "-stages=250x4000000ns", "-rows=false")
