"""`benchkit results import`: runs made of outputs that were measured elsewhere, from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import benchkit
from tests.support.cli.fixtures import CommandResult
from tests.support.paths import TESTS

Cli = Callable[..., CommandResult]
OUTPUTS = TESTS / "fixtures" / "load"
AB, WRK, WRK2 = (
    OUTPUTS / name for name in ("ab/v23-keepalive.txt", "wrk/v410-latency-version.txt", "wrk2/spectrum.txt")
)
RPS, MEAN = "17479.31 [#/sec]", "Time per request:       0.229 [ms] (mean)"


@pytest.fixture
def outputs(tmp_path: Path) -> Callable[..., list[Path]]:
    """Write outputs of ab at these rates, whose mean times agree with them unless it is said otherwise."""

    def write(server: str, *rates: float, mean_ms: float | None = None) -> list[Path]:
        text = AB.read_text()
        assert RPS in text
        assert MEAN in text
        files = []
        for i, rate in enumerate(rates, start=1):
            shown = 4 / rate * 1000 if mean_ms is None else mean_ms
            changed = text.replace(RPS, f"{rate} [#/sec]").replace(MEAN, MEAN.replace("0.229", f"{shown:.3f}"))
            # The Total row has the mean; its digits are whole milliseconds, as ab prints them.
            files.append(tmp_path / f"{server}{i}.txt")
            files[-1].write_text(changed.replace("Total:          0    0", f"Total:          0    {round(shown)}"))
        return files

    return write


def test_outputs_become_a_run_that_is_marked_judged_and_compared(
    cli: Cli, outputs: Callable[..., list[Path]], environment: dict[str, str]
) -> None:
    slow, fast = outputs("slow", 400.0, 404.0, 396.0, 402.0), outputs("fast", 500.0, 504.0, 496.0, 502.0)
    named = ("--scenario", "elsewhere", "--at", "2026-01-31T12:00", "--tag", "version=1.4")
    cells = ("server=slow", *slow, "server=fast", *fast)
    imported = cli("results", "import", "ab", *cells, *named, "--json").document()
    run_id = imported["run_id"]
    assert imported["verdicts"] == {"server=slow": {"valid": 4}, "server=fast": {"valid": 4}}

    (listed,) = cli("results", "list", "--json").document()
    assert (listed["is_imported"], listed["scale"], listed["seed"], listed["blocks"]) == (True, "imported", None, 4)
    trials = cli("results", "trials", run_id, "--json").document()
    skipped = {each["check"] for each in trials[0]["unchecked"]}
    assert {"generator-saturated", "noisy-host", "unequal-responses"} <= skipped
    assert "littles-law" not in skipped
    assert {each["overhead_s"] for each in trials} == {None}

    compared = cli("compare", run_id)
    assert f"! {run_id} is imported: it was measured elsewhere" in compared.out
    assert "The design of" in compared.out
    (ratio,) = cli("compare", run_id, "--metric", "rps", "--json").document()["ratios"]
    assert ratio["ratio"] == pytest.approx(1.25, rel=0.01)
    history = cli("history", "elsewhere")
    assert "! 1 run imported: measured elsewhere" in history.out
    assert any(line.startswith("- ") and run_id in line and "imported" in line for line in history.out.splitlines())
    page = Path(cli("report", run_id).out.strip()).read_text()
    assert "not known: measured elsewhere, and imported" in page
    assert "server=fast is imported: measured elsewhere with ab 2.3 (" in page
    assert "How to reproduce it" not in page

    def stored() -> pd.DataFrame:
        rows = benchkit.load("trials", store=environment["BENCHKIT_STORE"])
        return rows.sort_values("trial_id").reset_index(drop=True)

    before = stored()
    assert cli("results", "reparse", run_id, "--json").document() == {"run_id": run_id, "trials": 8}
    assert stored().equals(before)
    assert "intact" in cli("results", "check", run_id).out


def test_verdicts_rest_on_the_outputs(cli: Cli, outputs: Callable[..., list[Path]]) -> None:
    named = ("--scenario", "elsewhere", "--json")
    contradicting = outputs("odd", 400.0, mean_ms=30.0)
    found = cli("results", "import", "ab", *contradicting, *named).document()
    assert found["verdicts"] == {"only": {"invalid": 1}}
    (trial,) = cli("results", "trials", found["run_id"], "--json").document()
    assert [each["check"] for each in trial["reasons"]] == ["littles-law"]
    other = cli("results", "import", "wrk", WRK, *named, "--load", "connections=8").document()
    (trial,) = cli("results", "trials", other["run_id"], "--json").document()
    assert "tool-limit" in {each["check"] for each in trial["reasons"]}
    late = cli("results", "import", "wrk", WRK2, *named, "--load", "rate=1e6").document()
    (trial,) = cli("results", "trials", late["run_id"], "--json").document()
    assert "rate-held" in {each["check"] for each in trial["reasons"]}


def test_runs_measured_elsewhere_are_compared_by_ratios_alone(cli: Cli, outputs: Callable[..., list[Path]]) -> None:
    runs = []
    for version, rates in (("a", (500.0, 504.0, 496.0)), ("b", (450.0, 454.0, 446.0))):
        named = ("--scenario", "elsewhere", "--interleaved", "--json")
        base = outputs(f"base-{version}", 400.0, 404.0, 396.0)
        cells = ("server=base", *base, "server=new", *outputs(f"new-{version}", *rates))
        runs.append(cli("results", "import", "ab", *cells, *named).document()["run_id"])
    shown = cli("compare", *runs)
    assert "their rates cannot be compared, and only ratios to server=base within each run are" in shown.out
    (ratio,) = cli("compare", *runs, "--metric", "rps", "--json").document()["ratios"]
    assert ratio["ratio"] == pytest.approx(0.9, rel=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("boom", AB), "no load tool is called 'boom'"),
        (("wrk", AB), "it is output of ab: benchkit results import ab"),
        (("ab", AB, WRK), "it is output of wrk: benchkit results import wrk"),
        (("wrk", WRK, OUTPUTS / "wrk/v410-plain.txt"), "the files are not repetitions of one measurement"),
        (("wrk", WRK, WRK2), "the tool is wrk in"),
        (("wrk", OUTPUTS / "wrk/v410-refused.txt"), "this is not an output of wrk"),
        (("ab", OUTPUTS / "ab/v23-interrupted.txt"), "the output is not whole"),
        (("vegeta", OUTPUTS / "vegeta/v12-text.txt"), "state it: --load connections=64"),
        (("wrk", WRK2), "state it: --load rate=1000"),
        (("ab", AB, "--load", "rate=9"), "ab cannot hold a rate: these tools can: hey, vegeta"),
        (("ab", AB, "--load", "colour=1"), "no such field"),
        (("ab", "Server=a", AB), "the name of a factor or its level is not allowed"),
        (("ab", "server=", AB), "not of the form name=value"),
        (("ab", "server=a", AB, "server=b"), "a cell has no file"),
        (("ab", "server=a", AB, "server=a", AB), "a cell is given twice"),
        (("ab", "server=a", AB, "stack=a", AB), "the cells have different factors"),
        (("ab", AB, AB), "a file is given twice"),
        (("ab", AB, "--at", "noon"), "not a date"),
        (("ab", "missing.txt"), "cannot read the file"),
    ],
)
def test_what_cannot_be_imported_is_an_error_and_stores_nothing(
    cli: Cli, environment: dict[str, str], arguments: tuple[str | Path, ...], message: str
) -> None:
    done = cli("results", "import", *arguments, "--scenario", "elsewhere")
    assert done.code == 2
    assert message in done.err
    assert not Path(environment["BENCHKIT_STORE"]).exists()
