from __future__ import annotations

import csv
import io
import json
import math
import re
import xml.etree.ElementTree as ET
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped] # the library has no types
from hypothesis import example, given
from hypothesis import strategies as st

from benchkit.comparison.claims import ClaimResult
from benchkit.comparison.compare import RunComparison, compare_cells
from benchkit.comparison.gate import GateLimits, GateLine, GateResult, judge_ratios
from benchkit.comparison.runs.run_data import ComparedRun, RunData, read_run_data
from benchkit.comparison.texts import junit, markdown, markdown_code, markdown_text
from benchkit.errors import InputError
from benchkit.models.base import Levels
from benchkit.models.run import CodeState
from benchkit.plugins.export.formats import (
    bencher_json,
    benchstat,
    conbench_json,
    hgrm,
    merged_by_cell,
    openmetrics,
    otava_csv,
)
from benchkit.run_history.series import history
from benchkit.stats.samples import Exclusion
from benchkit.store.store import Store
from tests.support import json_schema
from tests.support.comparison.fixtures import STARTED, StoreRun, manifest_of, trials_of

NOISE = np.array([0.98, 1.02, 1.0, 0.99, 1.01, 1.0])
HOSTILE = "a|b`c<script>&\x00\x1b[31m\ufffe@root\n# x"


@pytest.fixture
def compared() -> RunComparison:
    """Three cells at a gate: one passes, one has regressed, one is inconclusive."""
    cells = [{"stack": stack} for stack in ("go", "nginx", "slow", "wild")]
    rates = {"stack=go": np.full(6, 100.0), "stack=nginx": 100 * NOISE, "stack=slow": 50 * NOISE}
    rates["stack=wild"] = 100 * NOISE**20
    found = compare_cells(RunData(manifest_of(cells), trials_of(rates)), ["rps"])
    return found.model_copy(update={"gate": judge_ratios(found.ratios, GateLimits(metrics={"rps": 0.1}))})


def test_markdown_is_a_heading_notices_and_one_table(compared: RunComparison) -> None:
    shown = markdown(compared.model_copy(update={"notes": ("The hosts have drifted: kernel.",)}))
    lines = shown.splitlines()
    assert lines[0] == "### benchkit: regressed"
    assert "> The hosts have drifted: kernel." in lines
    table = [line for line in lines if line.startswith("|")]
    assert table[0] == "| cell | metric | baseline | value | ratio | interval | p | difference | gate |"
    assert len(table) == 5
    assert len({re.sub(r"\\\|", "", line).count("|") for line in table}) == 1
    assert table[3].startswith("| `stack=slow` | RPS | 100 | 50.0 | 0.500 |")
    assert table[3].endswith("| lower (worse) | **regressed** |")
    assert shown.endswith("\n")
    bare = markdown(compared.model_copy(update={"gate": None}))
    assert bare.startswith("### benchkit: 1 of 3 comparisons show a difference")


def test_markdown_has_the_results_of_claims(compared: RunComparison) -> None:
    claim = ClaimResult(
        text=HOSTILE, expectation="at least 2", metric="rps", published=2.5, state="refuted", reason="0.5 [0.4, 0.6]"
    )
    lines = markdown(compared.model_copy(update={"claims": (claim,)})).splitlines()
    place = lines.index("| claim | published | measured here |  |")
    assert lines[place + 2] == f"| {markdown_text(HOSTILE)} | 2.5 | {markdown_text('0.5 [0.4, 0.6]')} | **refuted** |"


def test_markdown_leaves_hostile_names_as_text() -> None:
    shown = markdown_text(HOSTILE)
    assert "<script" not in shown
    assert "@root" not in shown
    assert "\n" not in shown
    assert "\\|" in shown
    named = markdown_code(HOSTILE)
    assert "\n" not in named
    assert re.fullmatch(r"``[^\n]*``", named)
    assert not re.search(r"(?<!\\)\|", named)
    assert markdown_text("https://example.org") == "https:<!-- -->//example.org"
    assert markdown_text("- item") == "\\- item"
    assert markdown_text("1. item") == "1\\. item"


