"""Scripts of k6 as loads on a lab: their own scenarios and thresholds, and a script that goes on beyond its window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.models.trial import TrialRecord
from benchkit.store.store import Store
from tests.bench.real_runs import run_once
from tests.support.builders import load, read_scenario

SCRIPT = """\
import http from 'k6/http';
import { path } from './lib/path.js';
export const options = { %s };
export default function () { http.get(`${__ENV.BENCHKIT_URL}${path}`); }
"""


def run_script(lab: Lab, folder: Path, options: str, **fields: object) -> tuple[dict[str, Any], TrialRecord]:
    """Run one trial with a script of these options; return its row of `trials`, and its record."""
    (folder / "lib").mkdir()
    (folder / "shop.js").write_text(SCRIPT % options)
    (folder / "lib" / "path.js").write_text("export const path = '/';")
    wanted = load(**{"tool": "k6", "script": "shop.js", "connections": 2, "duration_s": 2, **fields})
    experiment = read_scenario(folder, load=wanted, blocks=1)
    with connect_all(lab.inventory()) as hosts:
        run_id = run_once(folder / "store", experiment, hosts)
    store = Store(folder / "store")
    (record,) = store.run(run_id).records()
    (generator,) = record.generators
    assert generator.result is not None
    return generator.result.model_dump(), record


def test_a_script_keeps_its_scenarios_and_thresholds(lab: Lab, tmp_path: Path) -> None:
    options = (
        "scenarios: { few: { executor: 'shared-iterations', vus: 3, iterations: 90 } }, "
        "thresholds: { http_req_duration: ['p(95)<0.0001'], http_reqs: ['count<1000'] }"
    )
    result, _ = run_script(lab, tmp_path, options)
    assert (result["requests"], result["status"], result["complete"]) == (90, {"200": 90}, True)
    (crossed,) = [note["message"] for note in result["notes"] if note["code"] == "k6-thresholds"]
    assert crossed == "k6 says: thresholds on metrics 'http_req_duration' have been crossed"


def test_a_script_without_scenarios_has_the_connections_and_the_window(lab: Lab, tmp_path: Path) -> None:
    result, record = run_script(lab, tmp_path, "discardResponseBodies: true", warmup_s=1)
    assert result["requests"] > 10
    assert 1.5 < result["duration_s"] < record.wall_s, "to the last answer, which a busy machine delays"


def test_a_script_beyond_its_window_is_ended_and_judged_by_its_window(lab: Lab, tmp_path: Path) -> None:
    result, record = run_script(lab, tmp_path, "vus: 2, duration: '10m'", duration_s=1)
    assert record.generators[0].wall_s == pytest.approx(1)
    assert result["requests"] > 10
    assert result["duration_s"] < 1.5
