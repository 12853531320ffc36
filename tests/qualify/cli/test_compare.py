"""`compare` on stored runs: output and exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from benchkit.cli.compare import compare
from benchkit.errors import InputError
from benchkit.models.facts import RecordedFacts
from benchkit.models.rows import LatencyRow, TrialRow, VerdictRow
from benchkit.models.run import HostRecord
from benchkit.store.row_builders import factor_rows, host_rows
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.support import builders

STARTED = datetime(2026, 3, 1, 10, tzinfo=UTC)
STACKS = ("go", "nginx", "../x/y")

CLAIMS = [
    {
        "text": "nginx costs\na third",
        "ratio": {"of": {"stack": "nginx"}, "to": {"stack": "go"}},
        "about": 0.67,
        "within": 0.1,
        "published": 0.67,
    },
    {"text": "Node wins", "ratio": {"of": {"stack": "node"}, "to": {"stack": "go"}}, "at_least": 1},
]

app = typer.Typer()
app.command("compare")(compare)
app.command("other")(compare)  # with one command alone, Typer takes no name


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Store with three runs: eight blocks, the same on another kernel with a slower nginx, and three blocks."""
    where = Store(tmp_path / "store")
    save(where, "r1", 8, (100, 80, 79), kernel="6.1")
    save(where, "r2", 8, (100, 60, 79), kernel="6.6")
    save(where, "r3", 3, (100, 80, 79), kernel="6.1")
    return where.path


def save(store: Store, run_id: str, blocks: int, rates: Sequence[float], *, kernel: str) -> None:
    cells = builders.cells(*({"stack": stack} for stack in STACKS))
    facts = RecordedFacts(kernel=kernel, cpus=(0, 1))
    manifest = builders.manifest(
        run_id=run_id,
        scenario={"name": "small", "title": "Small", "baseline": {"stack": "go"}, "claims": CLAIMS},
        blocks=blocks,
        cells=cells,
        hosts=(HostRecord(name="sut", roles=("sut",), facts=facts),),
        started_at=STARTED + timedelta(days=int(run_id[1:])),
        status="done",
    )
    store.create(manifest)
    noise = np.exp(0.01 * np.random.default_rng(int(run_id[1:])).standard_normal((len(cells), blocks)))
    rows = [
        TrialRow(
            cell_id=cell.cell_id,
            trial_id=f"{run_id}.b{block}.p{position}",
            block=block,
            position=position,
            kind="measure",
            started_at=STARTED,
            requests=1_000,
            rps=float(rate * noise[position - 1, block - 1]),
            latency_p99_s=0.01,
        )
        for block in range(1, blocks + 1)
        for position, (cell, rate) in enumerate(zip(cells, rates, strict=True), start=1)
    ]
    latency = [LatencyRow(trial_id=row.trial_id, series="raw", low_s=0.001, high_s=0.001, count=10) for row in rows]
    tables = RunTables(store, "small", run_id)
    tables.replace("trials", rows)
    tables.replace("latency", latency)
    tables.replace("factors", factor_rows(cells))
    tables.replace("hosts", host_rows("sut", ["sut"], "start", facts))