@given(st.text(max_size=40))
@example("\\|")
def test_no_name_breaks_out_of_its_place_in_a_table(name: str) -> None:
    for shown in (markdown_text(name), markdown_code(name)):
        assert not re.search(r"[\n\r]|(?<!\\)\|", shown.replace("\\\\", ""))
    assert "<" not in markdown_text(name).replace("<!-- -->", "")


def test_junit_counts_what_it_holds(compared: RunComparison) -> None:
    root = ET.fromstring(junit(compared.model_copy(update={"notes": ("said first",)})))  # noqa: S314 - our own
    assert root.tag == "testsuites"
    assert [root.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["3", "1", "1", "0"]
    (suite,) = root.findall("testsuite")
    assert suite.get("name") == "rps"
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "stack=nginx over stack=go",
        "stack=slow over stack=go",
        "stack=wild over stack=go",
    ]
    assert [[child.tag for child in case] for case in cases] == [[], ["failure"], ["error"]]
    failure = cases[1].find("failure")
    assert failure is not None
    assert (failure.get("message") or "").endswith("at least 0.9 is allowed")
    assert [child.tag for child in suite] == ["properties", "testcase", "testcase", "testcase", "system-out"]
    assert suite.findtext("system-out") == "said first"


@given(st.text(max_size=60))
def test_junit_escapes_hostile_text(name: str) -> None:
    line = GateLine(metric=name, cell_id=name, baseline=HOSTILE, limit=0.9, verdict="regressed", text=name)
    side = ComparedRun(run_id=name, scenario=name, scale="lab", seed=1, design="blocks", status="done")
    made = RunComparison(
        mode="cells",
        runs=(side,),
        metrics=(name,),
        notes=(name, HOSTILE),
        alpha=0.05,
        level=0.05,
        ratios=(),
        resolution={},
        gate=GateResult(verdict="regressed", thresholds={name: 0.1}, lines=(line,)),
    )
    root = ET.fromstring(junit(made))  # noqa: S314 - our own
    assert len(root.findall("testsuite/testcase/failure")) == 1


def test_junit_needs_a_gate(compared: RunComparison) -> None:
    with pytest.raises(InputError, match="JUnit XML needs a gate"):
        junit(compared.model_copy(update={"gate": None}))


BENCH_LINE = re.compile(r"Benchmark[^a-z\s]\S*\t[1-9]\d*(\t-?\d+(\.\d+)?([eE][-+]?\d+)? \S+)+")
"""Go proposal 14313: a name that begins with Benchmark and does not continue in lower case, a count, values with
units."""


def test_benchstat_reads_one_line_per_trial() -> None:
    cells: list[Levels] = [{"stack": "go", "n": 8}, {"stack": "x-8", "n": 8}]
    trials = trials_of({"stack=go,n=8": [100, 101], "stack=x-8": [50, 51]}, latency_p99_s=0.0125)
    trials.loc[0, "kind"] = "profile"
    excluded = Exclusion("r1.stack=go,n=8.b2", "saturated", frozenset({"rps"}))
    shown = benchstat(manifest_of(cells, versions={"benchkit": "0.1", "sut.Go x": "1 2\n3"}), trials, [excluded])
    lines = shown.splitlines()
    assert lines[:5] == ["scenario: small", "scale: lab", "# run: r1", "# benchkit: 0.1", "# sut.Go x: 1 2 3"]
    assert [line for line in lines if line.startswith("Unit")] == [
        "Unit req/s better=higher",
        "Unit p99-sec better=lower",
    ]
    assert "# latency: closed loop: coordinated omission hides queueing; the tool does not state a correction" in lines
    results = [line for line in lines if line.startswith("Benchmark")]
    assert all(BENCH_LINE.fullmatch(line) for line in results)
    assert results == [
        "BenchmarkSmall/stack=x-8-1\t50000\t50 req/s\t0.0125 p99-sec",
        "BenchmarkSmall/stack=go/n=8\t50000\t0.0125 p99-sec",
        "BenchmarkSmall/stack=x-8-1\t50000\t51 req/s\t0.0125 p99-sec",
    ]


