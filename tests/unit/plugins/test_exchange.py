from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

from benchkit.comparison.run_data import RunData, read_run_data
from benchkit.models.run import CodeState, Manifest
from benchkit.plugins.export.formats import bencher_json, conbench_json, openmetrics, otava_csv
from benchkit.run_history.series import history
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from tests.support import json_schema
from tests.support.comparison.fixtures import STARTED

MakeTrials = Callable[..., pd.DataFrame]
MakeManifest = Callable[..., Manifest]
StoreRun = Callable[[Manifest, pd.DataFrame], RunFolder]
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
def data(tmp_path: Path, make_trials: MakeTrials, make_manifest: MakeManifest, stored: StoreRun) -> RunData:
    tags = {"repository": "https://github.com/some/server"}
    for i, run_id in enumerate(("r1", "r2")):
        code = CodeState(commit=f"{i}" * 40, is_modified=bool(i))
        manifest = make_manifest(CELLS, run_id=run_id, tags=tags, code=code, started_at=STARTED + timedelta(days=i))
        stored(manifest, make_trials(RATES, run_id=run_id, latency_p99_s=0.002))
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