def run(store: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*arguments, "--store", str(store)], env={"COLUMNS": "80"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout


def test_tables_fit_80_columns(store: Path) -> None:
    code, out = run(store, "compare", "r1")
    assert code == 0
    answer, _, table = out.partition("\n\n")
    assert answer.startswith("nginx handled 0.80× the requests of go (95 % CI 0.79 to 0.81).\n")
    lines = table.splitlines()
    assert lines[0] == "small at lab scale, r1"
    assert lines[2].startswith("RPS relative to stack=go (")
    assert lines[3].split() == ["cell", "value", "ratio", "95", "%", "interval", "p", "difference"]
    assert lines[5].startswith("stack=nginx")
    assert lines[5].split()[-2:] == ["lower", "(worse)"]
    assert lines[7].startswith("With 8 blocks and 2 comparisons, 80% of runs show a difference of")
    assert max(map(len, lines[:7])) <= 80


def test_json_output_is_one_document(store: Path) -> None:
    code, out = run(store, "compare", "r1", "--json", "--metric", "rps", "--metric", "p99")
    assert code == 0
    document = json.loads(out)
    assert document["metrics"] == ["rps", "latency_p99_s"]
    assert [(r["cell_id"], r["metric"], r["outcome"], r["worth"]) for r in document["ratios"]] == [
        ("stack=nginx", "rps", "lower", "worse"),
        ("stack=../x/y", "rps", "lower", "worse"),
        ("stack=nginx", "latency_p99_s", "not shown", None),
        ("stack=../x/y", "latency_p99_s", "not shown", None),
    ]
    assert document["ratios"][0]["low"] < document["ratios"][0]["ratio"] < document["ratios"][0]["high"]
    assert document["gate"] is None


def test_a_changed_host_is_reported_before_any_ratio(store: Path) -> None:
    code, out = run(store, "compare", "r1", "r2")
    assert code == 0
    answer, _, table = out.partition("\n\n")
    assert "It can be believed with care: between the runs host sut: kernel was 6.1, is 6.6;" in answer
    lines = table.splitlines()
    assert lines[0] == "small at lab scale, r2 over r1"
    assert lines[1] == "! The hosts have drifted: host sut: kernel was 6.1, is 6.6."
    assert table.index("drifted") < table.index("ratio")
    assert json.loads(run(store, "compare", "r1", "r2", "--json")[1])["drift"] == [
        {"where": "host sut", "what": "kernel", "before": "6.1", "after": "6.6"}
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "verdict"),
    [
        (("r1", "--threshold", "rps=30%"), 0, "passed"),
        (("r1", "--gate"), 3, "regressed"),
        (("r1", "--threshold", "rps=21%"), 4, "inconclusive"),
        (("r1", "r2", "--baseline", "stack=go", "--gate"), 3, "regressed"),
    ],
)
@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_gate_has_the_exit_codes_of_the_contract(
    arguments: tuple[str, ...], code: int, verdict: str, form: str, store: Path
) -> None:
    ended, out = run(store, "compare", *arguments, "--format", form)
    assert ended == code
    if form == "text":
        assert f"Gate: {verdict}\n" in out
    else:
        assert out.startswith(f"### benchkit: {verdict}\n")


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (("r1", "--metric", "rsp"), "no metric 'rsp'"),
        (("r1", "--metric", "bytes_total", "--gate"), "metric 'bytes_total' cannot have a gate"),
        (("r1", "--threshold", "rps"), "--threshold rps: not of the form metric=share"),
        (("r1", "--baseline", "stack=goo"), "no level 'goo' of stack: did you mean 'go'"),
        (("r1", "r1"), "cannot be compared with itself"),
        (("r9",), "no run 'r9'"),
    ],
)
def test_bad_input_is_one_message(arguments: tuple[str, ...], result: str, store: Path) -> None:
    with pytest.raises(InputError) as caught:
        run(store, "compare", *arguments)
    assert result in str(caught.value)
    assert caught.value.exit_code == 2


def test_claims_stand_under_the_ratios_of_their_run(store: Path) -> None:
    shown = CliRunner().invoke(app, ["compare", "r1", "--store", str(store)]).stdout.splitlines()
    place = shown.index("Claims:")
    assert shown[place + 1] == "- nginx costs a third"
    assert re.fullmatch(
        r"  refuted: 0\.[78]\d+ \[0\.7\d+, 0\.8\d+\] \(n=8\): outside about 0\.67 \(within 10%\), published 0\.67",
        shown[place + 2],
    )
    assert shown[place + 4].startswith("  not testable here: no level 'node' of stack")
    document = json.loads(CliRunner().invoke(app, ["compare", "r1", "--store", str(store), "--json"]).stdout)
    assert [claim["state"] for claim in document["claims"]] == ["refuted", "not testable here"]
    between = CliRunner().invoke(app, ["compare", "r1", "r2", "--store", str(store), "--json"]).stdout
    assert json.loads(between)["claims"] == []


def test_invalid_trials_are_in_no_ratio(store: Path) -> None:
    reasons = [
        VerdictRow(
            trial_id=f"r1.b{block}.p2",
            check="generator-saturated",
            severity="invalid",
            metrics=("rps", "latency_p50_s"),
            seen="0.99",
            threshold="0.9",
            text="the generator was the limit",
            scope="trial",
        )
        for block in (1, 2)
    ]
    RunTables(Store(store), "small", "r1").replace("verdicts", reasons)
    code, out = run(store, "compare", "r1", "--json")
    assert code == 0
    nginx = next(ratio for ratio in json.loads(out)["ratios"] if ratio["cell_id"] == "stack=nginx")
    assert nginx["blocks"] == 6
    assert {left["reason"] for left in nginx["exclusions"]} == {"invalid: generator-saturated"}