def buckets(values: np.ndarray[tuple[int], np.dtype[np.int64]], trial: str = "t") -> pd.DataFrame:
    """Return rows of `latency` for these microseconds, as an HdrHistogram of three digits counts them."""
    histogram = HdrHistogram(1, 3_600_000_000, 3)
    for value in values.tolist():
        histogram.record_value(value)
    rows = [
        {
            "trial_id": trial,
            "series": "raw",
            "low_s": histogram.get_lowest_equivalent_value(item.value_iterated_to) / 1e6,
            "high_s": histogram.get_highest_equivalent_value(item.value_iterated_to) / 1e6,
            "count": item.count_added_in_this_iter_step,
        }
        for item in histogram.get_recorded_iterator()
    ]
    return pd.DataFrame(rows)


def test_hgrm_has_hdrhistograms_steps_and_values() -> None:
    values = np.random.default_rng(1).integers(100, 50_000, 10_000)
    lines = hgrm(buckets(values)).splitlines()
    assert lines[0].split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    assert lines[1] == ""
    table = [[float(field) for field in line.split()] for line in lines[2:] if not line.startswith("#")]
    steps = [row[1] for row in table]
    # Five steps to each half of what is left, as the Java library's percentile iterator takes them.
    assert steps[:14] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.775, 0.8, 0.825])
    assert steps[-1] == 1
    assert len(table[-1]) == 3
    assert table[-1][2] == 10_000
    histogram, ordered = HdrHistogram(1, 3_600_000_000, 3), np.sort(values)
    for value, step, count, *rest in table:
        at = int(ordered[max(0, math.ceil(round(step * 10_000, 6)) - 1)])
        assert value == pytest.approx(histogram.get_highest_equivalent_value(at) / 1e3)
        assert count >= step * 10_000 - 1e-6
        assert rest == ([] if step == 1 else [pytest.approx(1 / (1 - step), abs=0.006)])
    summary = " ".join(line for line in lines if line.startswith("#"))
    mean, deviation, longest, total = (float(number) for number in re.findall(r"= +([\d.]+)", summary)[:4])
    assert mean == pytest.approx(values.mean() / 1e3, rel=1e-3)
    assert deviation == pytest.approx(values.std() / 1e3, rel=1e-3)
    assert longest == pytest.approx(values.max() / 1e3, rel=1e-3)
    assert total == 10_000


def test_hgrm_of_one_value_and_of_none() -> None:
    lines = hgrm(buckets(np.array([1500]))).splitlines()
    assert [line.split()[:3] for line in lines[2:4]] == [
        ["1.500", "0.000000000000", "1"],
        ["1.500", "1.000000000000", "1"],
    ]
    assert lines[4].startswith("#[Mean")
    with pytest.raises(InputError, match="no histogram to export"):
        hgrm(buckets(np.array([1])).iloc[:0])


def test_the_histograms_of_a_cell_are_merged() -> None:
    trials = trials_of({"a": [1, 2], "b": [1, 2]})
    trials.loc[trials["trial_id"] == "r1.a.b2", "kind"] = "profile"
    ones, twos = np.full(10, 1_000), np.full(5, 2_000)
    latency = pd.concat([buckets(ones, "r1.a.b1"), buckets(ones, "r1.b.b1"), buckets(twos, "r1.b.b2")])
    latency = pd.concat([latency, buckets(twos, "r1.a.b2")])
    found = merged_by_cell(trials, latency, "raw", ["a", "b", "c"])
    assert list(found) == ["a", "b"]
    assert "Total count    =           10" in found["a"]
    assert "Total count    =           15" in found["b"]
    assert math.isclose(float(found["b"].splitlines()[2].split()[0]), 1.0)
    assert merged_by_cell(trials, latency, "corrected", ["a"]) == {}


CELLS = [{"stack": "old"}, {"stack": 'new"'}]
RATES = {"stack=old": [100.0, 102, 98, 101], 'stack=new"': [50.0, 52, 49, 50]}

BMF_SCHEMA = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
        }
    },
}
"""The schema of Bencher Metric Format, with the properties that it names and no others."""

SAMPLE = re.compile(r'(?P<name>[a-z_0-9]+)\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+\} (?P<value>\S+) \d+\.\d{3}')
"""A sample line of OpenMetrics 1.0: name, labels, value, time."""


@pytest.fixture
def data(tmp_path: Path, stored: StoreRun) -> RunData:
    tags = {"repository": "https://github.com/some/server"}
    for i, run_id in enumerate(("r1", "r2")):
        code = CodeState(commit=f"{i}" * 40, is_modified=bool(i))
        manifest = manifest_of(CELLS, run_id=run_id, tags=tags, code=code, started_at=STARTED + timedelta(days=i))
        stored(manifest, trials_of(RATES, run_id=run_id, latency_p99_s=0.002))
    store = Store(tmp_path)
    return read_run_data(store, store.run("r2"))


def test_bencher_metric_format(data: RunData) -> None:
    document = json.loads(bencher_json(data))
    json_schema.validator(BMF_SCHEMA).validate(document)
    assert set(document) == {"small/stack=old", 'small/stack=new"'}
    new = document['small/stack=new"']
    assert new["rps-ratio"]["value"] == pytest.approx(0.5012, rel=1e-3)
    assert new["rps"]["lower_value"] < new["rps"]["value"] < new["rps"]["upper_value"]
    assert "rps-ratio" not in document["small/stack=old"]


def test_conbench_results(data: RunData) -> None:
    results = json.loads(conbench_json(data))
    rates = [result for result in results if result["tags"]["metric"] == "rps"]
    assert [result["stats"]["data"] for result in rates] == [pytest.approx(each) for each in RATES.values()]
    for result in results:
        assert result["tags"]["name"] == "small"
        assert result["stats"]["iterations"] == len(result["stats"]["data"]) == 4
        assert result["github"] == {"commit": "1" * 40, "repository": "https://github.com/some/server"}
        assert ("machine_info" in result) is not ("cluster_info" in result)


def test_openmetrics_text(data: RunData) -> None:
    lines = openmetrics(data).splitlines()
    assert lines[-1] == "# EOF"
    family, values = "", {}
    for line in lines[:-1]:
        if line.startswith("# TYPE "):
            family = line.split()[2]
            assert line.endswith(" gauge")
        elif line.startswith("# UNIT "):
            assert family.endswith(f"_{line.split()[3]}"), "a name ends in its unit"
        elif not line.startswith("# HELP "):
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            assert match["name"] == family, "samples follow the head of their family"
            values[family, 'new\\""' in line] = float(match["value"])
    assert values["benchkit_rps_ratio", True] == pytest.approx(0.5012, rel=1e-3)
    assert values["benchkit_latency_p99_seconds", False] == pytest.approx(0.002)
    assert values["benchkit_rps_low", True] < values["benchkit_rps", True] < values["benchkit_rps_high", True]
    assert all(math.isfinite(value) for value in values.values())


def test_otava_csv_has_a_row_for_each_run(tmp_path: Path, data: RunData) -> None:
    text = otava_csv([history("small", metric=metric, store=tmp_path) for metric in ("rps", "latency_p99_s")])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["run"] for row in rows] == ["r1", data.manifest.run_id]
    assert rows[1]["commit"] == "1" * 12
    assert rows[0]["time"] == "2026-03-01 10:00:00 +0000"
    assert float(rows[0]["rps_stack_new_relative_to_stack_old"]) == pytest.approx(0.5012, rel=1e-3)
    assert float(rows[0]["latency_p99_s_stack_new_relative_to_stack_old"]) == pytest.approx(1)
